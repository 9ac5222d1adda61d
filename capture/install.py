"""`install(app, config)`: capture around a finished application, outermost.

The prefix changes the path, so a guard outside of capture that looks at paths would not see `/v1` behind it and let
a call through without its key. Capture therefore wraps the whole application. The one unsafe order that can be seen
is an application that has capture among its middlewares already, and it is refused.
"""

from .config import CaptureConfig
from .errors import CaptureConfigError
from .middleware import ASGIApp, CaptureMiddleware

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
    for entry in getattr(app, "user_middleware", ()):
        if getattr(entry, "cls", None) is CaptureMiddleware:
            raise CaptureConfigError([_INSIDE])
    return CaptureMiddleware(app, config)
