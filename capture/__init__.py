"""Record every LLM call that an ASGI model server answers, with no effect on response latency.

Server side: `CaptureConfig`, `CaptureMiddleware`, `install`, `current`. Caller's side: `rollout_context`,
`prefixed_url`, `capture.hooks`. Reading side: `CaptureStore` and the views of what it reads. Names load on first use,
so a server pays only for what it uses.
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

    from .addresses import prefixed_url
    from .annotate import CurrentExchange, current
    from .config import CaptureConfig
    from .errors import CaptureConfigError, CaptureError, NoCallsError, UncorrelatedCallError
    from .install import install
    from .merge import amerge_capture_into_record, merge_capture_into_record
    from .metrics import RolloutMetrics, aggregate_rollout_metrics, aggregate_step_records
    from .middleware import CaptureMiddleware
    from .rollout import (
        check_rollout_id,
        current_rollout_id,
        make_rollout_id,
        next_attempt,
        rollout_context,
        rollout_id_from_run,
    )
    from .status import InFlight, ServerStatus, Status
    from .steps import StepRecord, assemble_step_records, lineage_of
    from .store import CaptureStore, Cleared, PendingCall, Settled, StoredRecord
    from .trajectory import Trajectory, TrajectoryItem, assemble_rollout

__all__ = [  # noqa: RUF022 - grouped by who needs them
    # The server side.
    "CaptureConfig",
    "CaptureMiddleware",
    "install",
    "current",
    "CurrentExchange",
    # The caller's side.
    "rollout_context",
    "current_rollout_id",
    "make_rollout_id",
    "check_rollout_id",
    "next_attempt",
    "prefixed_url",
    "rollout_id_from_run",
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
    # Views of a rollout's records.
    "assemble_step_records",
    "StepRecord",
    "lineage_of",
    "aggregate_rollout_metrics",
    "aggregate_step_records",
    "RolloutMetrics",
    "assemble_rollout",
    "Trajectory",
    "TrajectoryItem",
    "merge_capture_into_record",
    "amerge_capture_into_record",
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
    "rollout_context": "capture.rollout",
    "current_rollout_id": "capture.rollout",
    "make_rollout_id": "capture.rollout",
    "check_rollout_id": "capture.rollout",
    "next_attempt": "capture.rollout",
    "prefixed_url": "capture.addresses",
    "rollout_id_from_run": "capture.rollout",
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
    "assemble_step_records": "capture.steps",
    "StepRecord": "capture.steps",
    "lineage_of": "capture.steps",
    "aggregate_rollout_metrics": "capture.metrics",
    "aggregate_step_records": "capture.metrics",
    "RolloutMetrics": "capture.metrics",
    "assemble_rollout": "capture.trajectory",
    "Trajectory": "capture.trajectory",
    "TrajectoryItem": "capture.trajectory",
    "merge_capture_into_record": "capture.merge",
    "amerge_capture_into_record": "capture.merge",
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
