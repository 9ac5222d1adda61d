"""What the headers of an exchange say: HTTP as it was, the client's word on itself, and the trace. Pure.

Header values are text as latin-1 reads them, the one reading that cannot fail. What a header may be called is a row
of `dialects.quirks`; a value that is not what it should be is unknown.
"""

import re
from collections.abc import Iterable

from pipeline.dialects.quirks import REQUEST_ID_HEADERS, RETRY_COUNT_HEADERS, SESSION_ID_HEADERS
from pipeline.exchange import Headers, RawExchange
from pipeline.record import ClientNote, HttpNote, TraceNote

_RETRIES = re.compile(r"[0-9]{1,9}")

_SESSION_IDS = tuple(name.encode() for name in SESSION_ID_HEADERS)

_TRACE = re.compile(
    r"(?!ff)(?:00(?=.{53}$)|[0-9a-f]{2}(?<!00))-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?",
    re.ASCII,
)
"""W3C Trace Context, version 00 and those to come: ids of zeros and version ff are invalid."""


def joined(pairs: Headers) -> dict[str, str]:
    """Return headers as text by lower-case name, repeated ones joined as HTTP allows."""
    texts: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        texts[key] = f"{texts[key]}, {text}" if key in texts else text
    return texts


def http_note(exchange: RawExchange, asked: dict[str, str], told: dict[str, str]) -> HttpNote:
    """Describe an exchange as HTTP; `asked` and `told` are the joined headers of request and response."""
    return HttpNote(
        method=exchange.method,
        path=exchange.path,
        query=exchange.query,
        request_headers=asked,
        response_headers=told,
        request_bytes=exchange.request_bytes,
        response_bytes=exchange.response_bytes,
        request_content_encoding=asked.get("content-encoding"),
        content_encoding=told.get("content-encoding"),
        request_sha256=_hex(exchange.request_sha256),
        response_sha256=_hex(exchange.response_sha256),
    )


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()


def client_note(asked: dict[str, str], pairs: Headers) -> ClientNote:
    """Return what the client's SDK says of itself in the request's headers, joined and as they came."""
    retries = _first(asked, RETRY_COUNT_HEADERS)
    return ClientNote(
        retry_count=int(retries) if retries and _RETRIES.fullmatch(retries) else None,
        request_id=_first(asked, REQUEST_ID_HEADERS),
        session_id=None if SESSION_ID_HEADERS.keys().isdisjoint(asked) else _session(pairs),
        user_agent=asked.get("user-agent"),
    )


def _first(headers: dict[str, str], names: Iterable[str]) -> str | None:
    for name in names:
        if name in headers:
            return headers[name]
    return None


def _session(pairs: Headers) -> str | None:
    """Return the client's session, of the first listed header that names any; one that names several names none."""
    named = [(key.lower(), value.strip()) for key, value in pairs if key.lower() in _SESSION_IDS]
    for name in _SESSION_IDS if named else ():
        values = {value for key, value in named if key == name and value}
        if values:
            return values.pop().decode("latin-1") if len(values) == 1 else None
    return None


def trace_note(header: str | None) -> TraceNote | None:
    """Read a `traceparent`; null for anything that is none."""
    found = _TRACE.fullmatch(header.strip()) if header else None
    return TraceNote(trace_id=found[1], parent_span_id=found[2], flags=found[3]) if found else None
