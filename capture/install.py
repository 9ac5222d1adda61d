"""`install(app, config)`: capture around a finished application, outermost.

The prefix changes the path, so a guard outside of capture that looks at paths would not see `/v1` behind it and let
a call through without its key. Capture therefore wraps the whole application. The unsafe orders that can be seen,
capture among an application's own middlewares or behind one that was put around it, are refused; where only the first
call shows that others are outside, it is logged.
"""

from .config import CaptureConfig
from .errors import CaptureConfigError
from .middleware import ASGIApp, CaptureMiddleware
from .order import has_inside

_INSIDE = (
    "the application has CaptureMiddleware among its own middlewares, where others may be outside of it and would "
    "not see the served path; take it out and serve what install() returns"
)


def install(app: ASGIApp, config: CaptureConfig | None = None) -> CaptureMiddleware:
    """Return `app` under capture; serve what is returned.

    Without `config` the settings come from the environment. Raises `CaptureConfigError` for settings that cannot be
    used, and for an application that has capture inside already, behind other middlewares.
    """
    if isinstance(app, CaptureMiddleware):
        raise CaptureConfigError(["the application is under capture already; install it once, outermost"])
    if has_inside(app, CaptureMiddleware):
        raise CaptureConfigError([_INSIDE])
    return CaptureMiddleware(app, config)
