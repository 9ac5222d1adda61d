from typing import Any

import pytest

from tests.exchanges import EVENT_STREAM, JSON_BODY, delta, events, record


def message(fields: dict[str, Any], choice: int = 0) -> dict[str, Any]:
    """Return the message of one choice of the response."""
    found: dict[str, Any] = fields["response"]["choices"][choice]["message"]
    return found


def test_a_broken_event_loses_only_itself() -> None:
    """An undecodable event is flagged and kept raw; the others are assembled."""
    bad = "data: : X PROCESSING\n\n"
    body = (
        b": X PROCESSING\n\n"
        + bad.encode()
        + events(delta(content="a"), "{oops", "[1]", delta("stop"), done=True)
    )
    fields = record("chat", body)
    assert message(fields)["content"] == "a"
    assert fields["flags"] == ["undecodable_event"]
    assert fields["response_raw"] == body.decode()
    assert fields["complete"]


SHAPES = [
    {"choices": 7},
    {"choices": [None, 7, "x"]},
    {"choices": [{"index": "0", "delta": 7}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": 7}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [7, None, {"function": 7}]}}]},
    {"choices": [{"index": 0, "delta": {"content": {"a": 1}}}, {"index": 0, "delta": {"content": "x"}}]},
    {"choices": [{"index": 0, "logprobs": 7, "finish_reason": {}}]},
    {"choices": [{"index": -1, "delta": {"role": {}, "content": [[], 7]}}]},
    {"id": {}, "model": [], "usage": [], "choices": []},
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("streamed", [True, False])
def test_unexpected_shapes_never_raise(shape: dict[str, Any], *, streamed: bool) -> None:
    """Members of any type, in any place, give a record, streamed and not."""
    body = (
        events(delta(content="a"), shape, delta("stop", content="b"), done=True)
        if streamed
        else events(shape)[6:-2]
    )
    fields = record("chat", body, response_headers=EVENT_STREAM if streamed else JSON_BODY)
    assert fields["response"]


TYPED_SHAPES = [
    {"type": "response.completed", "response": 7},
    {"type": "response.completed", "response": {"output": 7, "error": 7, "usage": []}},
    {
        "type": "response.completed",
        "response": {"output": [7, {"type": {}}, {"type": "reasoning", "summary": 7}]},
    },
    {"type": "response.output_item.added", "item": 7},
    {"type": "response.output_item.added", "item": {"id": {}, "content": 7, "summary": [7]}},
    {"type": "response.output_text.delta", "delta": {}, "content_index": []},
    {"type": "response.output_text.delta", "output_index": -1, "delta": "x"},
    {"type": "response.content_part.added", "part": 7},
    {"type": "response.content_part.added", "part": {"type": []}, "output_index": 3},
    {"type": {}, "sequence_number": "x"},
    {"error": "plain text"},
    {"type": "message_start", "message": 7},
    {"type": "message_start", "message": {"content": [7, {"type": {}}], "usage": 7}},
    {"type": "content_block_start", "content_block": 7},
    {"type": "content_block_start", "index": {}, "content_block": {"type": [], "text": 7}},
    {"type": "content_block_delta", "delta": 7},
    {"type": "content_block_delta", "index": "x", "delta": {"type": {}, "a": None}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": []}},
    {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": 7}},
    {"type": "content_block_delta", "delta": {"type": "citations_delta"}},
    {"type": "content_block_stop", "index": None},
    {"type": "message_delta", "delta": 7, "usage": 7},
    {"type": "message_delta", "delta": {"content": 7, "stop_reason": {}, "usage": {}}},
]


@pytest.mark.parametrize("shape", TYPED_SHAPES)
@pytest.mark.parametrize("dialect", ["responses", "messages"])
def test_unexpected_shapes_of_typed_events_never_raise(dialect: str, shape: dict[str, Any]) -> None:
    """Members of any type give a record: alone, twice, and among events that are as they should be."""
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    item = {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "message", "content": []},
    }
    for body in (
        events(shape),
        events(shape, shape),
        events(item, block, shape, shape, {"type": "message_stop"}),
    ):
        record(dialect, body)


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("shape", [*SHAPES, *TYPED_SHAPES, {"content": [7, {"thinking": 7}], "output": [7]}])
def test_unstreamed_bodies_of_any_shape_never_raise(dialect: str, shape: dict[str, Any]) -> None:
    """A body that is some other object is stored as it is."""
    assert record(dialect, events(shape)[6:-2], response_headers=JSON_BODY)["response"] == shape
