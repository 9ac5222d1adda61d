"""A raw exchange to its record. Pure: no clock, no file, no environment; and no bytes make it raise.

`process` is the whole way: request, answer, meaning, outcome, times. If our own code fails on an exchange, which only
a defect can cause, the exchange is kept undecoded by `process_raw` instead of being lost: that is the one broad
except of this file, and the record says so with the flag `capture_parse_error`.
"""

import base64
import re
from functools import lru_cache
from typing import Any

import msgspec

from pipeline.adapter import adapter_fields
from pipeline.answer import Answer, read_answer
from pipeline.bodies import BodyError, decode
from pipeline.dialects.finish import ABORTED
from pipeline.exchange import RawExchange
from pipeline.flags import is_lossy
from pipeline.headers import client_note, http_note, joined, trace_note
from pipeline.line import encode
from pipeline.outcome import Facts, Outcome, judge
from pipeline.provider_error import FIRST_ERROR_STATUS
from pipeline.record import (
    CorrelationNote,
    ErrorNote,
    ModelCallRecord,
    ServerNote,
    Usage,
)
from pipeline.request import Request, read_request
from pipeline.settings import ServerIdentity
from pipeline.timing import TokenTimes, arrivals_ns, pack_chunks, timing
from pipeline.usage import normalise
from pipeline.version import WRITER

__all__ = ["encode", "process", "process_raw"]

_ATTEMPT = re.compile(r"\d+-\d+(?:-a(\d{1,9}))?", re.ASCII)
"""The rollout ids whose grammar names an attempt: task, rollout, and `-a<n>` from the second attempt on."""


def process(exchange: RawExchange, server: ServerIdentity, labels: dict[str, str]) -> ModelCallRecord:
    """Return the record of an exchange; `labels` are the server's own."""
    try:
        return _process(exchange, server, labels)
    except Exception as error:  # noqa: BLE001 - a defect here must cost one decoding, never an exchange
        return process_raw(exchange, server, labels, f"{type(error).__name__}: {error}"[:500])


def _process(exchange: RawExchange, server: ServerIdentity, labels: dict[str, str]) -> ModelCallRecord:
    asked, told = joined(exchange.request_headers), joined(exchange.response_headers)
    request = read_request(exchange, asked.get("content-encoding"))
    answer = read_answer(exchange, told.get("content-type"), told.get("content-encoding"))
    usage, bad_usage = normalise(answer.meaning.usage) if answer.meaning.usage else (None, False)
    fields = _common(exchange, server, labels, asked, told)
    fields |= _times(exchange, answer.times)
    fields |= _meaning(request, answer, usage)
    fields |= _outcome(judge(_facts(exchange, answer), told))
    if answer.kind == "events":
        fields["response_chunks"] = _packed(exchange, answer.times)
    if exchange.failure:
        fields |= _never_sent(exchange)
    if flags := _flags(exchange, request, answer, bad_usage=bad_usage):
        fields["flags"] = sorted(flags)
        fields |= _raw(request, answer, flags)
    return ModelCallRecord(**fields)


def process_raw(
    exchange: RawExchange, server: ServerIdentity, labels: dict[str, str], reason: str
) -> ModelCallRecord:
    """Return a record that holds the bytes and decodes nothing; `reason` says why."""
    asked, told = joined(exchange.request_headers), joined(exchange.response_headers)
    request = Request(None, b"".join(exchange.request_chunks), frozenset())
    answer = Answer("unreadable", b"".join(exchange.response_chunks), frozenset())
    outcome = judge(_facts(exchange, answer), told)
    return ModelCallRecord(
        **_common(exchange, server, labels, asked, told),
        **_times(exchange, None),
        **_raw_fields("request", request.raw),
        **_raw_fields("response", answer.raw),
        error_category="capture_parse_error",
        complete=False,
        delivery=outcome.delivery,
        error=ErrorNote(category="capture_parse_error", message=reason, source="capture"),
        flags=["capture_parse_error"],
    )


def _flags(exchange: RawExchange, request: Request, answer: Answer, *, bad_usage: bool) -> frozenset[str]:
    flags = request.flags | answer.flags
    if bad_usage:
        flags |= {"bad_usage_value"}
    if exchange.double_start:
        flags |= {"double_start"}
    return flags


def _outcome(outcome: Outcome) -> dict[str, Any]:
    error = outcome.error
    return {
        "error_category": error.category if error else None,
        "complete": outcome.complete,
        "delivery": outcome.delivery,
        "error": error,
    }


def _facts(exchange: RawExchange, answer: Answer) -> Facts:
    status = exchange.status_code or 0
    told = answer.kind == "events" or (answer.kind == "json" and not answer.ended)
    said = answer.meaning.error or (answer.error if told or status >= FIRST_ERROR_STATUS else None)
    if status >= FIRST_ERROR_STATUS and said is None and answer.kind == "events":
        said = answer.stored
    return Facts(
        exchange=exchange,
        ended=answer.ended,
        body=answer.kind,
        error=said,
        failed=answer.meaning.failed or (answer.kind == "json" and not answer.ended),
        aborted=answer.meaning.finish == ABORTED,
        incomplete=answer.meaning.incomplete,
        pending=answer.meaning.pending,
        cut=exchange.response_sha256 is not None,
        raised=_raised(exchange),
    )


def _raised(exchange: RawExchange) -> Any:  # noqa: ANN401 - whatever an upstream said
    """Return the body that the application's exception carried: its JSON value, or its text."""
    body = exchange.failure.body if exchange.failure else None
    if body is None:
        return None
    try:
        return decode(body).value
    except BodyError:
        return body.decode("utf-8", "replace")


def _common(
    exchange: RawExchange,
    server: ServerIdentity,
    labels: dict[str, str],
    asked: dict[str, str],
    told: dict[str, str],
) -> dict[str, Any]:
    """Return the fields that need no decoding of bodies."""
    client = client_note(asked, exchange.request_headers)
    return {
        "model_call_id": exchange.call_id.hex(),
        "dialect": exchange.dialect,
        "started_at": exchange.started_at,
        "completed_at": exchange.started_at + exchange.ended_ns / 1e9,
        "latency_ms": round(exchange.ended_ns / 1e6, 2),
        "status_code": exchange.status_code,
        "client_session_id": client.session_id,
        "writer": WRITER,
        "rollout_id": exchange.rollout_id,
        "attempt": _attempt(exchange.rollout_id),
        "correlation": CorrelationNote(*msgspec.structs.astuple(exchange.correlation)),
        "server": ServerNote(*msgspec.structs.astuple(server)),
        "seq": exchange.seq,
        "labels": labels,
        "annotations": exchange.annotations,
        **adapter_fields(exchange.annotations),
        "events": exchange.events,
        "http": http_note(exchange, asked, told),
        "client": client,
        "trace": trace_note(asked.get("traceparent")),
    }


def _times(exchange: RawExchange, tokens: TokenTimes | None) -> dict[str, Any]:
    first_ns, answer_ns = arrivals_ns(exchange)
    return {
        "latency_ttft_ms": None if answer_ns is None else round(answer_ns / 1e6, 2),
        "timing": timing(exchange, first_ns, tokens),
    }


def _raw(request: Request, answer: Answer, flags: frozenset[str]) -> dict[str, Any]:
    """Return the raw bytes of the sides of which the flags say that something was lost."""
    raw_request = _raw_fields("request", request.raw) if is_lossy(flags, "request") else {}
    raw_response = _raw_fields("response", answer.raw) if is_lossy(flags, "response") else {}
    return {**raw_request, **raw_response}


def _never_sent(exchange: RawExchange) -> dict[str, Any]:
    """Return the body that an exception carried, as the response's, where the application sent none."""
    failure = exchange.failure
    if failure is None or failure.body is None or exchange.response_bytes:
        return {}
    return _raw_fields("response", failure.body)


def _raw_fields(side: str, raw: bytes) -> dict[str, Any]:
    """Return bytes as text where they are UTF-8, else in base64."""
    if not raw:
        return {}
    try:
        return {f"{side}_raw": raw.decode()}
    except UnicodeDecodeError:
        return {f"{side}_raw_b64": base64.b64encode(raw).decode("ascii")}


def _meaning(request: Request, answer: Answer, usage: Usage | None) -> dict[str, Any]:
    meaning = answer.meaning
    return {
        "stream": answer.kind == "events" if answer.kind in {"events", "json"} else request.stream,
        "model_requested": request.model,
        "model_served": meaning.model,
        "model": meaning.model or request.model,
        "request": request.stored,
        "response": answer.stored,
        "response_id": meaning.response_id,
        "choices": meaning.choices,
        "finish": meaning.finish,
        "finish_reason": meaning.finish_reason,
        "usage": usage,
        "tool_calls": meaning.tool_calls,
        "reasoning_content": meaning.reasoning,
        "sampling": request.sampling,
        "weights": answer.weights,
        "tokens": answer.tokens,
    }


def _packed(exchange: RawExchange, times: TokenTimes | None) -> str:
    return pack_chunks(times.sizes if times else (), exchange.response_times_ns)


@lru_cache(maxsize=1024)
def _attempt(rollout_id: str | None) -> int | None:
    found = _ATTEMPT.fullmatch(rollout_id) if rollout_id else None
    return None if found is None else int(found[1] or 0)
