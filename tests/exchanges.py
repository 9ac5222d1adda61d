"""Raw exchanges for tests, made of a body and little else, and the record that they become as a reader sees it."""

import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pipeline.exchange import Correlation, RawExchange
from pipeline.process import encode, process
from pipeline.settings import ServerIdentity

SERVER = ServerIdentity(name="server", instance="1", host="host", pid=1)
EVENT_STREAM = ((b"content-type", b"text/event-stream; charset=utf-8"),)
JSON_BODY = ((b"content-type", b"application/json"),)
CHUNK_NS = 10_000_000
"""Distance of two chunks' arrival times, 10 ms; the first arrives after one of them."""


def exchange(dialect: str, response: bytes | Sequence[bytes] = b"", **changes: Any) -> RawExchange:  # noqa: ANN401
    """Make an exchange that went well: 200, an event stream unless said otherwise, sent whole to a client there."""
    chunks = (response,) if isinstance(response, bytes) else tuple(response)
    fields: dict[str, Any] = {
        "call_id": bytes(range(16)),
        "seq": 1,
        "rollout_id": "3-1",
        "stem": "3-1",
        "dialect": dialect,
        "correlation": Correlation("none"),
        "method": "POST",
        "path": "/v1/x",
        "query": "",
        "response_headers": EVENT_STREAM,
        "status_code": 200,
        "started_at": 1000.0,
        "ended_ns": 2_000_000_000,
        "response_complete": True,
        "listened": True,
        "request_read_ns": 1,
        "response_chunks": chunks,
        "response_times_ns": tuple(CHUNK_NS * number for number in range(1, len(chunks) + 1)),
        "response_bytes": sum(map(len, chunks)),
    }
    return RawExchange(**{**fields, **changes})


def record(dialect: str, response: bytes | Sequence[bytes] = b"", **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Process an exchange and read its line back as any reader of the file would."""
    return read_back(exchange(dialect, response, **changes))


def read_back(raw: RawExchange) -> dict[str, Any]:
    """Process, encode and read back one exchange, checking what holds for every line."""
    line = encode(process(raw, SERVER, {}))
    assert line.startswith(b'{"model_call_id":"' + raw.call_id.hex().encode() + b'"')
    assert b"\n" not in line
    assert b"\r" not in line
    fields: dict[str, Any] = json.loads(line.decode("utf-8", "strict"), parse_constant=_refuse)
    msgspec.json.decode(line)
    assert "capture_parse_error" not in fields["flags"]
    return fields


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def events(*values: object, done: bool = False) -> bytes:
    """Write data-only events; text is sent as it is, anything else as JSON."""
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return "".join(f"data: {line}\n\n" for line in [*lines, *(["[DONE]"] if done else [])]).encode()


def named(*values: dict[str, Any]) -> bytes:
    """Write events that carry their type as name, as the Responses and Messages APIs do."""
    return "".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n" for value in values).encode()


def delta(finish: str | None = None, index: int | None = 0, **fields: object) -> dict[str, Any]:
    """Make a chat chunk of one choice."""
    choice = {"delta": fields, "finish_reason": finish, **({} if index is None else {"index": index})}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [choice]}


def cuts(body: bytes) -> Iterator[list[bytes]]:
    """Yield a body in every way it is fed in tests: whole, byte by byte, at 7 and 61, and cut in two everywhere."""
    yield [body]
    for size in (1, 7, 61):
        yield [body[at : at + size] for at in range(0, len(body), size)]
    for at in range(1, len(body)):
        yield [body[:at], body[at:]]


def zipped(body: bytes) -> bytes:
    """Compress a body with gzip, reproducibly."""
    return gzip.compress(body, mtime=0)
