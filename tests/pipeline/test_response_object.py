"""What a response object means: which of its items are calls, and for whose sake it ended."""

import json
from typing import Any

import pytest

from tests.exchanges import JSON_BODY, named, record

Json = dict[str, Any]
STARTED: Json = {"id": "r", "object": "response", "model": "m", "status": "in_progress", "output": []}
CREATED = {"type": "response.created", "response": STARTED}
MESSAGE: Json = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": "x"}]}


def both(output: list[Json]) -> list[Json]:
    """Return the records of a finished response with these items, streamed and whole."""
    response = {**STARTED, "status": "completed", "output": output}
    streamed = record("responses", named(CREATED, {"type": "response.completed", "response": response}))
    return [
        streamed,
        record("responses", json.dumps(response).encode(), response_headers=JSON_BODY),
    ]


CALLS: dict[str, tuple[Json, Any]] = {
    "image": ({"type": "image_generation_call", "revised_prompt": "a cat", "result": "B64"}, "a cat"),
    "image without a prompt": ({"type": "image_generation_call", "result": "B64"}, None),
    "program": ({"type": "program", "code": "1", "fingerprint": "F"}, "1"),
    "a type to come": ({"type": "new_search_call", "action": {"query": "q"}}, {"query": "q"}),
    "a type to come, with arguments": ({"type": "new_call", "arguments": '{"q":1}'}, {"q": 1}),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_item_that_calls_a_tool_is_a_tool_call(name: str) -> None:
    """Tools of the provider, programs and types nobody has heard of are told beside function calls."""
    item, arguments = CALLS[name]
    for fields in both([{"id": "i", **item}, MESSAGE]):
        assert fields["tool_calls"] == [
            {"call_id": "i", "name": None, "arguments": arguments, "type": item["type"]}
        ]
        assert (fields["finish"], fields["flags"]) == ("stop", [])


ENDS: dict[str, tuple[list[Json], str]] = {
    "a call": ([{"type": "shell_call", "call_id": "a"}], "tool_calls"),
    "a call that the provider ran": (
        [{"type": "shell_call", "call_id": "a"}, {"type": "shell_call_output", "call_id": "a"}, MESSAGE],
        "stop",
    ),
    "one of two was run": (
        [
            {"type": "shell_call", "call_id": "a"},
            {"type": "shell_call_output", "call_id": "a"},
            {"type": "function_call", "call_id": "b"},
        ],
        "tool_calls",
    ),
    "a call and an output without ids": (
        [{"type": "function_call"}, {"type": "shell_call_output"}],
        "tool_calls",
    ),
    "a search that the client is to run": (
        [{"type": "tool_search_call", "call_id": "a", "execution": "client"}],
        "tool_calls",
    ),
    "a search that the provider ran": (
        [{"type": "tool_search_call", "call_id": None, "execution": "server"}, MESSAGE],
        "stop",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_answer_ends_for_the_tools_that_wait(name: str) -> None:
    """Only calls that the client has still to run make the finish `tool_calls`."""
    output, finish = ENDS[name]
    assert [fields["finish"] for fields in both(output)] == [finish, finish]


def test_a_summary_without_text_does_not_hide_the_reasoning() -> None:
    """Where the summary says nothing, the reasoning itself is the record's."""
    content = [{"type": "reasoning_text", "text": "hm"}]
    for summary in ([], [{"type": "summary_text", "text": ""}], None):
        item = {"id": "r", "type": "reasoning", "summary": summary, "content": content}
        assert [fields["reasoning_content"] for fields in both([item])] == ["hm", "hm"]
