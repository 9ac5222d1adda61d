"""Applications driven in this process, without sockets, and the account of what became of their calls."""

import json
from types import TracebackType
from typing import Any, Self

from capture import CaptureMiddleware
from capture.tap import Message, Receive, Scope, Send
from pipeline.runner import Pipeline

ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


async def chat_app(_: Scope, receive: Receive, send: Send) -> None:
    """Answer any request with one small chat completion."""
    while (await receive()).get("more_body"):
        continue
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


class Served:
    """A middleware under test, whose pipeline is ended with the test."""

    def __init__(self, middleware: CaptureMiddleware) -> None:
        self.middleware = middleware

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that the middleware has joined; joins it if need be."""
        return self.middleware.recorder().pipeline

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.pipeline.close(10)


def scope_of(rollout_id: str, **changes: Any) -> Scope:  # noqa: ANN401 - a scope holds anything
    """Make the scope of a call under the prefix."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": f"/ng-rollout/{rollout_id}/v1/chat/completions",
        "raw_path": f"/ng-rollout/{rollout_id}/v1/chat/completions".encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json")],
        **changes,
    }


async def serve_one(served: Served, scope: Scope, body: bytes) -> list[Message]:
    """Serve one call; return what was sent."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        sent.append(message)

    await served.middleware(scope, receive, send)
    return sent


async def serve_calls(served: Served, rollout_id: str, count: int, padding: str = "") -> None:
    """Serve calls one after the other, each with a mark of its own."""
    for number in range(count):
        body = json.dumps({"model": "m", "messages": [], "metadata": {"mark": number}, "padding": padding})
        await serve_one(served, scope_of(rollout_id), body.encode())


def conserved(pipeline: Pipeline) -> dict[str, int]:
    """Assert the conservation law on a drained pipeline's ledger; return its counters."""
    counts, states = pipeline.ledger.counts, pipeline.ledger.states()
    ended = sum(counts[name] for name in ("committed", "dropped", "failed", "skipped"))
    assert pipeline.ledger.started() == ended + states["open"] + states["accepted"] + states["spilled"]
    return counts
