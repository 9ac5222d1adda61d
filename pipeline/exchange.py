"""What crosses the queue: a closed, tagged union of immutable values, undecoded.

The edge makes one `RawExchange` per HTTP exchange, and an `Annotation` for what a handler says after its
exchange was handed over. Nothing here is parsed: bodies are the chunks as they passed, headers are already
reduced to the allow-list, and every time is an offset in nanoseconds from the moment the scope was received.
A chunk's edges mean nothing; only its bytes and its arrival time do.
"""

from typing import Any, TypeAlias

import msgspec

EXCHANGE_FORMAT = 1
"""Version of the values in this file; both ends of a pipe check it, so a mixed installation is refused."""

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Lower-case names and values as they crossed the edge, allow-listed there; values are made sure of when framed."""


class Correlation(msgspec.Struct, frozen=True):
    """How the exchange was joined to its rollout.

    `source` names the rule that matched (`header:x-rollout-id`, `prefix`, `baggage`, `header:session-id` ...) or
    is `none`; `value` is what it said; `conflict` is the value of a lower rule that named another rollout.
    """

    source: str
    value: str | None = None
    conflict: str | None = None


class Failure(msgspec.Struct, frozen=True):
    """An exception that crossed the edge: its qualified class name, its text, and whose call raised it.

    `source` is `app` for the application's own exception, `send` for one by which the server's `send` said that
    the connection is gone, and `cancelled` when the task was cancelled or its coroutine was closed. `status_code`
    and `body` are what the exception itself carries of an upstream's answer, if anything.
    """

    type: str
    message: str
    source: str
    status_code: int | None = None
    body: bytes | None = None


class RawExchange(msgspec.Struct, frozen=True, tag="exchange", tag_field="kind", gc=False):
    """One HTTP request and its response as they crossed the server's edge. Immutable, undecoded.

    Times are nanoseconds since the scope was received (`started_at`, Unix seconds), null where the thing never
    happened. The response's chunks come from the edge with readings of the monotonic clock instead, in seconds
    (`response_times_s`), with `zero_s` as the reading at the start: to subtract is not the event loop's work. Workers
    get them as `response_times_ns`. `send_wait_ns` is the time spent in the server's `send`, over all messages.

    `request_bytes` and `response_bytes` are whole sizes; where `request_sha256` or `response_sha256` is set, the
    chunks are only the first part of that body, and the digest is of the whole.

    The edge fills it by position, in this order: by keyword it would be 1.5 us more for each call.
    """

    call_id: bytes
    seq: int
    rollout_id: str | None
    stem: str
    dialect: str
    correlation: Correlation
    method: str
    path: str
    query: str
    started_at: float
    ended_ns: int
    http_version: str | None = None
    request_headers: Headers = ()
    response_headers: Headers = ()
    status_code: int | None = None
    request_read_ns: int | None = None
    response_start_ns: int | None = None
    disconnect_ns: int | None = None
    send_wait_ns: int = 0
    response_complete: bool = False
    listened: bool = False
    double_start: bool = False
    failure: Failure | None = None
    request_chunks: tuple[bytes, ...] = ()
    response_chunks: tuple[bytes, ...] = ()
    response_times_ns: tuple[int, ...] = ()
    response_times_s: tuple[float, ...] = ()
    zero_s: float = 0.0
    request_bytes: int = 0
    response_bytes: int = 0
    request_sha256: bytes | None = None
    response_sha256: bytes | None = None
    annotations: dict[str, Any] | None = None
    events: list[dict[str, Any]] | None = None


class Annotation(msgspec.Struct, frozen=True, kw_only=True, tag="annotation", tag_field="kind"):
    """A handler's notes on an exchange that was already handed over (a background task's, say)."""

    call_id: bytes
    stem: str
    annotations: dict[str, Any] | None = None
    events: list[dict[str, Any]] | None = None
