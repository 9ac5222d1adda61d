"""`CaptureMiddleware`: pure ASGI, outermost. Scope, receive and send pass through; messages stay the same objects.

The middleware keeps configuration only; everything that runs begins at the first scope it sees, so that an
application can be built before a fork. Off or on, the rollout prefix is taken off the path before the application
sees it, on a copy of the scope. It never calls receive or send for itself.
"""

import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio.to_thread

from pipeline import sharing
from pipeline.log import Repeated, log

from .annotate import CurrentExchange, enter, leave
from .config import CaptureConfig
from .failures import describe
from .folder import check_directory
from .order import names_outside
from .recorder import Recorder
from .routes import Prefixed, Router
from .tap import Message, Receive, Scope, Send, Tap

ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class CaptureMiddleware:
    """Records the model calls that an ASGI application answers, without touching them.

    `config` is a `CaptureConfig`; without one the settings are read from the environment (`CAPTURE_*`), which is
    what `vllm serve --middleware capture.CaptureMiddleware` and the like need. Raises `CaptureConfigError` for
    settings that cannot be used, and for a directory that cannot be written.
    """

    def __init__(self, app: ASGIApp, config: CaptureConfig | None = None) -> None:
        self.app = app
        self.config = config if config is not None else CaptureConfig.from_environ(os.environ)
        self._router = Router(self.config)
        self._recorder: Recorder | None = None
        self._said = Repeated()
        self._order_checked = False
        self._failed: Exception | None = None
        self._try_again_at = 0.0
        self._enabled = self.config.enabled
        if self._enabled:
            check_directory(self.config)
            self._settings = self.config.pipeline_settings()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope; a captured exchange under a Tap. One coroutine deep: each more is felt at every chunk."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        prefixed = self._prefixed(scope)
        tap = self._tap(scope, prefixed) if self._enabled and INSIDE not in scope else None
        if prefixed is not None:
            scope = _stripped(scope, prefixed)
        if tap is None:
            await self.app(scope, receive, send)
            return
        exchange = tap.exchange
        outer = enter(exchange)
        try:
            await self.app(_inside(scope, exchange), tap.wrap_receive(receive), tap.wrap_send(send))
        except BaseException as error:
            tap.end(error)
            raise
        finally:
            leave(exchange, outer)
        tap.end(None)

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let what is not HTTP pass untouched, but for the prefix of a WebSocket's path."""
        if scope["type"] == "lifespan" and self._enabled:
            await self._serve_lifespan(scope, receive, send)
            return
        prefixed = self._prefixed(scope) if scope["type"] == "websocket" else None
        await self.app(scope if prefixed is None else _stripped(scope, prefixed), receive, send)

    def _prefixed(self, scope: Scope) -> Prefixed | None:
        """Find the prefix; a scope that is too odd for that is served as it is, and counted."""
        try:
            found = self._router.strip(scope)
            if found is not None and not self._order_checked:
                self._check_order(scope)
        except Exception as error:  # noqa: BLE001 - capture may be broken, serving may not
            self._count_error(error)
            return None
        return found

    def _check_order(self, scope: Scope) -> None:
        """Say loudly, at the first prefixed call, that middlewares outside of capture do not see the served path."""
        self._order_checked = True
        if outside := names_outside(scope, CaptureMiddleware):
            log.error("capture_not_outermost", outside=outside, hint=ORDER_HINT)

    def _tap(self, scope: Scope, prefixed: Prefixed | None) -> Tap | None:
        """Decide whether this exchange is captured, and begin; a fault of our own lets it pass uncaptured."""
        try:
            recorder = self._recorder
            if recorder is None or recorder.pipeline.closed:
                recorder = self.recorder()
            route = self._router.route(scope, prefixed)
            if route is None:
                return None
            if route.stem is None and self.config.uncorrelated == "skip":
                recorder.count_uncorrelated()
                return None
            return Tap(recorder, route, scope)
        except Exception as error:  # noqa: BLE001 - as above
            self._count_error(error)
            return None

    async def _serve_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin with the application, and drain when it has shut down, before the server is told so."""
        try:
            self.recorder()
        except Exception as error:  # noqa: BLE001 - as above
            self._count_error(error)

        async def draining_send(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown"):
                await anyio.to_thread.run_sync(self._leave)
            await send(message)

        await self.app(scope, receive, draining_send)

    def recorder(self) -> Recorder:
        """Return this process's recorder; made at the first scope, and again after a fork or an end.

        Raises what kept it from being made; for a while afterwards the same again, for trying takes milliseconds.
        """
        recorder = self._recorder
        if recorder is None or recorder.pipeline.closed:
            if self._failed is not None and time.monotonic() < self._try_again_at:
                raise self._failed
            main = threading.current_thread() is threading.main_thread()
            try:
                recorder = Recorder(sharing.join(self._settings, in_main_thread=main))
            except Exception as error:
                self._failed, self._try_again_at = error, time.monotonic() + TRY_AGAIN_S
                raise
            self._recorder, self._failed = recorder, None
        return recorder

    def _leave(self) -> None:
        if self._recorder is not None:
            sharing.leave(self._recorder.pipeline)

    def _count_error(self, error: Exception) -> None:
        """Count a fault of our own, and say it; where there is no account to count it in, say it all the same."""
        try:
            if self._enabled:
                self.recorder().count_error(error)
                return
        except Exception as worse:  # noqa: BLE001 - as above
            error = worse
        fault = describe(error, "capture")
        self._said.warning("capture_not_begun", error=f"{fault.type}: {fault.message}")


def _stripped(scope: Scope, prefixed: Prefixed) -> Scope:
    """Return a copy of the scope with the path that the application knows."""
    changed: dict[str, Any] = {"path": prefixed.path}
    if prefixed.raw_path is not None:
        changed["raw_path"] = prefixed.raw_path
    return {**scope, **changed}


def _inside(scope: Scope, exchange: CurrentExchange) -> Scope:
    """Return the scope that the application gets: a copy, with the exchange in a copy of its state."""
    inner = {**scope} if type(scope) is not dict else scope.copy()
    inner[INSIDE] = True
    state = scope.get("state")
    if state is None:
        inner["state"] = {"capture": exchange}
    elif type(state) is dict or isinstance(state, Mapping):
        inner["state"] = {**state, "capture": exchange}
    return inner


ORDER_HINT = "a guard there that looks at paths lets prefixed calls through; serve install(app) instead"
TRY_AGAIN_S = 1.0
INSIDE = "model_call_capture.inside"
"""Set in the scope of a captured exchange, so that an inner capture passes through."""
