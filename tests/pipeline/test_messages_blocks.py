"""Blocks of a message whose indexes come again, out of order or not at all."""

from typing import Any

import pytest

from tests.exchanges import named, record

START = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}


def opened(index: int | None, text: str) -> dict[str, Any]:
    """Make the event that opens a block of text."""
    return {
        "type": "content_block_start",
        "index": index,
        "content_block": {"type": "text", "text": text},
    }


def grown(index: int | None, text: str) -> dict[str, Any]:
    """Make a delta of a block of text."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


ORDERS: dict[str, tuple[list[int | None], str, list[str]]] = {
    "as documented": ([0, 1, 2], "a|b|c", []),
    "interleaved, the later first": ([1, 0, 2], "b|a|c", []),
    "counted anew for each round of tools": ([0, 1, 0, 1, 2, 5], "a|b|c|d|e|f", ["repeated_index"]),
    "one index for all": ([0, 0, 0], "a|b|c", ["repeated_index"]),
    "none": ([None, None, None], "a|b|c", ["repeated_index"]),
    "none after some": ([0, 3, None, 1], "a|d|b|c", ["repeated_index"]),
}


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_stand_in_the_order_of_their_indexes_until_one_comes_again(order: str) -> None:
    """Indexes order the blocks, arrival does once an index came again, and a delta grows the newest of its index."""
    indexes, text, flags = ORDERS[order]
    letters = "abcdef"[: len(indexes)]
    body = [
        event
        for at, index in enumerate(indexes)
        for event in (opened(index, ""), grown(index, letters[at]), grown(None, ""))
    ]
    fields = record("messages", named(START, *body))
    assert "|".join(block["text"] for block in fields["response"]["content"]) == text
    assert fields["flags"] == flags


def test_a_delta_without_an_index_grows_the_newest_block() -> None:
    """What does not say which block it is of belongs to the one that was opened last, whatever its index."""
    body = [
        opened(0, "a"),
        opened(4, "b"),
        opened(2, "c"),
        grown(None, "!"),
        opened(4, "d"),
        grown(None, "?"),
    ]
    fields = record("messages", named(START, *body))
    assert [block["text"] for block in fields["response"]["content"]] == ["a", "c!", "b", "d?"]
