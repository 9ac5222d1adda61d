"""Entries of a conversation: what makes two of them the same, and what they cost."""

from typing import Any

import pytest

from capture.history import CALL, MESSAGE, OUTPUT, REASONING, Item
from capture.tree import ROOT, Tree, digest, entries_of, said


def text(role: str, words: str) -> Item:
    """Make a message."""
    return Item(type=MESSAGE, role=role, text=words)


def call(call_id: str, arguments: Any) -> Item:  # noqa: ANN401 - any JSON value
    """Make a tool call."""
    return Item(type=CALL, role="assistant", call_id=call_id, name="bash", arguments=arguments)


def test_a_longer_history_adds_only_what_is_new() -> None:
    """A thousand requests of one conversation cost the nodes of the longest."""
    tree = Tree()
    history = [text("user" if n % 2 else "assistant", f"word {n}") for n in range(1000)]
    for length in range(1, 1001):
        tree.descend(ROOT, entries_of(history[:length]))
    assert len(tree.nodes) == 1001
    assert tree.nodes[-1].users == 500


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([text("user", "go")], [text("user", " go\n")]),
        ([text("user", "go")], [text("user", "go<system-reminder>\nhurry\n</system-reminder>")]),
        ([call("c1", {"a": 1, "b": 2})], [call("c1", {"b": 2, "a": 1})]),
        (
            [text("assistant", "so"), call("c1", 1)],
            [Item(type=REASONING, text="hm"), text("assistant", "so"), call("c1", 1)],
        ),
        ([text("assistant", "<think>hm</think>so")], [text("assistant", "so")]),
    ],
)
def test_what_clients_change_when_they_repeat_history_makes_no_other_entry(
    one: list[Item], other: list[Item]
) -> None:
    """Spaces at the ends, injected reminders, the order of members, and reasoning are not what was said."""
    assert [entry.digest for entry in entries_of(one)] == [entry.digest for entry in entries_of(other)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (text("user", "go"), text("assistant", "go")),
        (text("user", "go"), text("user", "go on")),
        (call("c1", {"a": 1}), call("c2", {"a": 1})),
        (Item(type=OUTPUT, call_id="c1", text="x"), Item(type=OUTPUT, call_id="c2", text="x")),
        (text("user", "see"), Item(type=MESSAGE, role="user", text="see", content=[{"type": "image"}])),
    ],
)
def test_what_was_said_makes_another_entry(one: Item, other: Item) -> None:
    """Who, what, which call, and what is no text."""
    assert entries_of([one])[0].digest != entries_of([other])[0].digest


def test_an_injected_message_is_no_entry() -> None:
    """What an agent put in a user's mouth, and nothing else, is no message of the user's."""
    assert entries_of([text("user", "<environment_context>here</environment_context>")]) == []


def test_marks_without_an_end_are_text() -> None:
    """A tag that is never closed hides nothing; thousands of them take no longer than their length."""
    words = "<system-reminder>" * 20_000
    assert said(words + "x") == words + "x"


@pytest.mark.parametrize(
    "value", ["\ud83d", {"a": "\ud83d"}, 1 << 70, {"b": [1 << 70]}, None, [[]], float("inf")]
)
def test_anything_can_be_digested(value: object) -> None:
    """Lone surrogates and huge numbers, which JSON encoders refuse, have a digest too."""
    assert digest(value) == digest(value)
    assert digest(value) != digest("another")
