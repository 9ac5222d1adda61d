"""httpx clients, and clients of the same make, that name the rollout: a hook on their requests.

Needs no import of httpx: what is used is `event_hooks`, which is public there. A redirect is a request of its own.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from .naming import Naming

ClientT = TypeVar("ClientT")

_MARK: Final = "_model_call_capture"


def correlate(client: ClientT, *, required: bool = False, force: bool = False) -> ClientT:
    """Have an `httpx.Client` or `httpx.AsyncClient` name the rollout of each call; returns the client.

    `required` makes a call outside of any rollout raise `UncorrelatedCallError`; `force` names it to a provider's own
    host, too. Once is enough: a second time only changes the two. Raises TypeError for what is no such client.
    """
    hooks = getattr(client, "event_hooks", None)
    if not isinstance(hooks, dict) or "request" not in hooks:
        raise TypeError(f"{type(client).__name__} is no client of httpx's kind: it has no event_hooks")
    hook = _hook(Naming(required, force), is_async=inspect.iscoroutinefunction(getattr(client, "send", None)))
    kept = [each for each in hooks["request"] if not getattr(each, _MARK, False)]
    client.event_hooks = {**hooks, "request": [*kept, hook]}  # type: ignore[attr-defined]  # checked above
    return client


def _hook(naming: Naming, *, is_async: bool) -> Callable[[Any], None] | Callable[[Any], Awaitable[None]]:
    def name(request: Any) -> None:  # noqa: ANN401 - httpx is not imported
        has = {name.lower(): value for name, value in request.headers.items()}
        request.headers.update(naming.headers_to_add(request.url.host, request.url.path, has))

    async def name_async(request: Any) -> None:  # noqa: ANN401 - as above
        name(request)

    hook = name_async if is_async else name
    setattr(hook, _MARK, True)
    return hook
