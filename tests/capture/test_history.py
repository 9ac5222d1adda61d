"""Requests and responses of the three dialects as items of one form."""

from typing import Any

import msgspec
import pytest

from capture.history import Item, read_answers, read_asked
from capture.reading import StoredRecord
from tests.capture.conversing import Rollout, model, user

Json = dict[str, Any]


def record(dialect: str, request: Json, response: Json | None = None) -> StoredRecord:
    """Make a record of these bodies."""
    rollout = Rollout(dialect)
    made = rollout.call([user("x")], model("y"))
    return msgspec.structs.replace(made, request=request, response=response)


def short(items: list[Item]) -> list[tuple[Any, ...]]:
    """Return of each item what it is, whose, and what it says."""
    return [(item.type, item.role, item.text or item.arguments, item.call_id) for item in items]


def test_instructions_are_the_context_and_not_the_conversation() -> None:
    """In each dialect they are apart; a system message further down is a part of the conversation."""
    chat = [
        {"role": "developer", "content": "be"},
        {"role": "user", "content": "go"},
        {"role": "system", "content": "x"},
    ]
    for dialect, request in (
        ("chat", {"messages": chat}),
        ("responses", {"instructions": "be", "input": chat[1:]}),
        ("messages", {"system": [{"type": "text", "text": "be"}], "messages": chat[1:]}),
    ):
        asked = read_asked(record(dialect, request))
        assert [item.text for item in asked.context] == ["be"]
        assert [(item.role, item.text) for item in asked.items] == [("user", "go"), ("system", "x")]


def test_an_input_of_the_responses_api_may_be_a_text() -> None:
    """A string is the user's message."""
    assert short(read_asked(record("responses", {"input": "go"})).items) == [("message", "user", "go", None)]


def test_legacy_functions_are_calls_and_outputs() -> None:
    """The form before tool calls, without ids."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}}
    messages = [call, {"role": "function", "name": "f", "content": "out"}]
    assert short(read_asked(record("chat", {"messages": messages})).items) == [
        ("function_call", "assistant", {"a": 1}, None),
        ("function_call_output", "tool", "out", None),
    ]


def test_blocks_of_a_message_keep_their_order() -> None:
    """Thoughts, words, calls and results of tools that the provider ran, one after the other."""
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "let me "},
        {"type": "text", "text": "look"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": [{"type": "web_search_result", "url": "u"}],
        },
        {"type": "text", "text": "found"},
    ]
    items = read_answers(record("messages", {}, {"content": content}))[0]
    assert short(items) == [
        ("reasoning", "assistant", "hm", None),
        ("message", "assistant", "let me look", None),
        ("function_call", "assistant", {"query": "q"}, "s1"),
        ("function_call_output", "tool", None, "s1"),
        ("message", "assistant", "found", None),
    ]
    assert items[3].content == [{"type": "web_search_result", "url": "u"}]


def test_items_of_the_responses_api_keep_what_is_their_own() -> None:
    """Calls of the provider's tools keep their whole item; reasoning is its summary and its text."""
    search = {"type": "web_search_call", "id": "ws_1", "action": {"query": "q"}, "status": "completed"}
    reasoning = {"type": "reasoning", "summary": [{"text": "a"}], "content": [{"text": "b"}]}
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"}
    items = read_answers(
        record("responses", {}, {"output": [reasoning, search, custom, {"type": "compaction"}]})
    )[0]
    assert short(items) == [
        ("reasoning", "assistant", "a\nb", None),
        ("function_call", "assistant", {"query": "q"}, "ws_1"),
        ("function_call", "assistant", "*** Begin", "c1"),
        ("compaction", None, None, None),
    ]
    assert items[1].content == search


def test_a_refusal_is_what_was_said() -> None:
    """A model that refuses says so in a member of its own."""
    choices = [{"index": 0, "message": {"content": None, "refusal": "no"}}]
    assert short(read_answers(record("chat", {}, {"choices": choices}))[0]) == [
        ("message", "assistant", "no", None)
    ]


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "unheard of"])
def test_bodies_without_a_conversation_have_no_items(dialect: str) -> None:
    """No request, no response: nothing asked, nothing answered."""
    nothing = msgspec.structs.replace(record("chat", {}), dialect=dialect)
    assert read_asked(nothing) == ([], [], None, None)
    assert read_answers(nothing) == []
