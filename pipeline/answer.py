"""The response body of an exchange to what the record says of it. Pure; no bytes make it raise.

What the body is, is decided by its declared type and its first bytes, never by what the request asked for: servers
answer streams with JSON and the other way round. Events go through the dialect's reassembler, a JSON object is the
response itself; both are then read by the dialect.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pipeline.bodies import (
    DEEP_BYTES,
    STRICT_ERRORS,
    BodyError,
    decode,
    heal,
    heal_text,
    may_be_deep,
    strict_decode,
)
from pipeline.dialects import DIALECTS, Meaning, Reassembler
from pipeline.exchange import RawExchange
from pipeline.sides import RESPONSE, Body, open_body, read_object
from pipeline.sse import BYTE_ORDER_MARK, Event, EventParser
from pipeline.timing import TokenTimes
from pipeline.tokens import read_tokens

_EVENT_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LONGEST_START = max(map(len, _EVENT_STARTS))
_DONE = b"[DONE]"
_EMPTY = (b"", b"null")

_ANSWERS = frozenset({"choices", "output", "content", "completion"})
"""Members that hold an answer in one dialect or another; an object without any is none, whatever its status."""

_FEED_BYTES = 32 << 10
"""What the event parser is fed at a time: small enough that events stay in the processor's cache until folded."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What a response says. `stored` goes into the line; `raw` is the body, its content coding undone if it could be.

    `kind`: `none` (nothing came), `json`, `events`, or `unreadable`. `ended`: the dialect's own end was seen, or the
    whole body is an object. `error`: the provider's error as it came.
    """

    kind: str
    raw: bytes
    flags: frozenset[str]
    stored: Any = None
    meaning: Meaning = Meaning()
    ended: bool = False
    error: Any = None
    times: TokenTimes | None = None
    tokens: dict[str, Any] | None = None
    weights: list[dict[str, Any]] | None = None


def read_answer(exchange: RawExchange, content_type: str | None, coding: str | None) -> Answer:
    """Read the response body; `content_type` and `coding` are its headers, null where they were missing."""
    cut = exchange.response_sha256 is not None
    body = open_body(exchange.response_chunks, RESPONSE, coding, cut=cut)
    if not body.plain:
        return Answer("unreadable", body.raw, frozenset(body.flags))
    kind = _kind(body, content_type)
    if kind == "none":
        return Answer("none", body.raw, frozenset(body.flags))
    if kind == "events" or _are_objects(body.raw):
        return _read_events(exchange.dialect, body, TokenTimes(body.chunks, exchange.response_times_ns))
    return _read_object(exchange.dialect, body)


def _kind(body: Body, content_type: str | None) -> str:
    """Say what a body is, by declaration and by its first bytes; the bytes win."""
    declared = (content_type or "").split(";")[0].strip().lower()
    start = body.raw.removeprefix(BYTE_ORDER_MARK).lstrip()[:_LONGEST_START]
    if declared == "text/event-stream":
        if not start.startswith((b"{", b"[")):
            return "events"
        body.flags.add("content_type_mismatch")
        return "json"
    if start.startswith(_EVENT_STARTS):
        if declared:
            body.flags.add("content_type_mismatch")
        return "events"
    return "json" if body.raw else "none"


def _read_object(dialect: str, body: Body) -> Answer:
    value, stored = read_object(body, RESPONSE)
    if not isinstance(value, dict):
        said = body.raw[:500].decode("utf-8", "replace") if RESPONSE.undecodable in body.flags else value
        return Answer("unreadable", body.raw, frozenset(body.flags), error=said)
    meaning = _mean(dialect, value, body.flags)
    tokens, weights = read_tokens(value)
    return Answer(
        "json",
        body.raw,
        frozenset(body.flags),
        stored,
        meaning,
        ended=not _ANSWERS.isdisjoint(value),
        error=meaning.error or value,
        tokens=tokens,
        weights=weights,
    )


def _mean(
    dialect: str, response: dict[str, Any], flags: set[str], arguments: Mapping[int, str] | None = None
) -> Meaning:
    """Read what a response means; `arguments` are those texts of calls that it holds only a part of, by number."""
    row = DIALECTS.get(dialect)
    meaning = row.read(response) if row else Meaning()
    if arguments:
        calls = [
            msgspec.structs.replace(call, arguments=arguments.get(number, call.arguments))
            for number, call in enumerate(meaning.tool_calls or ())
        ]
        meaning = msgspec.structs.replace(meaning, tool_calls=calls, invalid_arguments=True)
    if meaning.invalid_arguments:
        flags.add("invalid_arguments")
    return meaning


def _read_events(dialect: str, body: Body, times: TokenTimes) -> Answer:
    raw, flags = body.raw, body.flags
    row = DIALECTS.get(dialect)
    if row is None:
        return Answer("unreadable", raw, frozenset(flags | {"undecodable_response"}), times=times)
    stream = _Stream(row.reassembler(), times)
    parser = EventParser()
    for at in range(0, len(raw), _FEED_BYTES):
        stream.take(parser.feed(raw[at : at + _FEED_BYTES]))
    stream.take(parser.close())
    assembly = stream.reassembler.finish()
    flags |= stream.flags | stream.reassembler.flags
    if raw.startswith(BYTE_ORDER_MARK):
        flags.add("byte_order_mark")
    response, reasoning = assembly.response, assembly.reasoning
    if stream.halves and response is not None:
        response = _join_halves(response, flags)
        reasoning = heal_text(reasoning)[0] if reasoning else reasoning
    meaning = Meaning() if response is None else _mean(dialect, response, flags, assembly.arguments)
    if reasoning:
        meaning = msgspec.structs.replace(meaning, reasoning=reasoning)
    tokens, weights = read_tokens(response) if response is not None else (None, None)
    return Answer(
        "events",
        raw,
        frozenset(flags),
        response,
        meaning,
        assembly.terminal,
        error=assembly.error or meaning.error,
        times=times,
        tokens=tokens,
        weights=weights,
    )


def _join_halves(response: dict[str, Any], flags: set[str]) -> dict[str, Any]:
    healed, lost = heal(response)
    if not lost:
        flags.discard("lenient_response")
        flags.add("surrogates_joined")
    whole: dict[str, Any] = healed
    return whole


class _Stream:
    """One pass over the events of a stream: data to JSON to the reassembler, with what was odd on the way."""

    def __init__(self, reassembler: Reassembler, times: TokenTimes) -> None:
        self.reassembler = reassembler
        self.flags: set[str] = set()
        self.halves = False
        self._times = times

    def take(self, events: Iterable[Event]) -> None:
        """Take in events in order. The road of a usual event is short, since there may be very many."""
        fold, note = self.reassembler.event, self._times.note
        for event in events:
            data = event.data
            if event.stray or not event.ended or not event.framed:
                self._flag(event)
            if data is None:
                continue
            try:
                value = strict_decode(data)
                if len(data) > DEEP_BYTES and may_be_deep(data):
                    value = self._decode_oddly(data)
            except STRICT_ERRORS:
                if not self._is_word(data) and not self._are_lines(event, data):
                    self._fold_oddly(event, data)
                continue
            if value.__class__ is dict:
                note(event.end, fold(event.name.decode("utf-8", "replace") if event.name else "", value))
            elif not self._is_word(data):
                self.flags.add("undecodable_event")

    def _flag(self, event: Event) -> None:
        if event.stray:
            self.flags.add("stray_line")
        if not event.ended:
            self.flags.add("unterminated_event")
        if not event.framed:
            self.flags.add("unframed_event")

    def _is_word(self, data: bytes) -> bool:
        """Take in data that is a word of the protocol and no object: the end mark, or nothing at all."""
        text = data.strip(b' \t\r\n"')
        if text == _DONE:
            self.reassembler.end_mark()
        elif text in _EMPTY:
            self.flags.add("empty_event")
        return text == _DONE or text in _EMPTY

    def _are_lines(self, event: Event, data: bytes) -> bool:
        """Take in events that came without the empty lines between them: each line is one."""
        lines = data.split(b"\n")
        if len(lines) == 1 or not any(_is_object(line) for line in lines):
            return False
        self.take(Event(event.name, line, event.end, framed=False) for line in lines if line.strip())
        return True

    def _fold_oddly(self, event: Event, data: bytes) -> None:
        value = self._decode_oddly(data)
        if isinstance(value, dict):
            name = event.name.decode("utf-8", "replace")
            self._times.note(event.end, self.reassembler.event(name, value))
        else:
            self.flags.add("undecodable_event")

    def _decode_oddly(self, data: bytes) -> Any:  # noqa: ANN401 - any JSON value
        """Decode an event that needs care; null, which no event is, where it cannot be."""
        try:
            found = decode(data)
        except BodyError:
            return None
        if found.lenient:
            self.flags.add("lenient_response")
            self.halves = self.halves or found.halves
        return found.value


def _are_objects(raw: bytes) -> bool:
    """Whether a body that should be one object is several, one a line: a stream without its framing."""
    end = raw.find(b"\n")
    return end > 0 and raw[end : end + 64].lstrip().startswith(b'{"') and _is_object(raw[:end])


def _is_object(line: bytes) -> bool:
    try:
        return line.startswith(b'{"') and isinstance(decode(line).value, dict)
    except BodyError:
        return False
