"""Where capture stands among an application's middlewares, as far as applications tell.

Pure looks at objects of any make: the chain of `.app` that ASGI middlewares keep, and the list `user_middleware` of
Starlette and FastAPI, which is ordered outermost first.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

LAYERS_MAX: Final = 50
"""More than anybody stacks; an application whose layers lead back to itself ends here."""


def has_inside(app: Any, capture: type) -> bool:  # noqa: ANN401 - applications of any make
    """Tell whether an application has a middleware of class `capture` among its own, or is wrapped around one."""
    return any(isinstance(layer, capture) or capture in _own(layer) for layer in _layers(app))


def names_outside(scope: Mapping[str, Any], capture: type) -> list[str]:
    """Name the application's own middlewares around the one of class `capture` that got this scope.

    The application puts itself into the scope before its middlewares see it; a scope without one tells of none.
    """
    classes = _own(scope.get("app"))
    inside = classes.index(capture) if capture in classes else len(classes)
    return [getattr(found, "__qualname__", repr(found)) for found in classes[:inside]]


def _layers(app: Any) -> Iterator[Any]:  # noqa: ANN401 - applications of any make
    for _ in range(LAYERS_MAX):
        if app is None:
            return
        yield app
        app = getattr(app, "app", None)


def _own(app: Any) -> list[Any]:  # noqa: ANN401 - applications of any make
    entries = getattr(app, "user_middleware", None)
    return [getattr(entry, "cls", None) for entry in entries] if isinstance(entries, list) else []
