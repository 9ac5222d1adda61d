"""Applications under capture in this process: a server that is two lists, and a site that records.

The server hands out the messages it was given, keeps what it was sent, and waits for ever once it has nothing left
to say, as a real one does whose client stays. Records are made by the whole pipeline, with a thread for worker.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from capture import CaptureConfig, CaptureMiddleware, CaptureStore, StoredRecord
from capture.tap import Message, Receive, Scope, Send
from pipeline import sharing
from pipeline.runner import Pipeline

App = Callable[[Scope, Receive, Send], Awaitable[None]]

ROLLOUT = "r"
ASKED = b'{"model":"m","messages":[],"stream":true}'
PIECE = b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
REST = b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
CLOSE_TIMEOUT_S = 5.0


def request(body: Any = ASKED, *, more: bool = False) -> dict[str, Any]:  # noqa: ANN401 - as for `body`
    """Make the message that carries a request, or a piece of it."""
    return {"type": "http.request", "body": body, "more_body": more}


def start(status: int = 200, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any member of the message
    """Make the message that starts an event stream."""
    headers = [(b"content-type", b"text/event-stream")]
    return {"type": "http.response.start", "status": status, "headers": headers} | changes


def body(data: Any, *, more: Any = True) -> dict[str, Any]:  # noqa: ANN401 - bytes, or what applications send for them
    """Make a message that carries a piece of the response."""
    return {"type": "http.response.body", "body": data, "more_body": more}


DISCONNECT: Message = {"type": "http.disconnect"}


def scope(path: str = f"/ng-rollout/{ROLLOUT}/v1/chat/completions", **changes: Any) -> Scope:  # noqa: ANN401 - any member
    """Make the scope of a model call."""
    fields: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json")],
        "state": {"mine": object()},
    }
    return fields | changes


class Server:
    """The server's two callables for one exchange; `fail_at` is the number of the `send` that raises `failure`."""

    def __init__(
        self,
        incoming: Sequence[Message] = (),
        *,
        fail_at: int | None = None,
        failure: BaseException | None = None,
    ) -> None:
        self.incoming = list(incoming)
        self.given: list[Message] = []
        self.sent: list[Message] = []
        self._fail_at = fail_at
        self._failure = failure or OSError("the connection is gone")

    async def receive(self) -> Message:
        """Give the next message; wait for ever where there is none."""
        if not self.incoming:
            await anyio.sleep_forever()
        self.given.append(self.incoming.pop(0))
        return self.given[-1]

    async def send(self, message: Message) -> None:
        """Take a message, or raise."""
        if len(self.sent) == self._fail_at:
            raise self._failure
        self.sent.append(message)


class Site:
    """A capture directory, and applications under capture that record into it. Close it at the end."""

    def __init__(self, directory: Path, **settings: Any) -> None:  # noqa: ANN401 - any setting
        fast = {"worker_kind": "thread", "flush_interval_ms": 5, "fsync": "never"}
        self.config = CaptureConfig(enabled=True, directory=directory, **{**fast, **settings})
        self.store = CaptureStore(directory)

    def around(self, app: App) -> CaptureMiddleware:
        """Put an application under capture."""
        return CaptureMiddleware(app, self.config)

    @property
    def pipeline(self) -> Pipeline:
        """This process's running pipeline for the directory."""
        return sharing.join(self.config.pipeline_settings(), in_main_thread=False)

    async def records(self, rollout: str = ROLLOUT) -> list[StoredRecord]:
        """Settle a rollout and return its records; nothing is pending or missing."""
        settled = await self.store.asettle(rollout)
        assert settled.complete, settled
        return self.store.read(rollout)

    async def record(self, rollout: str = ROLLOUT) -> StoredRecord:
        """Return the one record."""
        (record,) = await self.records(rollout)
        return record

    def faults(self) -> int:
        """Return how many faults of its own capture has counted."""
        return self.pipeline.ledger.counts["capture_errors"]

    def close(self) -> None:
        """End the pipeline, every call accounted for."""
        assert self.pipeline.close(CLOSE_TIMEOUT_S)


def text_of(record: StoredRecord) -> str | None:
    """Return the text of a chat record's first choice."""
    message = record.response["choices"][0]["message"]
    return message["content"] if isinstance(message["content"], str) else None


def says(*messages: Message) -> App:
    """Make an application that reads its request and sends these messages."""

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        for message in messages:
            await send(message)

    return app
