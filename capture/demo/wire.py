"""What the three dialects have in common: events on the wire, provider errors, and the shape of a dialect.

A dialect is a row of five functions without input or output. Its `events` yield the stream piece by piece; each
piece says how many tokens it carries, which is what the server paces and counts faults by.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from capture.demo.answers import Answer, Ask

Json = dict[str, Any]


class Piece(msgspec.Struct, frozen=True):
    """One event as bytes, and the number of tokens in it."""

    data: bytes
    tokens: int = 0


class Problem(msgspec.Struct, frozen=True):
    """A provider's error, whatever the dialect: a kind of `PROBLEMS`, and its text for people."""

    kind: str
    message: str


class ProblemError(Exception):
    """A request that is answered by a `Problem`."""

    def __init__(
        self, kind: str, message: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(kind)
        self.problem = Problem(kind, message or MESSAGES[kind])
        self.headers = headers or {}


STATUSES = {
    "bad_request": 400,
    "context_length": 400,
    "not_found": 404,
    "rate_limit": 429,
    "server_error": 500,
    "overloaded": 529,
}

MESSAGES = {
    "context_length": "prompt is too long: 250000 tokens > 200000 maximum context length",
    "rate_limit": "Rate limit reached: please try again later.",
    "server_error": "The server had an error while processing your request.",
    "overloaded": "Overloaded",
}

Failing = Callable[[Ask, Answer, Problem, int], Iterator[Piece]]


class Dialect(msgspec.Struct, frozen=True):
    """One wire format.

    `read` understands a request's body or raises `ProblemError`; `whole` and `events` are the response unstreamed
    and streamed; `error` is the body of a failed call; `failing` are the events of an error inside a stream, told
    how many events went before. `request_id` names the header that carries the provider's request id.
    """

    read: Callable[[bytes], Ask]
    whole: Callable[[Ask, Answer], Json]
    events: Callable[[Ask, Answer], Iterator[Piece]]
    error: Callable[[Problem], Json]
    failing: Failing
    request_id: str


def event(value: Json, *, tokens: int = 0, named: bool = True) -> Piece:
    """One Server-Sent Event; where it is `named`, its `type` is also its name."""
    head = b"event: " + value["type"].encode() + b"\n" if named else b""
    return Piece(head + b"data: " + msgspec.json.encode(value) + b"\n\n", tokens)


def read_typed(body: bytes, shape: type[Any]) -> Any:  # noqa: ANN401 - an instance of `shape`
    """Decode a request's body, or raise the 400 that a provider would send."""
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as error:
        raise ProblemError("bad_request", f"Could not read the request's body: {error}") from error
    except UnicodeDecodeError as error:
        raise ProblemError("bad_request", "The request's body is not UTF-8.") from error


OPENAI_ERRORS: dict[str, tuple[str, str | None]] = {
    "bad_request": ("invalid_request_error", None),
    "context_length": ("invalid_request_error", "context_length_exceeded"),
    "not_found": ("invalid_request_error", "model_not_found"),
    "rate_limit": ("requests", "rate_limit_exceeded"),
    "server_error": ("server_error", "server_error"),
    "overloaded": ("server_error", "overloaded"),
}


def openai_error(problem: Problem) -> Json:
    """Return the error body of OpenAI's two dialects."""
    kind, code = OPENAI_ERRORS[problem.kind]
    return {"error": {"message": problem.message, "type": kind, "param": None, "code": code}}
