"""Bytes of one response to its record, without a server: for people who debug what a server sends.

It is the same pure way that every captured exchange takes, so what is said here is what a record would say. There is
no request, no client and no clock: whatever would come from them is null.
"""

import json

import msgspec

from pipeline.exchange import Correlation, Headers, RawExchange
from pipeline.process import encode, process
from pipeline.settings import ServerIdentity

from .reading import StoredRecord

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
"""The path on which each dialect is usually spoken."""

NOBODY = ServerIdentity(None, "", "", 0)
NO_ID = bytes(16)


def reassemble(
    body: bytes,
    dialect: str,
    *,
    content_type: str | None = None,
    content_encoding: str | None = None,
    status: int = 200,
) -> StoredRecord:
    """Return the record of a response body: an event stream or a JSON object, whole or cut off.

    `dialect` is `chat`, `responses` or `messages`, else ValueError. `content_type` and `content_encoding` are the
    headers that the body came with; without a type the first bytes say what it is. No bytes make it raise.
    """
    if dialect not in PATHS:
        raise ValueError(f"dialect={dialect!r} is none of {', '.join(PATHS)}")
    named = ((b"content-type", content_type), (b"content-encoding", content_encoding))
    headers: Headers = tuple((name, value.encode("latin-1", "replace")) for name, value in named if value)
    exchange = RawExchange(
        call_id=NO_ID,
        seq=0,
        rollout_id=None,
        stem="",
        dialect=dialect,
        correlation=Correlation("none"),
        method="POST",
        path=PATHS[dialect],
        query="",
        started_at=0.0,
        ended_ns=0,
        response_headers=headers,
        status_code=status,
        response_complete=True,
        listened=True,
        response_chunks=(body,) if body else (),
        response_times_ns=(0,) if body else (),
        response_bytes=len(body),
    )
    line = encode(process(exchange, NOBODY, {}))
    return msgspec.convert(json.loads(line), StoredRecord)
