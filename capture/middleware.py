"""`CaptureMiddleware`: pure ASGI, outermost. Scope, receive and send pass through; messages stay the same objects.

The middleware keeps configuration only; everything that runs begins at the first scope it sees, so that an
application can be built before a fork. Off or on, the rollout prefix is taken off the path before the application
sees it, on a copy of the scope. The only messages it ever adds to are none: it calls neither receive nor send.
"""

import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio.to_thread

from pipeline import sharing
from pipeline.log import log

from .annotate import set_current
from .config import CaptureConfig
from .folder import check_directory
from .recorder import Recorder
from .routes import Prefixed, Route, Router
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
        if self.config.enabled:
            check_directory(self.config)
            self._settings = self.config.pipeline_settings()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope. What is not HTTP passes untouched, but for the prefix of a WebSocket's path."""
        kind = scope["type"]
        if kind == "http":
            await self._serve_http(scope, receive, send)
        elif kind == "lifespan" and self.config.enabled:
            await self._serve_lifespan(scope, receive, send)
        elif kind == "websocket":
            await self.app(self._stripped(scope, self._router.strip(scope)), receive, send)
        else:
            await self.app(scope, receive, send)

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        prefixed = self._router.strip(scope)
        route = None
        if self.config.enabled and INSIDE not in scope:
            route = self._router.route(scope, prefixed)
        scope = self._stripped(scope, prefixed)
        if route is None or (route.stem is None and self._skips_uncorrelated()):
            await self.app(scope, receive, send)
        else:
            await self._capture(route, scope, receive, send)

    async def _capture(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one exchange under a Tap."""
        try:
            tap = Tap(self._running(), route, scope)
        except Exception as error:  # noqa: BLE001 - capture may be broken, serving may not
            log.error("capture_not_begun", error=f"{type(error).__name__}: {error}")
            await self.app(scope, receive, send)
            return
        set_current(tap.exchange)
        inner = {**scope, INSIDE: True, "state": {**(scope.get("state") or {}), "capture": tap.exchange}}
        tapped_receive, tapped_send = tap.wrap(receive, send)
        try:
            await self.app(inner, tapped_receive, tapped_send)
        except BaseException as error:
            tap.end(error)
            raise
        tap.end(None)

    async def _serve_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin with the application, and drain when it has shut down, before the server is told so."""
        self._running()

        async def draining_send(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown"):
                await anyio.to_thread.run_sync(self._leave)
            await send(message)

        await self.app(scope, receive, draining_send)

    def _running(self) -> Recorder:
        """Return this process's recorder; made at the first scope, and again after a fork or an end."""
        recorder = self._recorder
        if recorder is None or recorder.pipeline.closed:
            main = threading.current_thread() is threading.main_thread()
            recorder = self._recorder = Recorder(sharing.join(self._settings, in_main_thread=main))
        return recorder

    def _leave(self) -> None:
        if self._recorder is not None:
            sharing.leave(self._recorder.pipeline)

    def _skips_uncorrelated(self) -> bool:
        if self.config.uncorrelated != "skip":
            return False
        self._running().count_uncorrelated()
        return True

    @staticmethod
    def _stripped(scope: Scope, prefixed: Prefixed | None) -> Scope:
        """Return the scope to serve: the caller's own, or a copy with the path that the application knows."""
        if prefixed is None:
            return scope
        changed: dict[str, Any] = {"path": prefixed.path}
        if prefixed.raw_path is not None:
            changed["raw_path"] = prefixed.raw_path
        return {**scope, **changed}


INSIDE = "model_call_capture.inside"
"""Set in the scope of a captured exchange, so that an inner capture passes through."""
