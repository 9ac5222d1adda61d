import json
from typing import Any

import pytest

from tests.answers import unstreamed
from tests.exchanges import delta, events, record


def call(**fields: object) -> dict[str, Any]:
    """Make a chunk with one fragment of a tool call."""
    return delta(tool_calls=[fields])


def calls(fields: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    """Return the tool calls of the response as (id, name, arguments)."""
    message = fields["response"]["choices"][0]["message"]
    return [
        (one.get("id"), one["function"].get("name"), one["function"]["arguments"])
        for one in message["tool_calls"]
    ]


TOOL_CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[Any, Any, Any]]]] = {
    "parallel calls, fragments interleaved": (
        [
            call(index=0, id="a", function={"name": "f", "arguments": ""}),
            call(index=1, id="b", function={"name": "g", "arguments": '{"y"'}),
            call(index=0, function={"arguments": '{"x":1}'}),
            call(index=1, function={"arguments": ":2}"}),
        ],
        [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
    ),
    "one index for all": (
        [call(index=0, id=name, function={"name": "w", "arguments": f'{{"c":"{name}"}}'}) for name in "ABC"],
        [(name, "w", f'{{"c":"{name}"}}') for name in "ABC"],
    ),
    "one index for all, each in fragments": (
        [
            call(index=0, id="A", function={"name": "w", "arguments": "{"}),
            call(index=0, function={"arguments": "}"}),
            call(index=0, id="B", function={"name": "w", "arguments": "["}),
            call(index=0, id="A", function={"name": "w", "arguments": " "}),
            call(index=0, id="B", function={"arguments": "]"}),
        ],
        [("A", "w", "{} "), ("B", "w", "[]")],
    ),
    "id repeated on a continuation": (
        [
            call(index=0, id="A", function={"name": "w", "arguments": "{"}),
            call(index=0, id="A", function={"arguments": "}"}),
        ],
        [("A", "w", "{}")],
    ),
    "id empty on a continuation": (
        [
            call(index=0, id="A", function={"name": "w", "arguments": "{"}),
            call(index=0, id="", function={"arguments": "}"}),
        ],
        [("A", "w", "{}")],
    ),
    "id changing on nameless continuations": (
        [
            call(index=0, id="A", function={"name": "w", "arguments": "{"}),
            call(index=0, id="B", function={"arguments": "}"}),
        ],
        [("A", "w", "{}")],
    ),
    "index null or absent": (
        [
            call(index=None, id="a", function={"name": "f", "arguments": '{"x":1}'}),
            call(id="b", function={"name": "g", "arguments": '{"y":'}),
            call(index=None, id=None, function={"arguments": "2}"}),
        ],
        [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
    ),
    "two entries in one delta, both without index": (
        [
            delta(
                tool_calls=[
                    {"id": "a", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "b", "function": {"name": "f", "arguments": "[]"}},
                ]
            )
        ],
        [("a", "f", "{}"), ("b", "f", "[]")],
    ),
    "neither index nor id, names tell": (
        [call(function={"name": "f", "arguments": "{}"}), call(function={"name": "g", "arguments": "[]"})],
        [(None, "f", "{}"), (None, "g", "[]")],
    ),
    "first chunk with two entries of one index": (
        [
            delta(
                tool_calls=[
                    {"index": 0, "id": "a", "function": {"name": "f"}},
                    {"index": 0, "function": {"arguments": "{}"}},
                ]
            )
        ],
        [("a", "f", "{}")],
    ),
    "one index for all, no ids": (
        [
            call(index=0, function={"name": name, "arguments": piece})
            for name, piece in (("f", ""), ("f", "{"), ("", "}"), ("g", "["), (None, "]"))
        ],
        [(None, "f", "{}"), (None, "g", "[]")],
    ),
    "one call without a list around it": (
        [
            delta(tool_calls={"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}),
            delta(tool_calls={"index": 0, "id": "a", "function": {"name": None, "arguments": "}"}}),
        ],
        [("a", "f", "{}")],
    ),
    "name in fragments": (
        [
            call(index=0, id="a", function={"name": "get_"}),
            call(index=0, function={"name": "x", "arguments": "{}"}),
        ],
        [("a", "get_x", "{}")],
    ),
    "whole name repeated": (
        [
            call(index=0, id="a", function={"name": "f"}),
            call(index=0, function={"name": "f", "arguments": "{}"}),
        ],
        [("a", "f", "{}")],
    ),
    "indexes out of order": (
        [
            call(index=1, id="b", function={"name": "g", "arguments": "1"}),
            call(index=0, id="a", function={"name": "f", "arguments": "0"}),
        ],
        [("a", "f", "0"), ("b", "g", "1")],
    ),
}


@pytest.mark.parametrize("name", TOOL_CALLS)
def test_tool_calls_are_told_apart(name: str) -> None:
    """Cases 6, 7 and S8: fragments reach their call, whatever a server does with indexes, ids and names."""
    chunks, expected = TOOL_CALLS[name]
    fields = record("chat", events(*chunks, delta("tool_calls"), done=True))
    assert calls(fields) == expected
    assert [one["call_id"] for one in fields["tool_calls"]] == [one[0] for one in expected]
    assert fields["finish"] == "tool_calls"
    assert fields["response_raw"] is None


def test_broken_arguments_stay_the_text_they_are() -> None:
    """Arguments cut by a token limit are kept and flagged; whole ones are parsed in `tool_calls`."""
    chunks = [
        call(index=0, id="a", function={"name": "f", "arguments": '{"x":'}),
        call(index=1, id="b", function={"name": "g", "arguments": '{"y":1}'}),
    ]
    fields = record("chat", events(*chunks, delta("tool_calls"), done=True))
    assert [one["arguments"] for one in fields["tool_calls"]] == ['{"x":', {"y": 1}]
    assert fields["flags"] == ["invalid_arguments"]


def test_custom_tools_and_the_legacy_function_call() -> None:
    """Free-text input is appended and never parsed; the legacy single call is a tool call, too."""
    custom = [
        call(index=0, id="a", type="custom", custom={"name": "py", "input": "1"}),
        call(index=0, custom={"input": "2"}),
    ]
    fields = record("chat", events(*custom, delta("tool_calls"), done=True))
    assert fields["tool_calls"] == [{"call_id": "a", "name": "py", "arguments": "12", "type": "custom"}]
    legacy = [delta(function_call={"name": "f", "arguments": "{"}), delta(function_call={"arguments": "}"})]
    fields = record("chat", events(*legacy, delta("function_call"), done=True))
    assert fields["response"]["choices"][0]["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert fields["tool_calls"][0]["arguments"] == {}


def test_custom_tools_are_told_apart_like_functions() -> None:
    """Free-text tools under one index are told apart by id and name; a name that comes again is kept once."""
    chunks = [
        call(index=0, id=name, type="custom", custom={"name": "py", "input": piece})
        for name, piece in (("A", "1"), ("A", "2"), ("B", "3"))
    ]
    fields = record("chat", events(*chunks, delta("tool_calls"), done=True))
    told = [(one["call_id"], one["name"], one["arguments"]) for one in fields["tool_calls"]]
    assert told == [("A", "py", "12"), ("B", "py", "3")]
    assert fields["flags"] == ["tool_index_shared", "tool_name_repeated"]


def test_the_legacy_call_whose_name_comes_again() -> None:
    """The legacy single call keeps its name once where a server sends it with every piece of the arguments."""
    chunks = [delta(function_call={"name": "f", "arguments": piece}) for piece in "{}"]
    fields = record("chat", events(*chunks, delta("function_call"), done=True))
    assert fields["response"]["choices"][0]["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert fields["flags"] == ["tool_name_repeated"]


def test_a_call_without_its_inner_object() -> None:
    """Name and arguments beside the id, and a call without a list around it, are read streamed and whole."""
    flat = {"id": "a", "type": "function", "name": "f", "arguments": '{"x":1}'}
    streamed = record("chat", events(call(index=0, **flat), delta("tool_calls"), done=True))
    for calls_sent in ([flat], flat):
        choice = {"index": 0, "message": {"tool_calls": calls_sent}, "finish_reason": "tool_calls"}
        for fields in (streamed, unstreamed("chat", json.dumps({"choices": [choice]}).encode())):
            assert fields["tool_calls"] == [
                {"call_id": "a", "name": "f", "arguments": {"x": 1}, "type": "function"}
            ]


@pytest.mark.parametrize("name", [["f"], [1], [None], {"a": 1}, 5, True])
def test_a_name_that_is_no_text(name: object) -> None:
    """Whatever stands for a name, a text that comes behind it does no harm, and the bytes are kept."""
    chunks = [
        call(index=0, id="a", function={"name": name, "arguments": "{"}),
        call(index=0, function={"name": "f", "arguments": "}"}),
    ]
    fields = record("chat", events(*chunks, delta("tool_calls"), done=True))
    assert fields["response"]["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == name
    assert fields["tool_calls"][0]["arguments"] == {}
    assert fields["flags"] == ["unexpected_shape"]
    assert fields["response_raw"] is not None


def test_no_calls_is_not_the_same_as_none() -> None:
    """An empty list of calls is kept as it came, until a call does come."""
    empty = delta(tool_calls=[], content="a")
    message = record("chat", events(empty, empty, delta("stop"), done=True))["response"]["choices"][0][
        "message"
    ]
    assert message == {"content": "aa", "tool_calls": []}
    fields = record(
        "chat", events(empty, call(index=0, id="a", function={"name": "f", "arguments": "1"}), done=True)
    )
    assert calls(fields) == [("a", "f", "1")]
