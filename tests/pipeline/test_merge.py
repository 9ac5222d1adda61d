from typing import Any

import pytest

from tests.exchanges import delta, events, record

Json = dict[str, Any]


def grown(*deltas: Json) -> tuple[Json, Json]:
    """Stream these deltas; return the message that they become, and the record."""
    fields = record("chat", events(*(delta(**one) for one in deltas), delta("stop"), done=True))
    message: Json = fields["response"]["choices"][0]["message"]
    return message, fields


OTHER_TYPES: list[tuple[Any, Any]] = [
    ("text", 5),
    ("text", True),
    ("text", {"a": 1}),
    ("text", ["a"]),
    ({"a": 1}, 5),
    ({"a": 1}, "text"),
    ({"a": 1}, ["a"]),
    (["a"], 5),
    (["a"], "text"),
    (["a"], {"a": 1}),
    (5, "text"),
    (5, {"a": 1}),
    (5, ["a"]),
]


@pytest.mark.parametrize(("first", "second"), OTHER_TYPES)
@pytest.mark.parametrize("member", ["x_member", "annotations", "name"])
def test_a_member_of_another_type_replaces_nothing(member: str, first: Any, second: Any) -> None:  # noqa: ANN401
    """What a member was first is kept, as by the SDK; what cannot be merged is flagged, and the bytes stay."""
    message, fields = grown({member: first}, {member: second})
    assert message[member] == first
    assert fields["flags"] == ["unexpected_shape"]
    assert fields["response_raw"] is not None


@pytest.mark.parametrize(
    ("empty", "full"), [("", "a"), ([], ["a"]), ({}, {"a": 1}), (0, 7), (False, True), (None, "a"), (None, 7)]
)
def test_nothing_gives_way_to_something(empty: Any, full: Any) -> None:  # noqa: ANN401
    """Null, and the empty value of the same type, hold no place."""
    message, fields = grown({"x": empty}, {"x": full}, {"x": None})
    assert (message["x"], fields["flags"]) == (full, [])


def test_entries_of_one_list_are_different_parts() -> None:
    """Parts of one kind in one delta stay apart, as the server made them; the next delta continues the last."""
    texts = [{"type": "text", "text": piece} for piece in "abc"]
    message, _ = grown({"content": texts[:2]})
    assert message["content"] == texts[:2]
    message, _ = grown({"content": texts[:2]}, {"content": texts[2:]}, {"content": "d"})
    assert message["content"] == [texts[0], {"type": "text", "text": "bcd"}]
    notes = [{"type": "reasoning.text", "text": piece} for piece in "ab"]
    message, fields = grown({"reasoning_details": notes})
    assert (message["reasoning_details"], fields["reasoning_content"]) == (notes, "a\nb")


def test_an_index_finds_its_entry_behind_others_of_that_index() -> None:
    """Details of two kinds that share an index each go on where they were."""
    text = {"type": "reasoning.text", "index": 0}
    sealed = {"type": "reasoning.encrypted", "data": "E", "index": 0}
    message, _ = grown(
        *({"reasoning_details": [one]} for one in ({**text, "text": "a"}, sealed, {**text, "text": "b"}))
    )
    assert message["reasoning_details"] == [{**text, "text": "ab"}, sealed]


def test_a_list_inside_a_reasoning_part_grows_with_it() -> None:
    """Pieces of a part's summary are one text with its signature, and the record's reasoning holds no line ends."""
    pieces = [{"text": "Let"}, {"text": " me"}, {"text": "", "signature": "S"}]
    parts = [{"type": "reasoning", "summary": [{"type": "summary_text", **piece}]} for piece in pieces]
    message, fields = grown(*({"content": [part]} for part in parts), {"content": "Hi"}, {"content": "!"})
    assert message["content"] == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me", "signature": "S"}]},
        {"type": "text", "text": "Hi!"},
    ]
    assert (fields["reasoning_content"], fields["flags"]) == ("Let me", [])
