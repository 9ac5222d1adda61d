"""Record every LLM call that an ASGI model server answers, with no effect on response latency.

Server side: `CaptureConfig`, `CaptureMiddleware`, `install`, `current`. Reading side: `CaptureStore`. Names load on
first use, so a server pays only for what it uses.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .shadow import refuse_shadow
from .system import refuse_system

refuse_system(sys.platform)
refuse_shadow("pipeline")

from pipeline.version import __version__  # noqa: E402 - only once `pipeline` is known to be ours

if TYPE_CHECKING:
    from pipeline.gaps import Gap
    from pipeline.record import ModelCallRecord

    from .annotate import CurrentExchange, current
    from .config import CaptureConfig
    from .errors import CaptureConfigError, CaptureError, NoCallsError, UncorrelatedCallError
    from .install import install
    from .middleware import CaptureMiddleware
    from .status import InFlight, ServerStatus, Status
    from .store import CaptureStore, Cleared, PendingCall, Settled, StoredRecord

__all__ = [  # noqa: RUF022 - grouped by who needs them
    # The server side.
    "CaptureConfig",
    "CaptureMiddleware",
    "install",
    "current",
    "CurrentExchange",
    # The reading side.
    "CaptureStore",
    "StoredRecord",
    "ModelCallRecord",
    "Settled",
    "PendingCall",
    "Gap",
    "Cleared",
    "Status",
    "ServerStatus",
    "InFlight",
    # What is raised.
    "CaptureError",
    "CaptureConfigError",
    "NoCallsError",
    "UncorrelatedCallError",
    "__version__",
]

_HOMES = {
    "CaptureConfig": "capture.config",
    "CaptureMiddleware": "capture.middleware",
    "install": "capture.install",
    "current": "capture.annotate",
    "CurrentExchange": "capture.annotate",
    "CaptureStore": "capture.store",
    "StoredRecord": "capture.store",
    "ModelCallRecord": "pipeline.record",
    "Settled": "capture.store",
    "PendingCall": "capture.store",
    "Gap": "pipeline.gaps",
    "Cleared": "capture.store",
    "Status": "capture.status",
    "ServerStatus": "capture.status",
    "InFlight": "capture.status",
    "CaptureError": "capture.errors",
    "CaptureConfigError": "capture.errors",
    "NoCallsError": "capture.errors",
    "UncorrelatedCallError": "capture.errors",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - each name has its own type, told above
    """Load a public name on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
