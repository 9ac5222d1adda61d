from typing import Any

import pytest

from tests.answers import CLOSING, DIALECTS, ENVELOPE, MESSAGE, OPENING, Json, text, unstreamed, whole
from tests.exchanges import delta, events, record

Counts = dict[str, int]


def reported(dialect: str, *reports: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Write an answer in which these usage reports come one after the other, the last of them with the last event."""
    if dialect == "chat":
        chunks = [{**text("chat", "x"), "usage": report} for report in reports[:-1]]
        return events(*chunks, delta("stop"), {"choices": [], "usage": reports[-1]}, done=True)
    if dialect == "responses":
        started = [
            {"type": "response.in_progress", "response": {**ENVELOPE, "usage": report}}
            for report in reports[:-1]
        ]
        ended = {**ENVELOPE, "status": "completed", "output": [], "usage": reports[-1]}
        return events(*started, {"type": "response.completed", "response": ended})
    told = [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": one} for one in reports[1:]
    ]
    start = {"type": "message_start", "message": {**MESSAGE, "usage": reports[0]}}
    return events(start, *told, {"type": "message_stop"})


def counts(fields: Json) -> dict[str, Any]:
    """Return what is known of a record's usage."""
    return {name: value for name, value in (fields["usage"] or {}).items() if value is not None}


def test_running_totals_of_messages() -> None:
    """Case 15: counts of `message_delta` are totals, so input is 25, output 15 and cache read 100."""
    first = {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 100}
    body = reported(
        "messages", first, {"output_tokens": 9}, {"output_tokens": 15, "cache_read_input_tokens": 100}
    )
    found = counts(record("messages", body))
    assert (found["input_tokens_uncached"], found["cache_read_tokens"], found["output_tokens"]) == (
        25,
        100,
        15,
    )
    assert found["input_tokens"] == 125
    late = reported(
        "messages", {"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 123, "output_tokens": 45}
    )
    assert counts(record("messages", late)) == {"input_tokens": 123, "output_tokens": 45}


CHAT = {
    "prompt_tokens": 17903,
    "completion_tokens": 10,
    "total_tokens": 17913,
    "prompt_tokens_details": {"cached_tokens": 17817},
}
RESPONSES = {
    "input_tokens": 17903,
    "output_tokens": 10,
    "total_tokens": 17913,
    "input_tokens_details": {"cached_tokens": 17817},
}
MESSAGES = {
    "input_tokens": 5,
    "cache_read_input_tokens": 128000,
    "cache_creation_input_tokens": 1200,
    "output_tokens": 50,
}
CACHED: dict[str, tuple[Json, tuple[int, int, int]]] = {
    "messages": (MESSAGES, (129205, 5, 128000)),
    "chat": (CHAT, (17903, 86, 17817)),
    "responses": (RESPONSES, (17903, 86, 17817)),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_cached_prompts(dialect: str) -> None:
    """Case 16 (a) to (c): the whole prompt and its uncached part by the family's own rule, streamed and whole."""
    usage, expected = CACHED[dialect]
    for fields in (
        record(dialect, reported(dialect, usage, usage)),
        unstreamed(dialect, whole(dialect, "x", usage=usage)),
    ):
        found = counts(fields)
        assert (found["input_tokens"], found["input_tokens_uncached"], found["cache_read_tokens"]) == expected
        assert fields["response"]["usage"] == usage


PROMPTS = {"chat": "prompt_tokens", "responses": "input_tokens", "messages": "input_tokens"}
ODD: list[tuple[Any, int | None, bool]] = [
    (12.0, 12, False),
    ("12", None, True),
    (-1, None, True),
    (True, None, True),
    (None, None, False),
]
"""Case 16 (e) to (g): a counter as it may come, what it is, and whether a flag says that it is none."""


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("value", "expected", "bad"), ODD)
def test_counters_that_are_none(dialect: str, value: object, expected: int | None, *, bad: bool) -> None:
    """Case 16 (d) to (g), S12: odd counters and details of null are unknown, never zero, verbatim in the response."""
    usage = {PROMPTS[dialect]: value, "prompt_tokens_details": None, "input_tokens_details": None}
    for fields in (
        record(dialect, reported(dialect, usage, usage)),
        unstreamed(dialect, whole(dialect, "x", usage=usage)),
    ):
        assert counts(fields) == ({} if expected is None else {"input_tokens": expected})
        assert ("bad_usage_value" in fields["flags"]) is bad
        assert fields["response"]["usage"][PROMPTS[dialect]] == value
        assert fields["complete"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_usage_on_every_event(dialect: str) -> None:
    """Case 18: running totals are not summed; a null report and empty choices change nothing."""
    if dialect == "chat":
        made = [{"prompt_tokens": 10, "completion_tokens": n, "total_tokens": 10 + n} for n in (1, 2, 3, 3)]
    else:
        made = [{"input_tokens": 10, "output_tokens": n} for n in (1, 2, 3, 3)]
    found = counts(record(dialect, reported(dialect, *made)))
    assert (found["input_tokens"], found["output_tokens"]) == (10, 3)
    if dialect == "chat":
        filtered = {"id": "", "choices": [], "prompt_filter_results": [{}]}
        body = events(
            filtered, *({**text("chat", "x"), "usage": one} for one in made), delta("stop"), done=True
        )
        later: Json = {"choices": [], "usage": None}
        assert counts(record("chat", body[: -len(b"data: [DONE]\n\n")] + events(later, done=True))) == found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_usage_of_a_cut_stream(dialect: str) -> None:
    """Cases 15 and 18's siblings: what the first event reported is known although no last one came."""
    usage = {"input_tokens": 12} if dialect != "chat" else {"prompt_tokens": 12}
    first = dict(OPENING[dialect][0])
    if dialect == "chat":
        first["usage"] = usage
    else:
        member = "response" if dialect == "responses" else "message"
        first[member] = {**first[member], "usage": usage}
    fields = record(dialect, events(first))
    assert (counts(fields), fields["complete"]) == ({"input_tokens": 12}, False)
    without = record(dialect, events(*OPENING[dialect], text(dialect, "x"), *CLOSING[dialect]))
    assert without["usage"] is None


BESIDE: dict[str, tuple[Json, Counts]] = {
    "chat": (
        {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}
        | {"completion_tokens_details": {"reasoning_tokens": 94}},
        {"input_tokens": 32, "output_tokens": 9, "total_tokens": 135, "reasoning_tokens": 94},
    ),
    "responses": (
        {"input_tokens": 10, "output_tokens": 50, "total_tokens": 60}
        | {"output_tokens_details": {"reasoning_tokens": 40}},
        {"input_tokens": 10, "output_tokens": 50, "total_tokens": 60, "reasoning_tokens": 40},
    ),
    "messages": (
        {"input_tokens": 10, "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 40}},
        {"input_tokens": 10, "output_tokens": 50, "reasoning_tokens": 40},
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reasoning_is_never_added(dialect: str) -> None:
    """S3: whether reasoning is inside the output or beside it, each count is as reported."""
    usage, expected = BESIDE[dialect]
    assert counts(record(dialect, reported(dialect, usage, usage))) == expected
    assert counts(unstreamed(dialect, whole(dialect, "x", usage=usage))) == expected


def test_usage_in_other_places() -> None:
    """Reports in a vendor's own member are found where the usual one is missing; tools of the response count."""
    metrics = {"inputTokenCount": 7, "outputTokenCount": 2}
    stop = {"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics}
    start = {"type": "message_start", "message": MESSAGE}
    assert counts(record("messages", events(start, stop))) == {"input_tokens": 7, "output_tokens": 2}
    told = {"usage": {"input_tokens": 1}, "tool_usage": {"web_search": {"num_requests": 3}, "image_gen": {}}}
    fields = unstreamed("responses", whole("responses", "x", **told))
    assert fields["usage"]["server_tool_calls"] == {"web_search": 3}
    assert fields["response"]["usage"] == told["usage"]


@pytest.mark.parametrize("usage", ["x", [], 7])
def test_what_is_no_report_stays_verbatim(usage: object) -> None:
    """D: a usage of another type is unknown, and stays in the response as it came until a report comes."""
    odd = {**delta(content="a"), "usage": usage}
    fields = record("chat", events(odd, delta("stop"), done=True))
    assert (fields["usage"], fields["response"]["usage"]) == (None, usage)
    late = {"id": "c1", "choices": [], "usage": {"prompt_tokens": 5}}
    fields = record("chat", events(odd, late, {**late, "usage": usage}, delta("stop"), done=True))
    assert fields["usage"]["input_tokens"] == 5
