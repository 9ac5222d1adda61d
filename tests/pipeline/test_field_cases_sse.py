import json
from pathlib import Path

import pytest

from capture import CaptureStore
from pipeline.process import encode, process
from tests.answers import CLOSING, DIALECTS, OPENING, WRITE, odd, said, stream, text, unstreamed, whole
from tests.exchanges import SERVER, cuts, events, exchange, named, record

TEXT = "né😀漢"
LINE_ENDS = {"LF": b"\n", "CRLF": b"\r\n", "CR": b"\r"}


def raw(body: bytes) -> bytes:
    """Write every escaped character of a stream as itself."""
    lines = [
        b"data: " + json.dumps(json.loads(line[6:]), ensure_ascii=False).encode()
        if line.startswith(b"data: {")
        else line
        for line in body.split(b"\n")
    ]
    return b"\n".join(lines)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_characters_cut_between_chunks(dialect: str) -> None:
    """Case 1: characters of two to four bytes that lie across chunks come out whole, in every dialect and cut."""
    body = raw(stream(dialect, *TEXT))
    assert "é".encode() in body
    for chunks in cuts(body):
        fields = record(dialect, chunks)
        assert (said(fields), odd(fields)) == (TEXT, set())
    assert said(unstreamed(dialect, whole(dialect, TEXT).decode().encode())) == TEXT


@pytest.mark.parametrize("dialect", DIALECTS)
def test_separators_that_only_unicode_knows(dialect: str, tmp_path: Path) -> None:
    """Case 2: raw U+2028, U+0085, VT and FS end neither a line of the stream nor one of the file."""
    awkward = "a\u2028b\u0085c\u2029"
    store = CaptureStore(tmp_path)
    for body in (raw(stream(dialect, awkward)), raw(b"data: " + whole(dialect, awkward))[6:]):
        assert "\u2028".encode() in body
        fields = record(dialect, body, response_headers=())
        assert (said(fields), fields["complete"]) == (awkward, True)
        line = encode(process(exchange(dialect, body, response_headers=()), SERVER, {}))
        (tmp_path / "3-1.capture.jsonl").write_bytes(line + b"\n")
        assert [said({"response": one.response}) for one in store.read("3-1")] == [awkward]


@pytest.mark.parametrize("line_end", LINE_ENDS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_line_ends_cut_in_two(dialect: str, line_end: str) -> None:
    """Case 3: CR, CRLF and LF, at every cut and with an object over two data lines, give the same events."""
    lines = stream(dialect, "a", "b").replace(b'", "', b'",\ndata: "', 1)
    body = lines.replace(b"\n", LINE_ENDS[line_end])
    for chunks in cuts(body):
        fields = record(dialect, chunks)
        assert (said(fields), odd(fields), fields["complete"]) == ("ab", set(), True)


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_comment_that_became_data(dialect: str, place: int) -> None:
    """S1: `data: : X PROCESSING` first, in the middle or last is one undecodable event; the rest is assembled."""
    blocks = stream(dialect, "a", "b").split(b"\n\n")[:-1]
    blocks.insert(place % len(blocks), b": X PROCESSING\n\ndata: : X PROCESSING")
    fields = record(dialect, b"\n\n".join(blocks) + b"\n\n")
    assert (said(fields), odd(fields), fields["complete"]) == ("ab", {"undecodable_event"}, True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_space_behind_the_colon(dialect: str) -> None:
    """S1: `data:{` and `data:[DONE]` are read like any other."""
    fields = record(dialect, stream(dialect, "a", "b").replace(b"data: ", b"data:"))
    assert (said(fields), odd(fields), fields["complete"]) == ("ab", set(), True)


@pytest.mark.parametrize("dialect", ["responses", "messages"])
def test_events_without_and_with_wrong_names(dialect: str) -> None:
    """S2: the type in the data decides, whether the `event` line is there, missing or another's."""
    made = [*OPENING[dialect], text(dialect, "a"), *CLOSING[dialect]]
    wrong = b"".join(b"event: message\n" + events(event) for event in made)
    for body in (events(*made), named(*made), wrong):
        fields = record(dialect, body)
        assert (said(fields), odd(fields), fields["complete"]) == ("a", set(), True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_without_the_empty_line_between_them(dialect: str) -> None:
    """A server that writes one line end where two belong loses nothing; that is told."""
    fields = record(dialect, stream(dialect, "a", "b").replace(b"\n\n", b"\n"))
    assert (said(fields), fields["complete"]) == ("ab", True)
    assert odd(fields) == {"unframed_event", "unterminated_event"}


@pytest.mark.parametrize("kind", [b"application/x-ndjson", b"application/json", b"text/event-stream"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_objects_one_a_line(dialect: str, kind: bytes) -> None:
    """A stream that is written as JSON lines is put together like any other; one object over lines stays one."""
    lines = events(*OPENING[dialect], text(dialect, "a"), *CLOSING[dialect]).replace(b"data: ", b"")
    headers = ((b"content-type", kind),)
    for body in (lines, lines.replace(b"\n\n", b"\n"), lines.replace(b"\n\n", b"\r\n")):
        fields = record(dialect, body, response_headers=headers)
        assert (said(fields), fields["complete"], fields["stream"]) == ("a", True, True)
        assert "unframed_event" in fields["flags"]
        assert fields["response_raw"] is None
    pretty = json.dumps(json.loads(whole(dialect, "a")), indent=1).encode()
    fields = record(dialect, pretty, response_headers=headers)
    assert (said(fields), fields["stream"]) == ("a", False)


@pytest.mark.parametrize("nothing", [b"data:\n\n", b"data: null\n\n", b'data: ""\n\n'])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_that_say_nothing(dialect: str, nothing: bytes) -> None:
    """Empty data and null in front of the first event and behind the last lose nothing, so no raw bytes are kept."""
    fields = record(dialect, nothing + stream(dialect, "a") + nothing)
    assert (said(fields), odd(fields), fields["response_raw"]) == ("a", {"empty_event"}, None)


ERRORS = {
    "a line of its own kind": b'error: {"code":400,"message":"too large"}\n\n',
    "a bare line": b'{"error":{"code":400,"message":"too large"}}\n\n',
    "an event of that name, its data the error": (
        b'event: error\ndata: {"type":"bad_thing","code":400,"message":"too large"}\n\n'
    ),
    "a bare line that ends the body": b'{"error":{"code":400,"message":"too large"}}',
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_errors_past_the_standard(dialect: str, name: str) -> None:
    """An error that a server writes in a way of its own is the call's error, with the partial answer beside it."""
    begun = WRITE["responses"](*OPENING[dialect], text(dialect, "Hel"))
    fields = record(dialect, begun + ERRORS[name])
    assert (said(fields), fields["complete"], fields["error_category"]) == ("Hel", False, "client_error")
    assert (fields["error"]["code"], fields["error"]["message"]) == (400, "too large")
    assert fields["response_raw"] is None


@pytest.mark.parametrize("silent", ["ping", "keepalive"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_keep_alives_are_nothing(dialect: str, silent: str) -> None:
    """Comments and keep-alive events, named or typed, are neither events nor flags nor members of the response."""
    typed, plain = events({"type": silent}), record(dialect, stream(dialect, "a"))
    beats = b": keep-alive\n\n" + typed + b"event: " + silent.encode() + b"\n" + typed
    chunks = [beats, stream(dialect, "a"), beats]
    fields = record(dialect, chunks)
    assert (fields["response"], odd(fields)) == (plain["response"], set())
    assert fields["timing"]["events"] == plain["timing"]["events"]
    assert (fields["timing"]["first_byte_ms"], fields["timing"]["first_event_ms"]) == (10.0, 20.0)
