import json
from typing import Any

import msgspec
import pytest

from pipeline.bodies import is_too_deep
from pipeline.dialects import DIALECTS, Dialect, Reassembler
from pipeline.exchange import Correlation, RawExchange
from pipeline.process import encode, process, process_raw
from pipeline.record import ModelCallRecord
from pipeline.timing import unpack_chunks
from tests.exchanges import JSON_BODY, SERVER, delta, events, exchange, read_back, record

REQUEST = b'{"model":"asked","stream":true,"temperature":0.5,"max_tokens":7,"messages":[{"role":"user"}]}'
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_what_the_record_says_of_the_exchange_itself() -> None:
    """Identity, clocks, sizes, headers, client and trace are those of the exchange."""
    headers = (
        (b"user-agent", b"sdk/1"),
        (b"x-stainless-retry-count", b"2"),
        (b"x-session-id", b"s1"),
        (b"x-client-request-id", b"q1"),
        (b"traceparent", TRACE),
        (b"accept", b"a"),
        (b"accept", b"b"),
    )
    fields = record(
        "chat",
        events(delta("stop", content="a"), done=True),
        request_chunks=(REQUEST[:40], REQUEST[40:]),
        request_bytes=len(REQUEST),
        request_headers=headers,
        correlation=Correlation("prefix", "3-1", "other"),
        query="beta=true",
        annotations={"a": 1},
        events=[{"name": "tool"}],
        send_wait_ns=1_500_000,
        request_read_ns=250_000,
    )
    assert fields["model_call_id"] == "000102030405060708090a0b0c0d0e0f"
    assert (fields["started_at"], fields["completed_at"], fields["latency_ms"]) == (1000.0, 1002.0, 2000.0)
    assert fields["correlation"] == {"source": "prefix", "value": "3-1", "conflict": "other"}
    assert fields["server"] == {"name": "server", "instance": "1", "host": "host", "pid": 1}
    assert fields["request"] == json.loads(REQUEST)
    assert fields["sampling"] == {"temperature": 0.5, "max_tokens": 7}
    assert (fields["model_requested"], fields["model_served"], fields["model"]) == ("asked", "m", "m")
    assert fields["client"] == {
        "retry_count": 2,
        "request_id": "q1",
        "session_id": "s1",
        "user_agent": "sdk/1",
    }
    assert fields["client_session_id"] == "s1"
    assert fields["trace"]["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert (fields["http"]["request_headers"]["accept"], fields["http"]["query"]) == ("a, b", "beta=true")
    assert fields["http"]["request_bytes"] == len(REQUEST)
    assert (fields["annotations"], fields["events"]) == ({"a": 1}, [{"name": "tool"}])
    assert (fields["timing"]["send_wait_ms"], fields["timing"]["request_read_ms"]) == (1.5, 0.25)


ATTEMPTS = {
    "3-1": 0,
    "3-1-a2": 2,
    "3-1-a": None,
    "x-1": None,
    "3-1-a2\n": None,
    "3-1-a" + "9" * 30: None,
    "٣-1": None,
    None: None,
}


@pytest.mark.parametrize("rollout_id", ATTEMPTS)
def test_attempts(rollout_id: str | None) -> None:
    """An attempt is told only by ids of the helper's grammar."""
    assert record("chat", rollout_id=rollout_id)["attempt"] == ATTEMPTS[rollout_id]


def test_a_request_is_stored_as_the_bytes_it_was() -> None:
    """Number text and key order of a strict request survive; pretty-printed ones lose only line ends."""
    body = b'{"b": 1.50, "a": 1e2}'
    assert b'"request":' + body in encode(process(exchange("chat", request_chunks=(body,)), SERVER, {}))
    pretty = json.dumps(json.loads(REQUEST), indent=2).encode().replace(b"\n", b"\r\n")
    assert record("chat", request_chunks=(pretty,))["request"] == json.loads(REQUEST)


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"\xff\x00", b"[]", b'{"model":7,"stream":"x","temperature":null}']
)
def test_odd_requests_harm_nothing(body: bytes) -> None:
    """The response is read whatever the request is, and the request's bytes are never lost."""
    fields = record("chat", events(delta("stop", content="a"), done=True), request_chunks=(body,))
    assert fields["complete"]
    assert (fields["request"] or fields["request_raw"] or fields["request_raw_b64"] or b"") or not body


def test_times_come_from_the_chunks_that_completed_events() -> None:
    """First byte, event, reasoning, token and last token are told apart; gaps are between chunks with tokens."""
    chunks = [
        b": keep-alive\n\n",
        events(delta(role="assistant", content="")),
        events(delta(reasoning="hm")),
        events(delta(content="a"))[:30],
        events(delta(content="a"))[30:] + events(delta(content="b")),
        b": keep-alive\n\n",
        events(delta(content="c")),
        events(delta("stop"), done=True),
    ]
    timing = record("chat", chunks)["timing"]
    assert (timing["first_byte_ms"], timing["first_event_ms"]) == (10.0, 20.0)
    assert (timing["first_reasoning_ms"], timing["first_token_ms"], timing["last_token_ms"]) == (
        30.0,
        50.0,
        70.0,
    )
    assert (timing["itl_p50_ms"], timing["itl_p95_ms"], timing["itl_max_ms"]) == (20.0, 20.0, 20.0)
    assert (timing["chunks"], timing["events"]) == (8, 6)
    assert record("chat", chunks)["latency_ttft_ms"] == 20.0
    whole = record("chat", b'{"choices":[]}', response_headers=JSON_BODY)["timing"]
    assert (whole["first_byte_ms"], whole["first_token_ms"], whole["events"]) == (10.0, None, None)


def test_chunks_can_be_replayed_from_the_record() -> None:
    """Sizes and arrival times of a stream's chunks come back, to 0.1 ms, from about four bytes each."""
    chunks = [events(delta(content="x" * 20))] * 500
    times = tuple(12_345_678 + 20_030_000 * number for number in range(500))
    packed = record("chat", chunks, response_times_ns=times)["response_chunks"]
    unpacked = unpack_chunks(packed)
    assert [size for size, _ in unpacked] == [len(chunk) for chunk in chunks]
    assert all(0 <= real - stored < 100_000 for (_, stored), real in zip(unpacked, times, strict=True))
    assert len(packed) / len(chunks) < 6


def test_a_body_that_was_not_kept_whole_is_never_complete() -> None:
    """Flags and digests say so on either side; what was kept is there."""
    cut = {"response_sha256": b"\x01" * 32, "request_sha256": b"\x02" * 32, "request_chunks": (REQUEST[:50],)}
    fields = record("chat", events(delta("stop", content="a"), done=True), **cut)
    assert fields["flags"] == ["request_body_cut", "response_body_cut", "undecodable_request"]
    assert not fields["complete"]
    assert (fields["http"]["response_sha256"], fields["http"]["request_sha256"]) == ("01" * 32, "02" * 32)
    assert fields["request_raw"] == REQUEST[:50].decode()


STREAM = events(delta("stop", content="a"), done=True)
OBJECT = b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}'
KINDS: dict[str, tuple[bytes, bytes | None, bool, list[str]]] = {
    "a stream though no stream was asked for": (STREAM, b"text/event-stream", True, []),
    "upper case and parameters": (STREAM, b"Text/Event-Stream; charset=utf-8", True, []),
    "an object though a stream was asked for": (OBJECT, b"application/json", False, []),
    "a stream without a type": (STREAM, None, True, []),
    "a stream declared as JSON": (STREAM, b"application/json", True, ["content_type_mismatch"]),
    "an object declared as a stream": (OBJECT, b"text/event-stream", False, ["content_type_mismatch"]),
    "an object without a type": (b"\n " + OBJECT, None, False, []),
    "a byte order mark in front": (b"\xef\xbb\xbf" + STREAM, None, True, ["byte_order_mark"]),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_body_is_what_its_type_and_first_bytes_say(name: str) -> None:
    """The request's wish decides nothing; where type and bytes disagree, the bytes are believed."""
    body, content_type, streamed, flags = KINDS[name]
    headers = ((b"content-type", content_type),) if content_type else ()
    asked = b'{"stream":%s}' % (b"false" if streamed else b"true")
    fields = record("chat", body, response_headers=headers, request_chunks=(asked,))
    assert (fields["stream"], fields["flags"], fields["finish"]) == (streamed, flags, "stop")


def test_a_dialect_without_a_reader_keeps_the_body() -> None:
    """An object is stored as it is, a stream raw."""
    assert record("other", OBJECT, response_headers=JSON_BODY)["response"] == json.loads(OBJECT)
    stream = record("other", STREAM)
    assert (stream["response"], stream["response_raw"]) == (None, STREAM.decode())


def test_raw_processing_decodes_nothing() -> None:
    """An exchange that must not be decoded is stored as bytes, with the reason and its times."""
    raw = exchange("chat", b"\xff" + STREAM, request_chunks=(REQUEST,))
    fields = json.loads(encode(process_raw(raw, SERVER, {"a": "b"}, "killed two workers")))
    assert (fields["request_raw"], fields["request"], fields["response"]) == (REQUEST.decode(), None, None)
    assert fields["response_raw_b64"]
    assert (fields["error_category"], fields["complete"], fields["labels"]) == (
        "capture_parse_error",
        False,
        {"a": "b"},
    )
    assert fields["error"]["message"] == "killed two workers"
    assert fields["flags"] == ["capture_parse_error"]


class Broken(Reassembler):
    """A reassembler with a defect: it fails on any event with the error it was made for."""

    error: type[Exception]

    def event(self, name: str, data: dict[str, Any]) -> int:
        """Fail."""
        raise self.error(name, data)


@pytest.mark.parametrize("error", [ValueError, RecursionError, MemoryError, KeyError])
def test_a_defect_of_ours_costs_one_decoding_and_no_exchange(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where our own code fails, the bytes are kept with what failed."""
    broken = type("Broken", (Broken,), {"error": error})
    monkeypatch.setitem(DIALECTS, "broken", Dialect(broken, DIALECTS["chat"].read))
    fields = json.loads(encode(process(exchange("broken", STREAM), SERVER, {})))
    assert fields["flags"] == ["capture_parse_error"]
    assert fields["response_raw"] == STREAM.decode()
    assert fields["error"]["message"].startswith(error.__name__)


NOTES: list[Any] = [
    {"half": "\ud83d", "k\udc00": 1},
    {"infinite": float("inf"), "nan": float("nan"), "big": 10**100},
    {"bytes": b"\xff", "set": {1}, "object": object},
    {1: {None: {(1, 2): "x"}}},
    {"line": "a\r\nb\u2028c"},
]


@pytest.mark.parametrize("notes", NOTES)
def test_any_annotation_gives_one_strict_line(notes: dict[str, Any]) -> None:
    """Whatever a handler notes, the line is strict JSON that every reader takes, the request still in it."""
    fields = read_back(exchange("chat", STREAM, annotations=notes, request_chunks=(REQUEST,)))
    assert fields["request"] == json.loads(REQUEST)
    assert len(fields["annotations"]) == len(notes)


def test_deep_annotations_are_cut() -> None:
    """A nest that readers could not recurse into is cut off where it gets too deep, and told as cut."""
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    kept = read_back(exchange("chat", STREAM, annotations={"deep": deep}))["annotations"]
    assert not is_too_deep(kept)
    assert json.dumps(kept).count("...") == 1


def test_the_line_reads_back_as_the_record_type() -> None:
    """The stored line decodes into ModelCallRecord, so that type and line cannot drift apart."""
    raw: RawExchange = exchange("chat", STREAM, request_chunks=(REQUEST,))
    read = msgspec.json.decode(encode(process(raw, SERVER, {})), type=ModelCallRecord)
    assert (read.finish, read.complete, read.usage) == ("stop", True, None)
