"""The scripted model server: the three dialects on one starlette application, for demo, tests and benchmarks.

What is said comes from `scripts` and `answers`, how it looks on the wire from `chat`, `responses` and `messages`;
this file owns the clock. Tokens are due at fixed moments after the request was read, so that a slow reader does
not change the rate. Requests ask for a script by their model's name:

    uvicorn --factory capture.demo.server:scripted_app --workers 2        (numbers: SCRIPTED_TOKENS=200 ...)
"""

import math
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from capture.demo import chat, messages, responses
from capture.demo.answers import CREATED, Answer, Ask, compose
from capture.demo.scripts import (
    DEAF,
    SCRIPTS,
    BadParameterError,
    Plan,
    ScriptedModel,
    UnknownModelError,
    resolve,
)
from capture.demo.wire import MESSAGES, STATUSES, Dialect, Piece, Problem, ProblemError

DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": chat.DIALECT,
    "/v1/responses": responses.DIALECT,
    "/v1/messages": messages.DIALECT,
}

EVENT_STREAM = "text/event-stream; charset=utf-8"
NOT_JSON = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
RETRY_COUNT = "x-stainless-retry-count"
"""The official SDKs say in it which attempt this is; the demo's driver does too."""


class ScriptedError(RuntimeError):
    """The exception that a script asks the application to raise."""


class Job(msgspec.Struct, frozen=True):
    """One call: what was asked, what to do, the answer, and the moment (of anyio's clock, s) it was read."""

    dialect: Dialect
    ask: Ask
    plan: Plan
    answer: Answer
    read_at: float

    def due(self, tokens: int) -> float:
        """Return the moment at which the token of this number, counted from 1, may leave."""
        model = self.plan.model
        paced = (tokens - 1) / model.tokens_per_s if model.tokens_per_s and tokens else 0.0
        return self.read_at + model.think_time_ms / 1000 + paced


class DeafStream(StreamingResponse):
    """A raw ASGI loop: it sends its pieces and never calls `receive`, so it cannot know that its client left."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send everything, whoever still reads it."""
        await self.stream_response(send)


class Unsent(Response):
    """No response at all, for a client that has left before there was one."""

    async def __call__(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        """Send nothing."""


def create_app(model: ScriptedModel | None = None) -> Starlette:
    """Return the server's application; `model` gives the numbers that neither a script nor a request sets."""
    numbers = model or ScriptedModel()
    routes = [
        Route(path, partial(_complete, dialect, numbers), methods=["POST"])
        for path, dialect in DIALECTS.items()
    ]
    routes += [
        Route("/v1/messages/count_tokens", _count_tokens, methods=["POST"]),
        Route("/v1/models", _models),
        Route("/health", _health),
    ]
    return Starlette(routes=routes)


def scripted_app() -> Starlette:
    """Return the application with its numbers from the environment; for `uvicorn --factory`."""
    return create_app(ScriptedModel.from_environ(os.environ))


async def _complete(dialect: Dialect, numbers: ScriptedModel, request: Request) -> Response:
    """Answer one call of any dialect."""
    body = await request.body()
    headers = {dialect.request_id: "req_" + secrets.token_hex(12)}
    try:
        job = _begin(dialect, numbers, body, _attempt(request))
    except ProblemError as error:
        return _json(
            dialect.error(error.problem), STATUSES[error.problem.kind], headers | dict(error.headers)
        )
    if job.plan.script.breaks == "garbage":
        return Response(NOT_JSON, headers=headers, media_type="application/json")
    if job.plan.script.breaks == "raise" and not job.plan.model.at:
        raise ScriptedError(job.plan.served)
    return _streamed(job, headers) if job.ask.stream else await _unstreamed(job, request, headers)


def _attempt(request: Request) -> int:
    text = request.headers.get(RETRY_COUNT, "")
    return int(text) if text.isdecimal() else 0


def _begin(dialect: Dialect, numbers: ScriptedModel, body: bytes, attempt: int) -> Job:
    """Understand a request; raises ProblemError for one that gets no answer, by its fault or by its script's."""
    ask = dialect.read(body)
    try:
        plan = resolve(ask.model, numbers)
    except UnknownModelError as error:
        raise ProblemError("not_found", f"The model `{error}` does not exist.") from error
    except BadParameterError as error:
        raise ProblemError("bad_request", f"The model's parameters: {error}") from error
    if plan.script.refuses and attempt < plan.model.failures:
        raise ProblemError(plan.script.refuses, headers=_retry_after(plan))
    return Job(dialect, ask, plan, compose(ask, plan), anyio.current_time())


def _retry_after(plan: Plan) -> Mapping[str, str]:
    """Both headers that the official SDKs read; the one in whole seconds is HTTP's own."""
    wait_ms = plan.model.retry_after_ms
    limited = plan.script.refuses == "rate_limit"
    return {"retry-after": str(math.ceil(wait_ms / 1000)), "retry-after-ms": str(wait_ms)} if limited else {}


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:  # noqa: ANN401
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _streamed(job: Job, headers: Mapping[str, str]) -> Response:
    style = DeafStream if job.plan.deaf else StreamingResponse
    return style(_paced(job), headers={**headers, "cache-control": "no-cache"}, media_type=EVENT_STREAM)


async def _paced(job: Job) -> AsyncIterator[bytes]:
    """Yield each piece when its last token is due; what carries no token follows the piece before it at once."""
    spoken = 0
    for piece in _pieces(job):
        spoken += piece.tokens
        if piece.tokens:
            await anyio.sleep_until(job.due(spoken))
        yield piece.data


def _pieces(job: Job) -> Iterator[Piece]:
    """Yield the stream as the script wants it: whole, or broken after its number of tokens."""
    spoken = 0
    for sent, piece in enumerate(job.dialect.events(job.ask, job.answer)):
        if job.plan.script.breaks and spoken + piece.tokens > job.plan.model.at:
            yield from BREAKS[job.plan.script.breaks](job, sent)
            return
        spoken += piece.tokens
        yield piece


def _fail(job: Job, sent: int) -> Iterator[Piece]:
    return job.dialect.failing(job.ask, job.answer, Problem("overloaded", MESSAGES["overloaded"]), sent)


def _cut(_job: Job, _sent: int) -> Iterator[Piece]:
    return iter(())


def _raise(job: Job, _sent: int) -> Iterator[Piece]:
    raise ScriptedError(job.plan.served)


BREAKS = {"error": _fail, "cut": _cut, "raise": _raise}
"""What comes instead of the rest of a stream."""


async def _unstreamed(job: Job, request: Request, headers: Mapping[str, str]) -> Response:
    """Answer at the moment the last token is due; a client that is seen to leave before gets nothing."""
    if not await _stays(request, job.due(job.answer.output_tokens), deaf=job.plan.deaf):
        return Unsent()
    breaks = job.plan.script.breaks
    if breaks == "raise":
        raise ScriptedError(job.plan.served)
    if breaks == "error":
        problem = Problem("server_error", MESSAGES["server_error"])
        return _json(job.dialect.error(problem), STATUSES[problem.kind], headers)
    body = msgspec.json.encode(job.dialect.whole(job.ask, job.answer))
    kept = body[: len(body) // 2] if breaks == "cut" else body
    return Response(kept, headers=headers, media_type="application/json")


async def _stays(request: Request, until: float, *, deaf: bool) -> bool:
    """Wait until that moment (of anyio's clock, s) and say whether the client was not seen to leave."""
    if deaf:
        await anyio.sleep_until(until)
        return True
    with anyio.CancelScope(deadline=until):
        while (await request.receive())["type"] != "http.disconnect":
            pass
        return False
    return True


async def _count_tokens(request: Request) -> Response:
    try:
        ask = messages.read(await request.body())
    except ProblemError as error:
        return _json(messages.error(error.problem), STATUSES[error.problem.kind])
    return _json({"input_tokens": ask.input_tokens})


async def _models(_request: Request) -> Response:
    """List the scripts in a shape that satisfies both providers' SDKs."""
    names = [*SCRIPTS, *(name + DEAF for name in SCRIPTS)]
    entries = [
        {
            "id": name,
            "object": "model",
            "created": CREATED,
            "owned_by": "scripted",
            "type": "model",
            "display_name": SCRIPTS[name.removesuffix(DEAF)].about,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
        }
        for name in names
    ]
    return _json(
        {"object": "list", "data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}
    )


async def _health(_request: Request) -> Response:
    return _json({"status": "ok", "pid": os.getpid()})
