from itertools import pairwise

import pytest

from pipeline.timing import unpack_chunks
from tests.answers import CLOSING, DIALECTS, OPENING, Json, text
from tests.exchanges import CHUNK_NS, EVENT_STREAM, delta, events, record, zipped

THOUGHT: dict[str, list[Json]] = {
    "chat": [delta(reasoning_content="hm")],
    "responses": [
        {"type": "response.reasoning_text.delta", "item_id": "rs", "output_index": 1, "delta": "hm"},
    ],
    "messages": [
        {"type": "content_block_delta", "index": 1, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    ],
}
CALL: dict[str, Json] = {
    "chat": delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f"}}]),
    "responses": {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {"id": "fc", "type": "function_call", "name": "f", "arguments": ""},
    },
    "messages": {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}},
    },
}


def times(dialect: str, *chunks: bytes) -> Json:
    """Return the timing of a stream whose chunks come 10 ms apart, the first after 10 ms."""
    timing: Json = record(dialect, chunks)["timing"]
    return timing


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reasoning_text_and_keep_alives_are_told_apart(dialect: str) -> None:
    """Openings, comments and keep-alives bring no token; reasoning, text and gaps have their times."""
    quiet = b": keep-alive\n\n", events({"type": "ping"}), events(*OPENING[dialect])
    brought = (
        events(*THOUGHT[dialect]),
        b": keep-alive\n\n",
        events(text(dialect, "a")),
        events({"type": "ping"}),
    )
    timing = times(dialect, *quiet, *brought, events(text(dialect, "b")), events(*CLOSING[dialect]))
    assert (timing["first_byte_ms"], timing["first_event_ms"]) == (10.0, 30.0)
    assert (timing["first_reasoning_ms"], timing["first_token_ms"]) == (40.0, 60.0)
    assert (timing["last_token_ms"], timing["itl_max_ms"], timing["itl_p50_ms"]) == (80.0, 20.0, 20.0)
    assert timing["chunks"] == 9
    assert timing["events"] == len(OPENING[dialect]) + len(CLOSING[dialect]) + 3


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_call_is_content_from_its_opening_on(dialect: str) -> None:
    """The event that names the tool is the first token of an answer that only calls."""
    timing = times(dialect, events(*OPENING[dialect]), events(CALL[dialect]), events(*CLOSING[dialect]))
    assert (timing["first_token_ms"], timing["last_token_ms"]) == (20.0, 20.0)
    assert (timing["first_reasoning_ms"], timing["itl_p50_ms"]) == (None, None)


def test_text_that_comes_without_deltas() -> None:
    """Where only the `done` event brings the text it is the token; behind deltas it brings nothing new."""
    done = events({"type": "response.output_text.done", "item_id": "i1", "output_index": 0, "text": "ab"})
    opening = events(*OPENING["responses"])
    assert times("responses", opening, done)["first_token_ms"] == 20.0
    assert times("responses", opening, events(text("responses", "ab")), done)["last_token_ms"] == 20.0


LISTS: dict[str, Json] = {
    "content": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    "details": {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
    "summaries": {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm", "index": 0}]},
    "blocks": {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "S"}]},
}


@pytest.mark.parametrize("name", LISTS)
def test_reasoning_that_comes_as_a_list(name: str) -> None:
    """Lists of thoughts are reasoning, by time and by text; the text behind them is the first token."""
    fields = record("chat", [events(delta(**LISTS[name])), events(delta(content="x")), events(delta("stop"))])
    timing = fields["timing"]
    assert (timing["first_reasoning_ms"], timing["first_token_ms"]) == (10.0, 20.0)
    assert fields["reasoning_content"] == "hm"


@pytest.mark.parametrize(("count", "median", "late"), [(2, 10.0, 10.0), (3, 10.0, 20.0), (41, 200.0, 380.0)])
def test_quantiles_are_gaps_that_were_there(count: int, median: float, late: float) -> None:
    """Median and 95th percentile are gaps of the stream: the smallest that so many of them do not exceed."""
    stamps = [sum(range(number + 1)) * 10_000_000 for number in range(count)]
    assert [later - earlier for earlier, later in pairwise(stamps)] == [
        n * 10_000_000 for n in range(1, count)
    ]
    chunks = [events(delta(content="x"))] * count
    timing = record("chat", chunks, response_times_ns=tuple(stamps))["timing"]
    assert (timing["itl_p50_ms"], timing["itl_p95_ms"]) == (median, late)
    assert timing["itl_max_ms"] == (count - 1) * 10.0


FIRST = events(delta(content="a"))
QUIET: dict[str, tuple[list[bytes], float | None]] = {
    "a comment": ([b": hello\n\n", FIRST], 20.0),
    "a comment in three chunks": ([b": he", b"l", b"lo\r", b"\n\r\n", FIRST], 50.0),
    "empty lines": ([b"\n", b"\r\n", b" \n", FIRST], 40.0),
    "an empty line and a comment": ([b"\n: hello\n\n", FIRST], 20.0),
    "a comment and more in one chunk": ([b": hello\n\n" + FIRST], 10.0),
    "the end of a comment and more in one chunk": ([b": hel", b"lo\n\n" + FIRST], 20.0),
    "a space before an object": ([b" ", b'{"choices":[]}'], 20.0),
    "nothing else": ([b": hello\n\n", b"\n"], None),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_keeps_a_connection_open_is_no_first_answer(name: str) -> None:
    """Comments and empty lines, however they are cut, do not count as the first chunk; they are the first byte."""
    chunks, expected = QUIET[name]
    fields = record("chat", chunks)
    assert fields["latency_ttft_ms"] == expected
    assert fields["timing"]["first_byte_ms"] == 10.0


def test_chunks_of_an_encoded_stream_are_packed_as_they_were_decoded() -> None:
    """Sizes are of the bytes that are kept, so that they cut the stream where its chunks were."""
    pieces = [events(delta(content="a" * 500)), events(delta("stop"), done=True)]
    headers = (*EVENT_STREAM, (b"content-encoding", b"gzip"))
    fields = record("chat", list(map(zipped, pieces)), response_headers=headers)
    packed = unpack_chunks(fields["response_chunks"])
    assert packed == [(len(piece), CHUNK_NS * (at + 1)) for at, piece in enumerate(pieces)]
