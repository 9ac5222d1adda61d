"""A Gym model server under capture: around its whole application, and told by it how it came by each answer.

Gym adds middlewares after a server has set its application up, and says in the request's state whether the model was
asked and what it said. Both are taken care of here without Gym, but for the context in which its own clients look for
the rollout of a call.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Final

from pipeline.log import log

from .annotate import CurrentExchange, current
from .config import CaptureConfig
from .folder import check_directory
from .middleware import ASGIApp, CaptureMiddleware
from .tap import Message, Receive, Scope, Send

MODEL_TYPE: Final = "responses_api_models"
"""What `model_ref` says of every model server."""
EXECUTION: Final = "nemo_gym_model_execution"
"""Where in a request's state Gym's model servers say how they came by their answer."""


def install(app: Any, config: CaptureConfig, *, model_server_name: str | None = None) -> None:  # noqa: ANN401 - Gym's app
    """Put capture around everything that a Starlette or FastAPI application is or becomes until it serves.

    It goes around the application's middlewares when they are built, not in front of those there are now. On or off
    it takes the rollout prefix away. Raises `CaptureConfigError` where the directory cannot be written.
    """
    if config.enabled:
        check_directory(config)
    model_ref = {"type": MODEL_TYPE, "name": model_server_name} if model_server_name else None
    build: Callable[[], ASGIApp] = app.build_middleware_stack

    def build_outermost() -> ASGIApp:
        return _Outermost(_Declaring(build(), model_ref), config)

    app.build_middleware_stack = build_outermost


class _Outermost(CaptureMiddleware):
    """Capture around an application's whole stack, which publishes a prefixed call's rollout as Gym's own does."""

    def __init__(self, app: ASGIApp, config: CaptureConfig) -> None:
        super().__init__(app, config)
        self._publish = _publisher()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        prefixed = self._prefixed(scope) if scope["type"] == "http" else None
        with self._publish(None if prefixed is None else prefixed.rollout_id):
            await super().__call__(scope, receive, send)

    def _check_order(self, scope: Scope) -> None:
        """Say nothing: the application's own middlewares are all inside, though its list does not name this one."""


class _Declaring:
    """Between capture and the application: notes which model server answered, and what it says of its answer."""

    def __init__(self, app: ASGIApp, model_ref: dict[str, str] | None) -> None:
        self.app = app
        self._model_ref = model_ref

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        exchange = current()
        if scope["type"] != "http" or not exchange.call_id:
            await self.app(scope, receive, send)
            return
        if self._model_ref is not None:
            exchange.annotate(model_ref=self._model_ref)
        ended = False

        async def declaring_send(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.body" and not message.get("more_body"):
                ended = True
                _declare(exchange, scope)
            await send(message)

        try:
            await self.app(scope, receive, declaring_send)
        finally:
            if not ended:
                _declare(exchange, scope)


def _declare(exchange: CurrentExchange, scope: Scope) -> None:
    state = scope.get("state")
    said = state.get(EXECUTION) if isinstance(state, Mapping) else None
    if not isinstance(said, Mapping):
        return
    try:
        exchange.annotate(**{str(name): value for name, value in said.items() if value is not None})
    except TypeError as error:  # it costs its note, never the answer that is being sent
        log.warning("gym_execution_unstorable", reason=str(error))


def _publisher() -> Callable[[str | None], AbstractContextManager[Any]]:
    """Return Gym's own context of a rollout; where it has none, or is not there, one that does nothing."""
    try:
        found = import_module("nemo_gym.rollout_correlation").rollout_context
    except (ImportError, AttributeError):
        return nullcontext
    context: Callable[[str | None], AbstractContextManager[Any]] = found
    return context
