import json
from typing import Any

import pytest

from tests.exchanges import JSON_BODY, events, named, record

STARTED: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 100},
}
START = {"type": "message_start", "message": STARTED}
STOP = {"type": "message_stop"}


def block(index: int | None, **fields: object) -> dict[str, Any]:
    """Make the event that opens a block."""
    return {"type": "content_block_start", "index": index, "content_block": fields}


def grow(index: int | None, kind: str, **fields: object) -> dict[str, Any]:
    """Make a delta of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", **fields}}


def close(index: int) -> dict[str, Any]:
    """Make the event that closes a block."""
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None = "end_turn", **fields: object) -> dict[str, Any]:
    """Make the event that says how the message ended."""
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, **fields}


STREAM = [
    START,
    block(0, type="thinking", thinking="", signature=""),
    grow(0, "thinking", thinking="ab"),
    grow(0, "thinking", thinking="cd"),
    grow(0, "signature", signature="S1"),
    close(0),
    block(1, type="text", text=""),
    grow(1, "text", text="Hel"),
    grow(1, "text", text="lo"),
    close(1),
    finish(usage={"output_tokens": 9}),
    finish(usage={"output_tokens": 15, "cache_read_input_tokens": 100, "input_tokens": None}),
    STOP,
]


@pytest.mark.parametrize("write", [named, events])
def test_a_plain_stream_is_the_message_it_would_have_been(write: Any) -> None:  # noqa: ANN401 - either writer
    """Text, thinking with its signature and usage as running totals, with event names and without."""
    fields = record("messages", write(*STREAM))
    assert fields["response"] == {
        **STARTED,
        "content": [
            {"type": "thinking", "thinking": "abcd", "signature": "S1"},
            {"type": "text", "text": "Hello"},
        ],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 25, "output_tokens": 15, "cache_read_input_tokens": 100},
    }
    assert (fields["reasoning_content"], fields["finish"], fields["finish_reason"]) == (
        "abcd",
        "stop",
        "end_turn",
    )
    assert (fields["usage"]["input_tokens"], fields["usage"]["input_tokens_uncached"]) == (125, 25)
    assert (fields["complete"], fields["error_category"], fields["flags"]) == (True, None, [])


@pytest.mark.parametrize("count", range(1, 10))
def test_a_cut_stream_keeps_what_came(count: int) -> None:
    """Wherever the stream stops, the blocks and usage so far are there, and it is not complete."""
    fields = record("messages", named(*STREAM[:count]))
    assert (fields["complete"], fields["error_category"]) == (False, "stream_truncated")
    thinking = {1: None, 2: "", 3: "ab"}.get(count, "abcd")
    assert [one.get("thinking") for one in fields["response"]["content"][:1]] == (
        [] if thinking is None else [thinking]
    )
    assert fields["usage"]["input_tokens"] == 125


def test_interleaved_blocks_and_one_never_opened() -> None:
    """Fragments of two tool calls go to their own block; a delta for an unopened index opens it."""
    body = [
        START,
        block(1, type="tool_use", id="t1", name="f", input={}),
        block(2, type="tool_use", id="t2", name="g", input={}),
        grow(1, "input_json", partial_json='{"a"'),
        grow(2, "input_json", partial_json='{"b"'),
        grow(0, "text", text="hi"),
        grow(1, "input_json", partial_json=":1}"),
        grow(2, "input_json", partial_json=":2}"),
        close(2),
        close(1),
        finish("tool_use"),
        STOP,
    ]
    fields = record("messages", named(*body))
    assert fields["response"]["content"] == [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "t2", "name": "g", "input": {"b": 2}},
    ]
    assert [(one["call_id"], one["arguments"]) for one in fields["tool_calls"]] == [
        ("t1", {"a": 1}),
        ("t2", {"b": 2}),
    ]
    assert (fields["finish"], fields["flags"]) == ("tool_calls", ["unopened_item"])


BLOCKS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "signature without text": (
        [block(0, type="thinking", thinking="", signature=""), grow(0, "signature", signature="S1")],
        [{"type": "thinking", "thinking": "", "signature": "S1"}],
    ),
    "redacted thinking opened whole": (
        [
            block(0, type="text", text="a"),
            block(1, type="redacted_thinking", data="R1"),
            block(2, type="text", text="b"),
        ],
        [
            {"type": "text", "text": "a"},
            {"type": "redacted_thinking", "data": "R1"},
            {"type": "text", "text": "b"},
        ],
    ),
    "two signatures": (
        [
            block(0, type="thinking"),
            grow(0, "signature", signature="S0"),
            block(1, type="thinking"),
            grow(1, "signature", signature="S1"),
        ],
        [{"type": "thinking", "signature": "S0"}, {"type": "thinking", "signature": "S1"}],
    ),
    "server tool with input in pieces": (
        [
            block(0, type="server_tool_use", id="s", name="web_search", input={}),
            grow(0, "input_json", partial_json=""),
            grow(0, "input_json", partial_json='{"query": "x"}'),
            block(1, type="web_search_tool_result", tool_use_id="s", content=[{"url": "u"}]),
        ],
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
        ],
    ),
    "input whole in the start": (
        [block(0, type="tool_use", input={"a": 1})],
        [{"type": "tool_use", "input": {"a": 1}}],
    ),
    "citations": (
        [
            block(0, type="text", text="", citations=None),
            grow(0, "citations", citation={"n": 1}),
            grow(0, "text", text="x"),
            grow(0, "citations", citation={"n": 2}),
        ],
        [{"type": "text", "text": "x", "citations": [{"n": 1}, {"n": 2}]}],
    ),
    "a delta of a kind to come": (
        [
            block(0, type="digest", content=None),
            grow(0, "digest", content="sum"),
            grow(0, "digest", content="mary", more=[1]),
        ],
        [{"type": "digest", "content": "summary", "more": [1]}],
    ),
    "blocks in the start message": ([grow(0, "text", text="b")], [{"type": "text", "text": "ab"}]),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    """Every kind of block is kept whole and in order."""
    body, content = BLOCKS[name]
    first = [{"type": "text", "text": "a"}] if name == "blocks in the start message" else []
    start = {"type": "message_start", "message": {**STARTED, "content": first}}
    fields = record("messages", named(start, *body, finish(), STOP))
    assert fields["response"]["content"] == content
    assert (fields["complete"], fields["flags"]) == (True, [])


def test_an_index_used_again_is_another_block() -> None:
    """Blocks that a gateway numbers alike stay apart, and a delta goes to the newest."""
    blocks = [
        event
        for text in "ab"
        for event in (block(0, type="text", text=""), grow(0, "text", text=text), close(0))
    ]
    fields = record("messages", named(START, *blocks, finish(), STOP))
    assert [one["text"] for one in fields["response"]["content"]] == ["a", "b"]
    assert fields["flags"] == ["repeated_index"]


def test_what_the_last_events_say_belongs_to_the_message() -> None:
    """Container, context management and stop details are kept; a null never erases what was known."""
    last = {
        "type": "message_delta",
        "delta": {"stop_reason": "refusal", "container": {"id": "c"}, "stop_details": {"x": 1}},
    }
    more = {
        "context_management": {"applied_edits": []},
        "usage": {"output_tokens": 2, "server_tool_use": {"web_search_requests": 3}},
    }
    nulls = {
        "type": "message_delta",
        "delta": {"stop_reason": None, "container": None},
        "usage": {"output_tokens": None},
    }
    fields = record("messages", named(START, {**last, **more}, nulls, {**STOP, "metrics": {"y": 2}}))
    response = fields["response"]
    assert (response["container"], response["stop_details"]) == ({"id": "c"}, {"x": 1})
    assert (response["context_management"], response["metrics"]) == (more["context_management"], {"y": 2})
    assert (fields["finish"], fields["usage"]["output_tokens"]) == ("refusal", 2)
    assert fields["usage"]["server_tool_calls"] == {"web_search_requests": 3}


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


@pytest.mark.parametrize(
    "before", [[], [START], [START, block(0, type="text", text=""), grow(0, "text", text="Hel")]]
)
@pytest.mark.parametrize("write", [named, events])
def test_an_error_inside_a_stream(before: list[dict[str, Any]], write: Any) -> None:  # noqa: ANN401 - either writer
    """An error event is an error with its type, first or late, named or not; what came before it is kept."""
    fields = record("messages", write(*before, OVERLOADED))
    error = fields["error"]
    assert (error["category"], error["type"], error["retryable"]) == (
        "upstream_error",
        "overloaded_error",
        True,
    )
    assert (fields["complete"], fields["status_code"]) == (False, 200)
    assert fields["response"]["error"] == OVERLOADED["error"]
    assert not before or fields["usage"]["input_tokens"] == 125
    assert len(before) < 3 or fields["response"]["content"] == [{"type": "text", "text": "Hel"}]


def test_a_stop_reason_without_the_stop_event() -> None:
    """A message that said why it stopped is complete; the missing event is flagged."""
    fields = record("messages", named(*STREAM[:-1]))
    assert (fields["complete"], fields["error_category"], fields["flags"]) == (True, None, ["no_stop_event"])


def test_odd_orders_are_flagged() -> None:
    """A second start, a delta behind its block's end and events behind the stop each have their flag."""
    again = record("messages", named(START, {**START, "message": {**STARTED, "id": "other"}}, finish(), STOP))
    assert (again["flags"], again["response_id"]) == (["repeated_start"], "msg_1")
    late = record(
        "messages", named(START, block(0, type="text", text="a"), close(0), grow(0, "text", text="b"), STOP)
    )
    assert (late["flags"], late["response"]["content"][0]["text"]) == (["late_delta"], "ab")
    behind = record("messages", named(*STREAM, finish(usage={"output_tokens": 16})))
    assert (behind["flags"], behind["usage"]["output_tokens"]) == (["after_terminal"], 16)
    unnumbered = record(
        "messages", named(START, block(None, type="text", text="a"), grow(None, "text", text="b"), STOP)
    )
    assert unnumbered["response"]["content"] == [{"type": "text", "text": "ab"}]


def test_an_unstreamed_message_means_the_same() -> None:
    """The assembled message, sent whole, gives the same record members."""
    streamed = record("messages", named(*STREAM))
    whole = record("messages", json.dumps(streamed["response"]).encode(), response_headers=JSON_BODY)
    for name in (
        "response",
        "finish",
        "finish_reason",
        "usage",
        "reasoning_content",
        "response_id",
        "model",
        "complete",
    ):
        assert streamed[name] == whole[name]
