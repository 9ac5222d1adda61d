"""`uvicorn capture.asgi:app`: any application under capture, by environment alone.

`CAPTURE_APP=module:attribute` names the application, `CAPTURE_ENABLED=1 CAPTURE_DIRECTORY=...` and the other
`CAPTURE_*` variables say how to record. An attribute that is a function without parameters is called for the
application, as servers do with `--factory`.
"""

import inspect
import os
from importlib import import_module
from types import ModuleType
from typing import Any

from .errors import CaptureConfigError
from .install import install
from .middleware import CaptureMiddleware

APP_VARIABLE = "CAPTURE_APP"


def load_app(target: str) -> Any:  # noqa: ANN401 - an ASGI application is any callable of three arguments
    """Import `module:attribute`. Raises CaptureConfigError where that is not what it says."""
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise CaptureConfigError([f"{APP_VARIABLE}={target!r} is not of the form module:attribute"])
    found: Any = _load_module(target, module_name)
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise CaptureConfigError([f"{APP_VARIABLE}={target!r}: {error}"]) from error
    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        found = found()
    if not callable(found):
        raise CaptureConfigError([f"{APP_VARIABLE}={target!r} is a {type(found).__name__}, no application"])
    return found


def _load_module(target: str, name: str) -> ModuleType:
    """Import the module; what its own code raises is the user's to see as it is."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise CaptureConfigError([f"{APP_VARIABLE}={target!r}: {error}"]) from error
        raise


def build() -> CaptureMiddleware:
    """Wrap the application that the environment names."""
    target = os.environ.get(APP_VARIABLE)
    if not target:
        raise CaptureConfigError(
            [f"{APP_VARIABLE} is not set; it names the application, as module:attribute"]
        )
    return install(load_app(target))


app = build()
