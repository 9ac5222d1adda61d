from itertools import pairwise

import pytest

from tests.answers import CLOSING, DIALECTS, OPENING, Json, text
from tests.exchanges import delta, events, record

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
