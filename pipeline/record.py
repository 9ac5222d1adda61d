"""The durable form of an exchange, `model-call/1`: one line of strict UTF-8 JSON, `model_call_id` first.

This file is the contract with everyone who reads the files. Fields are added, never removed or retyped;
readers keep fields they do not know and refuse only a higher major version. Null means unknown, never zero.
The order of the fields is the order in the line. Names and meanings of the first block are those of NeMo Gym's
raw capture record, so that its own readers work on these files unchanged.
"""

from typing import Any

import msgspec

SCHEMA = "model-call/1"


OVERFLOW = "context_length_exceeded"
"""The one category that a handler may declare, as `local_response_reason`."""


class CorrelationNote(msgspec.Struct, frozen=True):
    """How the call was joined to its rollout; `conflict` is another id that the same call named."""

    source: str
    value: str | None = None
    conflict: str | None = None


class ServerNote(msgspec.Struct, frozen=True):
    """The server process that served the call."""

    name: str | None
    instance: str
    host: str
    pid: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts in normal form: a report, not a delta. Null is unknown.

    `input_tokens` is the whole prompt: `input_tokens_uncached` + `cache_read_tokens` + `cache_write_tokens`.
    `output_tokens` and `total_tokens` are as reported; reasoning tokens are never added to them.
    """

    input_tokens: int | None = None
    input_tokens_uncached: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_audio_tokens: int | None = None
    server_tool_calls: dict[str, int] | None = None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of choice 0. `arguments` is the parsed value when they are JSON, else the string as sent."""

    call_id: str | None
    name: str | None
    arguments: Any
    type: str | None = None


class ErrorNote(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong. `code`, `type` and `message` are the provider's own; `source` says who reported it.

    `kind` is one of `context_length`, `quota`, `content_filter`, `overload`, which ask for different reactions.
    `source`: `provider` (an error in the body or the status), `app` (the server's exception), `client` (the
    client left), `stream` (the stream's own shape), `capture` (the body could not be read here).
    """

    category: str
    code: str | int | None = None
    type: str | None = None
    message: str | None = None
    retryable: bool | None = None
    retry_after_s: float | None = None
    source: str | None = None
    kind: str | None = None


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds since the scope was received. Keep-alives and comments never count as events or tokens."""

    request_read_ms: float | None = None
    first_byte_ms: float | None = None
    first_event_ms: float | None = None
    first_token_ms: float | None = None
    first_reasoning_ms: float | None = None
    last_token_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p95_ms: float | None = None
    itl_max_ms: float | None = None
    send_wait_ms: float | None = None
    chunks: int = 0
    events: int | None = None


class HttpNote(msgspec.Struct, frozen=True, kw_only=True):
    """The exchange as HTTP: allow-listed headers, the query with secrets masked, sizes before decoding."""

    method: str
    path: str
    query: str
    request_headers: dict[str, str]
    response_headers: dict[str, str]
    request_bytes: int
    response_bytes: int
    request_content_encoding: str | None = None
    content_encoding: str | None = None
    request_sha256: str | None = None
    response_sha256: str | None = None


class ClientNote(msgspec.Struct, frozen=True, kw_only=True):
    """What the client's SDK says of itself in its headers."""

    retry_count: int | None = None
    request_id: str | None = None
    session_id: str | None = None
    user_agent: str | None = None


class TraceNote(msgspec.Struct, frozen=True, kw_only=True):
    """W3C `traceparent`, as sent."""

    trace_id: str
    parent_span_id: str
    flags: str


class ModelCallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One call to a model, complete: request, response, how it ended and what it cost."""

    # NeMo Gym's raw record, same names and meanings.
    model_call_id: str
    dialect: str
    model_ref: dict[str, str] | None = None
    started_at: float
    completed_at: float
    latency_ms: float
    latency_ttft_ms: float | None = None
    status_code: int | None = None
    error_category: str | None = None
    request: Any = None
    response: Any = None
    request_raw: str | None = None
    response_raw: str | None = None
    request_raw_b64: str | None = None
    response_raw_b64: str | None = None
    client_session_id: str | None = None
    upstream_attempted: bool | None = None
    response_source: str | None = None
    upstream_status_code: int | None = None
    local_response_reason: str | None = None
    # Identity.
    schema: str = SCHEMA
    writer: str
    rollout_id: str | None = None
    attempt: int | None = None
    correlation: CorrelationNote
    server: ServerNote
    seq: int
    labels: dict[str, str] = {}
    # Meaning.
    stream: bool | None = None
    complete: bool
    delivery: str
    model_requested: str | None = None
    model_served: str | None = None
    model: str | None = None
    response_id: str | None = None
    choices: int | None = None
    finish: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    sampling: dict[str, Any] | None = None
    weights: list[dict[str, Any]] | None = None
    tokens: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    events: list[dict[str, Any]] | None = None
    # Trouble.
    error: ErrorNote | None = None
    flags: list[str] = []
    extracted: list[str] | None = None
    redacted: list[str] | None = None
    truncated: list[str] | None = None
    # Transport.
    timing: Timing
    http: HttpNote
    client: ClientNote
    trace: TraceNote | None = None
    response_chunks: str | None = None
