import time

import pytest

from pipeline.sse import Event, EventParser
from tests.exchanges import cuts


def parse(chunks: list[bytes]) -> list[Event]:
    """Feed a stream in these chunks and return all its events."""
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


STREAMS = {
    "a character in four bytes": ("data: né😀漢\n\n".encode(), [b"n\xc3\xa9\xf0\x9f\x98\x80\xe6\xbc\xa2"]),
    "CRLF": (
        b'data: {"a":1,\r\ndata: "b":2}\r\n\r\ndata: [DONE]\r\n\r\n',
        [b'{"a":1,\n"b":2}', b"[DONE]"],
    ),
    "lone CR": (b'data: {"a":1,\rdata: "b":2}\r\rdata: [DONE]\r\r', [b'{"a":1,\n"b":2}', b"[DONE]"]),
    "line ends mixed": (b"data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\ndata: 4\n\n", [b"1", b"2", b"3", b"4"]),
    "the first CRLF ends an event": (b"data: 1\n\r\ndata: 2\n\r\n", [b"1", b"2"]),
    "the first CR ends an event": (b"data: 1\r\n\rdata: 2\n\r", [b"1", b"2"]),
    "separators that only Unicode knows": (
        "data: a\u2028b\u0085c\x0bd\x1ce\n\n".encode(),
        ["a\u2028b\u0085c\x0bd\x1ce".encode()],
    ),
    "no space after the colon": (b"data:1\n\ndata:[DONE]\n\n", [b"1", b"[DONE]"]),
    "one space only is dropped": (b"data:  1\n\n", [b" 1"]),
    "several data lines, one empty": (b"data: a\ndata\ndata: b\n\n", [b"a\n\nb"]),
    "comments and empty lines": (b": hello\n\n\n\n:\n\ndata: 1\n: in between\n\n\n", [b"1"]),
    "id and retry": (b"id: 7\nretry: 10\n\nid: 8\ndata: 1\n\n", [b"1"]),
    "byte order mark": (b"\xef\xbb\xbfdata: 1\n\ndata: \xef\xbb\xbf\n\n", [b"1", b"\xef\xbb\xbf"]),
    "byte order mark behind the start": (b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n", [b"1", None]),
    "last event unterminated": (b"data: 1\n\ndata: 2\n", [b"1", b"2"]),
    "last event without even a line end": (b"data: 1\n\ndata: 2", [b"1", b"2"]),
}


@pytest.mark.parametrize("name", STREAMS)
def test_any_cut_gives_the_same_events(name: str) -> None:
    """Events, their data and their offsets are those of the standard, wherever the stream is cut."""
    body, data = STREAMS[name]
    whole = parse([body])
    assert [event.data for event in whole] == data
    for chunks in cuts(body):
        assert parse(chunks) == whole


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_only_a_missing_empty_line_is_told_as_such(line_end: bytes) -> None:
    """The last event is whole with its empty line, also where that ends in CR, and told as unfinished without."""
    body = b"data: 1" + line_end * 2 + b"data: 2" + line_end
    assert [event.ended for event in parse([body])] == [True, False]
    for chunks in cuts(body + line_end):
        assert [event.ended for event in parse(chunks)] == [True, True]


def test_names_and_offsets() -> None:
    """An event carries its name, and the offset just behind its empty line."""
    body = b"event: ping\ndata: 1\n\n: x\n\ndata: 2\n\n"
    assert parse([body]) == [Event(b"ping", b"1", 21), Event(b"", b"2", len(body))]


def test_lines_that_are_no_field_are_counted() -> None:
    """A JSON or HTML line between events is not passed over in silence."""
    assert parse([b'{"error":1}\ndata: 1\n\n<html>\n\n']) == [
        Event(b"", b"1", 21, 1),
        Event(b"", None, 29, 1),
    ]


def test_an_event_without_data_is_told_as_such() -> None:
    """A name alone is handed out with null data, which dispatches nothing."""
    assert parse([b"event: error\n\n"]) == [Event(b"error", None, 14)]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_one_large_event_in_small_chunks_costs_as_little_per_byte(line_end: bytes) -> None:
    """A stream of one huge event in chunks of 4 KB is cut in time far below the square of its size."""
    small, large = 1 << 19, 1 << 23
    quadratic = (large // small) ** 2
    assert cpu_seconds(large, line_end) < quadratic / 4 * cpu_seconds(small, line_end)


def cpu_seconds(size: int, line_end: bytes) -> float:
    """Return the least CPU time of five runs over one event of this size."""
    body = b"data: " + b"x" * size + line_end * 2
    chunks = [body[at : at + 4096] for at in range(0, len(body), 4096)]
    best = 9.0
    for _ in range(5):
        start = time.thread_time()
        assert len(parse(chunks)) == 1
        best = min(best, time.thread_time() - start)
    return best
