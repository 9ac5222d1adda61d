import json

import msgspec
import pytest

from pipeline.bodies import MAX_DEPTH, BodyError, decode, embed, heal, is_too_deep
from tests.exchanges import JSON_BODY, delta, events, record

LENIENT = {
    b'{"a":NaN,"b":-Infinity,"c":1e999}': {"a": "NaN", "b": "-Infinity", "c": "1e999"},
    b'{"a":"NaN"}': {"a": "NaN"},
    b'{"a":"one\ttwo"}': {"a": "one\ttwo"},
    b'{"a":"\xff"}': {"a": "\ufffd"},
    b'\xef\xbb\xbf{"a":1}': {"a": 1},
    b'{"a":1,"a":2}': {"a": 2},
    b'{"a":19933688932870350000}': {"a": 19933688932870350000},
    b'{"a":' + b"7" * 5000 + b"}": {"a": "7" * 5000},
    b' \r\n{"a":\r\n1}\n': {"a": 1},
}


@pytest.mark.parametrize("body", LENIENT)
def test_json_with_accidents_is_read_and_stored_as_strict_json(body: bytes) -> None:
    """Requests and responses that only lenient decoders read become strict JSON; raw is kept where it changed."""
    assert decode(body).value == LENIENT[body]
    fields = record("chat", body, response_headers=JSON_BODY, request_chunks=(body,))
    assert fields["request"] == fields["response"] == LENIENT[body]
    changed = "lenient_response" in fields["flags"]
    assert changed == (fields["response_raw"] is not None or fields["response_raw_b64"] is not None)
    assert changed == decode(body).lenient


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"a":1}x', b"<html>", b"\xff\xfe", b"nul", b"[1,]", b'{"a":1 "b":2}']
)
def test_what_is_no_json_raises_one_error(body: bytes) -> None:
    """Bytes that no reading makes JSON of give BodyError and nothing else."""
    with pytest.raises(BodyError):
        decode(body)


@pytest.mark.parametrize("lenient", [b"1", b"NaN", b'"\\ud83d"'])
def test_the_deepest_nesting_that_is_stored_is_no_burden(lenient: bytes) -> None:
    """At the limit everything works: strict and lenient, streamed, unstreamed and among tool arguments."""
    depth = MAX_DEPTH - 8
    body = b'{"a":' + b"[" * depth + lenient + b"]" * depth + b"}"
    fields = record("chat", body, response_headers=JSON_BODY, request_chunks=(body,))
    assert fields["request"].keys() == fields["response"].keys() == {"a"}
    chunk = delta("stop", tool_calls=[{"index": 0, "function": {"name": "f", "arguments": body.decode()}}])
    chunk["choices"][0]["delta"]["deep"] = "@"
    stream = events(json.dumps(chunk).replace('"@"', body.decode()), done=True)
    fields = record("chat", stream)
    assert fields["response"]["choices"][0]["message"]["deep"].keys() == {"a"}
    assert fields["tool_calls"][0]["arguments"].keys() == {"a"}


@pytest.mark.parametrize("depth", [MAX_DEPTH, 1000, 9000, 100_000])
def test_deep_nesting_is_kept_as_text(depth: int) -> None:
    """A body that other readers could not recurse into stays raw, on either side, and its line is readable."""
    body = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    fields = record("chat", body, response_headers=JSON_BODY, request_chunks=(body,))
    assert fields["request"] is None
    assert fields["request_raw"] == fields["response_raw"] == body.decode()
    assert fields["flags"] == ["undecodable_request", "undecodable_response"]


def test_the_depth_limit_is_exact() -> None:
    """MAX_DEPTH levels are stored, one more is not."""
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert not is_too_deep(value)
    assert is_too_deep({"a": value})


def test_bytes_are_embedded_as_they_are_less_line_ends() -> None:
    """Number text, key order and duplicate keys survive; only line ends between tokens go."""
    raw = embed(b'{"b": 1.0,\r\n "a":\n"x\\ny", "a": 2}')
    assert raw is not None
    assert b"\n" not in bytes(raw)
    assert json.loads(bytes(raw)) == {"b": 1.0, "a": 2}
    assert bytes(embed(b'{"a": 1.50, "a": 2}') or b"") == b'{"a": 1.50, "a": 2}'


def test_halves_of_characters_are_joined_or_replaced() -> None:
    """Two halves that meet become their character; a half alone becomes U+FFFD and is told."""
    assert heal({"a\ud83d\ude00": ["\ud83d\ude00", 1]}) == ({"a😀": ["😀", 1]}, False)
    assert heal("x\ud83dy") == ("x\ufffdy", True)


def test_a_request_body_may_be_any_json() -> None:
    """A request that is no object is kept raw, since readers expect an object or null."""
    fields = record("chat", request_chunks=(b"[1,", b"2]"))
    assert (fields["request"], fields["request_raw"]) == (None, "[1,2]")
    assert "request_not_object" in fields["flags"]


def test_embedding_refuses_what_cannot_be_formatted() -> None:
    """Text with line ends that the formatter refuses is not embedded."""
    assert embed(b"{\n") is None
    assert isinstance(embed(b"{}"), msgspec.Raw)
