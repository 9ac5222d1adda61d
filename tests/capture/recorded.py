"""Record files for tests, made by the real pipeline in this process: a tiny application under `CaptureMiddleware`.

The application answers what the request asks it to, and holds its answer back while the request says so.
"""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio

from capture import CaptureConfig, CaptureMiddleware
from capture.middleware import ASGIApp
from capture.tap import Message, Receive, Scope, Send

ROOT = Path(__file__).parents[2]
ENDLESS = "scripted?tokens=1000&tokens_per_s=20"
"""A scripted model whose answer takes 50 s."""
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


class Call(NamedTuple):
    """One chat call: `text` is the answer, `error` the provider's message where it is one."""

    rollout: str | None
    text: str = "hello"
    model: str = "m-1"
    error: str | None = None


class Serving:
    """The application while it serves; `release` lets the answers go that are held back."""

    def __init__(self, app: ASGIApp, release: anyio.Event) -> None:
        self._app = app
        self.release = release

    async def call(self, call: Call, *, hold: bool = False) -> None:
        """Make one call and wait for its end."""
        answer = _answer(call)
        body = json.dumps({"model": call.model, "messages": [], "answer": answer, "hold": hold}).encode()
        headers = [] if call.rollout is None else [(b"x-rollout-id", call.rollout.encode())]
        await self._app(_scope(headers), _receives({"type": "http.request", "body": body}), _ignore)


@asynccontextmanager
async def serving(directory: Path, **settings: Any) -> AsyncIterator[Serving]:  # noqa: ANN401 - typed by CaptureConfig
    """Serve with capture on, from start-up to an orderly shutdown."""
    release = anyio.Event()
    config = CaptureConfig(enabled=True, directory=directory, flush_interval_ms=5, **settings)
    app = CaptureMiddleware(_application(release), config)
    to_app, from_app = (
        anyio.create_memory_object_stream[Message](1),
        anyio.create_memory_object_stream[Message](1),
    )
    with to_app[0], to_app[1], from_app[0], from_app[1]:
        async with anyio.create_task_group() as group:
            group.start_soon(app, {"type": "lifespan"}, to_app[1].receive, from_app[0].send)
            await to_app[0].send({"type": "lifespan.startup"})
            await from_app[1].receive()
            yield Serving(app, release)
            await to_app[0].send({"type": "lifespan.shutdown"})
            await from_app[1].receive()


def record(directory: Path, *calls: Call, **settings: Any) -> None:  # noqa: ANN401 - typed by CaptureConfig
    """Record calls, one after the other, and end the server process's part in order."""

    async def run() -> None:
        async with serving(directory, **{"worker_kind": "thread", **settings}) as server:
            for call in calls:
                await server.call(call)

    anyio.run(run)


def open_call(url: str, rollout: str, model: str = ENDLESS) -> socket.socket:
    """Begin a streamed call to a scripted server on a socket of its own; return once the first byte is there."""
    parts = urlsplit(url)
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "go"}]})
    peer = socket.create_connection((parts.hostname, parts.port), timeout=20)
    peer.sendall(
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-rollout-id: {rollout}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    )
    assert peer.recv(1) == b"H"
    return peer


def _application(release: anyio.Event) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for moment in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{moment}.complete"})
            return
        asked = json.loads((await receive())["body"])
        if asked["hold"]:
            await release.wait()
        status = 400 if "error" in asked["answer"] else 200
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(asked["answer"]).encode()})

    return app


def _answer(call: Call) -> dict[str, Any]:
    if call.error is not None:
        return {
            "error": {"message": call.error, "type": "invalid_request_error", "code": None, "param": None}
        }
    message = {"role": "assistant", "content": call.text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "c1", "object": "chat.completion", "model": call.model, "choices": [choice], "usage": USAGE}


def _scope(headers: list[tuple[bytes, bytes]]) -> Scope:
    path = "/v1/chat/completions"
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
    }


def _receives(message: Message) -> Receive:
    async def receive() -> Message:
        return message

    return receive


async def _ignore(_: Message) -> None:
    """Be a client that reads everything."""
