from typing import Any

import pytest

from tests.exchanges import JSON_BODY, events, named, record

ENVELOPE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "in_progress",
    "output": [],
    "usage": None,
}
CREATED = {"type": "response.created", "response": ENVELOPE}
USAGE = {
    "input_tokens": 8,
    "input_tokens_details": {"cached_tokens": 2},
    "output_tokens": 64,
    "output_tokens_details": {"reasoning_tokens": 40},
    "total_tokens": 72,
}


def added(index: int, **item: object) -> dict[str, Any]:
    """Make the event that opens an item."""
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: object) -> dict[str, Any]:
    """Make the event that closes an item."""
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def ended(how: str = "completed", **fields: object) -> dict[str, Any]:
    """Make a terminal event."""
    return {"type": f"response.{how}", "response": {**ENVELOPE, "status": how, **fields}}


def on(kind: str, index: int, **fields: object) -> dict[str, Any]:
    """Make an event about the inside of an item."""
    return {"type": f"response.{kind}", "output_index": index, **fields}


TEXT = {"type": "output_text", "text": "Hello", "annotations": []}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [TEXT]}
OPENED = {**MESSAGE, "status": "in_progress", "content": []}
STREAM = [
    CREATED,
    {"type": "response.in_progress", "response": ENVELOPE},
    added(0, **OPENED),
    on("content_part.added", 0, content_index=0, part={**TEXT, "text": ""}),
    on("output_text.delta", 0, item_id="msg_1", content_index=0, delta="Hel", logprobs=[]),
    on("output_text.delta", 0, item_id="msg_1", content_index=0, delta="lo", obfuscation="xx"),
    on("output_text.done", 0, item_id="msg_1", content_index=0, text="Hello"),
    on("content_part.done", 0, content_index=0, part=TEXT),
    done(0, **MESSAGE),
    ended(output=[MESSAGE], usage=USAGE),
]


@pytest.mark.parametrize("write", [named, events])
def test_a_plain_stream_is_its_terminal_envelope(write: Any) -> None:  # noqa: ANN401 - either writer
    """The completed event's response is the response, with event names and without."""
    fields = record("responses", write(*STREAM))
    assert fields["response"] == STREAM[-1]["response"]
    assert (fields["response_id"], fields["model"], fields["finish"]) == ("resp_1", "m", "stop")
    assert (fields["complete"], fields["error_category"], fields["flags"]) == (True, None, [])
    usage = fields["usage"]
    assert (usage["input_tokens"], usage["input_tokens_uncached"], usage["reasoning_tokens"]) == (8, 6, 40)


@pytest.mark.parametrize("count", range(3, 10))
def test_a_cut_stream_keeps_what_came(count: int) -> None:
    """Wherever the stream stops, envelope, items and text so far are there, and it is not complete."""
    fields = record("responses", named(*STREAM[:count]))
    assert (fields["complete"], fields["error_category"]) == (False, "stream_truncated")
    assert fields["response_id"] == "resp_1"
    texts = [part["text"] for part in fields["response"]["output"][0]["content"]]
    assert texts == {3: [], 4: [""], 5: ["Hel"]}.get(count, ["Hello"])


def test_a_terminal_event_without_the_items_gets_them() -> None:
    """Items that were streamed are not lost when the terminal event comes with none."""
    outputs: list[dict[str, Any]] = [{}, {"output": []}, {"output": None}]
    for output in outputs:
        terminal = ended(**output)
        if not output:
            del terminal["response"]["output"]
        fields = record("responses", named(*STREAM[:-1], terminal))
        assert fields["response"]["output"] == [MESSAGE]
        assert (fields["complete"], fields["flags"]) == (True, ["items_recovered"])


def test_parallel_calls_with_interleaved_arguments() -> None:
    """Fragments go to the item that is named, closed in any order; items stand in the order of their index."""
    call = {"type": "function_call", "arguments": "", "status": "in_progress"}
    body = [
        CREATED,
        added(0, id="fc_1", call_id="c1", name="f", **call),
        added(1, id="fc_2", call_id="c2", name="g", **call),
        on("function_call_arguments.delta", 0, item_id="fc_1", delta='{"a"'),
        on("function_call_arguments.delta", 1, item_id="fc_2", delta='{"b"'),
        on("function_call_arguments.delta", 0, item_id="fc_1", delta=":1}"),
        on("function_call_arguments.delta", 1, item_id="fc_2", delta=":2}"),
        done(1, id="fc_2", call_id="c2", name="g", **{**call, "arguments": '{"b":2}'}),
        on("function_call_arguments.delta", 1, item_id="fc_2", delta="late"),
    ]
    for more in (
        [],
        [done(0, id="fc_1", call_id="c1", name="f", **{**call, "arguments": '{"a":1}'}), ended(output=None)],
    ):
        fields = record("responses", named(*body, *more))
        assert [(one["call_id"], one["arguments"]) for one in fields["tool_calls"]] == [
            ("c1", {"a": 1}),
            ("c2", {"b": 2}),
        ]
        assert "late_delta" in fields["flags"]
        assert fields["response_raw"]
        assert fields["finish"] == ("tool_calls" if more else None)


def test_items_are_found_by_id_where_indexes_are_missing_or_shared() -> None:
    """Ids find the item without an index and with an index that all items share; a changing id does not lose it."""
    call = {"type": "custom_tool_call", "input": ""}
    shared = [added(0, id="a", **call), added(0, id="b", **call)]
    unplaced = [{key: value for key, value in event.items() if key != "output_index"} for event in shared]
    for opening in (shared, unplaced):
        body = [
            *opening,
            {"type": "response.custom_tool_call_input.delta", "item_id": "b", "delta": "B"},
            on("custom_tool_call_input.delta", 0, item_id="a", delta="A"),
        ]
        fields = record("responses", named(*body))
        assert [one["input"] for one in fields["response"]["output"]] == ["A", "B"]
    rotating = [
        added(0, id="x1", **call),
        on("custom_tool_call_input.delta", 0, item_id="x2", delta="X"),
        done(0, id="x3"),
    ]
    assert [one["id"] for one in record("responses", named(*rotating))["response"]["output"]] == ["x3"]


def test_what_was_never_opened_is_opened() -> None:
    """Deltas for an unknown item, and a part whose index is 1 though it is the only one, keep their text."""
    body = [
        on("reasoning_summary_text.delta", 0, item_id="rs", summary_index=0, delta="why"),
        on("output_text.delta", 1, item_id="msg", content_index=1, delta="x"),
        on(
            "output_text.annotation.added",
            1,
            item_id="msg",
            content_index=1,
            annotation={"type": "url_citation"},
        ),
    ]
    fields = record("responses", named(*body))
    assert fields["response"]["output"] == [
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "why"}]},
        {
            "type": "message",
            "id": "msg",
            "content": [{"type": "output_text", "text": "x", "annotations": [{"type": "url_citation"}]}],
        },
    ]
    assert fields["reasoning_content"] == "why"
    assert fields["flags"] == ["unopened_item"]


ENDS: dict[str, tuple[list[dict[str, Any]], str | None, str | int | None, bool]] = {
    "completed": ([ended()], None, None, True),
    "incomplete": (
        [ended("incomplete", incomplete_details={"reason": "max_output_tokens"}, usage=USAGE)],
        "incomplete",
        None,
        True,
    ),
    "failed": (
        [ended("failed", error={"code": "rate_limit_exceeded", "message": "x"})],
        "rate_limit",
        "rate_limit_exceeded",
        False,
    ),
    "failed without a reason": ([ended("failed")], "upstream_error", None, False),
    "flat error": (
        [{"type": "error", "code": "server_error", "message": "x", "param": None, "sequence_number": 9}],
        "upstream_error",
        "server_error",
        False,
    ),
    "nested error": (
        [{"type": "error", "error": {"type": "server_error", "message": "x"}}],
        "upstream_error",
        None,
        False,
    ),
    "error, then failed": (
        [
            {"type": "error", "error": {"code": "insufficient_quota"}},
            ended("failed", error={"code": "insufficient_quota"}),
        ],
        "rate_limit",
        "insufficient_quota",
        False,
    ),
    "still queued": ([{"type": "response.queued", "response": ENVELOPE}], "stream_truncated", None, False),
    "cancelled by request": ([ended("cancelled")], "cancelled", None, False),
    "done mark alone": ([], "stream_truncated", None, False),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_stream_ends(name: str) -> None:
    """Every end has its category and code, keeps the id, and only a terminal event without error is complete."""
    last, category, code, complete = ENDS[name]
    fields = record("responses", named(CREATED, *last) + b"data: [DONE]\n\n")
    assert (fields["error_category"], fields["complete"], fields["response_id"]) == (
        category,
        complete,
        "resp_1",
    )
    assert category is None or fields["error"]["code"] == code
    assert fields["flags"] == []


@pytest.mark.parametrize("how", ["completed", "incomplete", "failed", "cancelled"])
def test_unstreamed_answers_are_judged_like_streamed_ones(how: str) -> None:
    """The same response gives the same category, finish and meaning without a stream."""
    terminal = ended(how, output=[MESSAGE], incomplete_details={"reason": "content_filter"}, usage=USAGE)
    streamed = record("responses", named(CREATED, terminal))
    whole = record("responses", events(terminal["response"])[6:-2], response_headers=JSON_BODY)
    for name in (
        "error_category",
        "error",
        "complete",
        "finish",
        "finish_reason",
        "usage",
        "response",
        "response_id",
    ):
        assert streamed[name] == whole[name]
    assert (streamed["stream"], whole["stream"]) == (True, False)


@pytest.mark.parametrize(
    ("numbers", "flags"), [([0, 1, 2, 5], ["sequence_gap"]), ([4, 5, 6, 7], []), ([None] * 4, [])]
)
def test_sequence_numbers(numbers: list[int | None], flags: list[str]) -> None:
    """A gap is flagged and nothing is lost; a resumed stream and one without numbers are as good as any."""
    body = [
        {**event, "sequence_number": number}
        for event, number in zip([*STREAM[:2], *STREAM[8:]], numbers, strict=True)
    ]
    fields = record("responses", named(*body))
    assert (fields["flags"], fields["complete"]) == (flags, True)


def test_reasoning_refusal_and_unknown_items_are_kept() -> None:
    """Reasoning text is the record's reasoning, a refusal its finish; unknown items and members stay as they came."""
    output = [
        {
            "type": "reasoning",
            "id": "r",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
            "x": 1,
        },
        {"type": "future_thing", "payload": {"y": [1]}},
        {**MESSAGE, "content": [{"type": "refusal", "refusal": "No"}]},
    ]
    fields = record("responses", named(ended(output=output)))
    assert fields["response"]["output"] == output
    assert (fields["reasoning_content"], fields["finish"]) == ("hm", "refusal")


def test_an_unknown_event_matters_only_if_the_end_is_missing() -> None:
    """With a whole terminal event an unknown event loses nothing; without it the raw stream is kept."""
    strange = on("strange_thing.delta", 0, delta="?")
    assert record("responses", named(*STREAM[:-1], strange, STREAM[-1]))["flags"] == []
    cut = record("responses", named(*STREAM[:-1], strange))
    assert (cut["flags"], cut["response_raw"] is not None) == (["unknown_event"], True)


def test_an_event_behind_the_end_is_flagged() -> None:
    """A second terminal event is taken and told; a first one is not undone by a late progress event."""
    fields = record("responses", named(*STREAM, {"type": "response.in_progress", "response": ENVELOPE}))
    assert (fields["flags"], fields["response"]) == (["after_terminal"], STREAM[-1]["response"])
    changed = record("responses", named(CREATED, ended(id="resp_2")))
    assert (changed["flags"], changed["response"]["id"]) == (["identity_changed"], "resp_1")
