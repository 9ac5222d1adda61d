import json
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.answers import DIALECTS, OPENING, WRITE, odd, said, stream, text, unstreamed, whole
from tests.exchanges import cuts, delta, events, exchange, read_back, record, zipped
from tests.skips import SKIPS

BODY = b'{"model":"m","stream":true,"input":"hi"}'
BOMB = zipped(bytes(200 << 20))


def coded(coding: str, body: bytes) -> bytes:
    """Encode a body by an optional package, or skip."""
    package = {"br": "brotli", "zstd": "zstandard"}[coding.lower()]
    if find_spec(package) is None:
        pytest.skip(SKIPS["coding-absent"])
    return bytes(import_module(package).compress(body))


def asked(dialect: str, body: bytes, coding: str) -> dict[str, Any]:
    """Make the record of a request in this coding, whose answer is a good one."""
    headers = ((b"content-encoding", coding.encode()),)
    return record(dialect, stream(dialect, "x"), request_chunks=(body,), request_headers=headers)


@pytest.mark.parametrize("coding", ["zstd", "br", "ZSTD"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_in_the_codings_of_agents(dialect: str, coding: str) -> None:
    """Case 35: zstd and br requests are read, stacked ones too; cut ones are kept as they came."""
    body = coded(coding, BODY)
    fields = asked(dialect, body, coding)
    assert (fields["model_requested"], odd(fields)) == ("m", {"request_encoded"})
    stacked = asked(dialect, coded(coding, zipped(BODY)), f"gzip, {coding}")
    assert stacked["model_requested"] == "m"
    for fields in (asked(dialect, body[:9], coding), asked(dialect, body, "foo")):
        assert (fields["request"], fields["http"]["request_content_encoding"]) == (
            None,
            fields["http"]["request_headers"]["content-encoding"],
        )
        assert "undecodable_request" in fields["flags"]
        assert (said(fields), fields["complete"]) == ("x", True)


@pytest.mark.parametrize("side", ["request", "response"])
def test_bombs_stop_at_the_limit(side: str) -> None:
    """Case 35: a body that expands to 200 MB is kept as the bytes it was, on either side."""
    headers = ((b"content-encoding", b"gzip"),)
    fields = record(
        "chat",
        BOMB if side == "response" else stream("chat", "x"),
        **{f"{side}_headers": headers},
        **({"request_chunks": (BOMB,)} if side == "request" else {}),
    )
    assert f"undecodable_{side}" in fields["flags"]
    assert fields[f"{side}_raw_b64"]


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_coded_streams(dialect: str, coding: str) -> None:
    """Case 35's sibling: a compressed stream and a compressed object are the same records as plain ones."""
    for plain, kind in (
        (stream(dialect, "n", "é"), b"text/event-stream"),
        (whole(dialect, "né"), b"application/json"),
    ):
        headers = ((b"content-type", kind), (b"content-encoding", coding.encode()))
        body = zipped(plain) if coding == "gzip" else coded(coding, plain)
        for chunks in cuts(body):
            fields = record(dialect, chunks, response_headers=headers)
            assert (said(fields), odd(fields)) == ("né", {"response_encoded"})


PAIR = ("hi \ud83d", "\ude00!")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_halves_of_a_character_in_two_events(dialect: str) -> None:
    """Case 37: text cut by UTF-16 unit is whole again in every dialect, and nothing is lost."""
    fields = record(dialect, stream(dialect, *PAIR))
    assert (said(fields), odd(fields), fields["response_raw"]) == ("hi 😀!", {"surrogates_joined"}, None)
    alone = record(dialect, stream(dialect, PAIR[0]))
    assert (said(alone), odd(alone)) == ("hi \ufffd", {"lenient_response"})
    assert alone["response_raw"]
    assert said(unstreamed(dialect, whole(dialect, PAIR[0]))) == "hi \ufffd"


def test_halves_of_a_character_inside_arguments() -> None:
    """Case 37: the same for the arguments of a tool call in chat and for tool input in pieces."""
    pieces = ('{"a":"\ud83d', '\ude00"}')
    made = [
        delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": piece}}]) for piece in pieces
    ]
    grown = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": piece},
        }
        for piece in pieces
    ]
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "input": {}}}
    tool = [OPENING["messages"][0], block, *grown, {"type": "message_stop"}]
    for dialect, body in (("chat", events(*made, delta("stop"), done=True)), ("messages", events(*tool))):
        assert record(dialect, body)["tool_calls"][0]["arguments"] == {"a": "😀"}


DEEP = b"[" * 10_000 + b"]" * 10_000
TROUBLE: dict[str, tuple[bytes, set[str]]] = {
    "a byte that is no UTF-8": (b'{"a":"\xfc"}', {"lenient_response"}),
    "10,000 levels": (b'{"a":' + DEEP + b"}", {"undecodable_event"}),
    "5,000 digits": (b'{"a":' + b"7" * 5000 + b"}", {"lenient_response"}),
    "1e999": (b'{"a":1e999}', {"lenient_response"}),
    "20 digits": (b'{"a":19933688932870350000}', set()),
    "a key twice": (b'{"a":1,"a":2}', set()),
}


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("name", TROUBLE)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_decoders_choke_on(dialect: str, name: str, place: str) -> None:
    """Case 39: as a request and as one event among good ones it harms no other event and is marked."""
    data, flags = TROUBLE[name]
    bad = b"data: " + data + b"\n\n"
    begun = WRITE["responses"](*OPENING[dialect], text(dialect, "a"))
    good = stream(dialect, "a", "b")
    at = {"first": 0, "middle": len(begun), "last": len(good)}[place]
    if dialect == "chat" and place == "last":
        at -= len(b"data: [DONE]\n\n")
    raw = exchange(dialect, good[:at] + bad + good[at:], request_chunks=(data,))
    fields = read_back(raw)
    assert (said(fields), fields["complete"]) == ("ab", True)
    assert flags <= odd(fields)
    assert fields["request"] or fields["request_raw"] or fields["request_raw_b64"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_numbers_that_json_does_not_have(dialect: str, number: str) -> None:
    """Case 40: the number becomes its text, marked and with the raw bytes; the text `"NaN"` is not touched."""
    odd_text = text(dialect, "b")
    blank = json.dumps({**odd_text, "logprob": "@"})
    good = stream(dialect, "a").split(b"\n\n")
    at = len(OPENING[dialect]) + 1
    for value, flags in ((number, {"lenient_response"}), (f'"{number}"', set())):
        event = b"data: " + blank.replace('"@"', value).encode()
        fields = record(dialect, b"\n\n".join([*good[:at], event, *good[at:]]))
        assert (said(fields), odd(fields) - {"unknown_event"}) == ("ab", flags)
        body = whole(dialect, "x", logprob="@").replace(b'"@"', value.encode())
        fields = unstreamed(dialect, body)
        assert (fields["response"]["logprob"], set(fields["flags"])) == (number, flags)
        assert bool(fields["response_raw"]) is bool(flags)
