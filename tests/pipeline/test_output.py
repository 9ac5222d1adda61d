"""Items of a Responses stream whose events are late, doubled, misnumbered, misnamed or missing."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.exchanges import named, record

Json = dict[str, Any]
CREATED: Json = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
ENDED = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}


def spoken(index: int, name: str, text: str) -> list[Json]:
    """Make all events of a message whose text comes in two pieces."""
    where = {"output_index": index, "item_id": name}
    message = {"id": name, "type": "message", "role": "assistant"}
    part = {"type": "output_text", "text": text, "annotations": []}
    inside: list[Json] = [
        {"type": "response.content_part.added", "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", "delta": text[:2]},
        {"type": "response.output_text.delta", "delta": text[2:]},
        {"type": "response.output_text.done", "text": text},
        {"type": "response.content_part.done", "part": part},
    ]
    return [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**message, "status": "in_progress", "content": []},
        },
        *({**where, "content_index": 0, **event} for event in inside),
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": {**message, "status": "completed", "content": [part]},
        },
    ]


def called(index: int, name: str, arguments: str) -> list[Json]:
    """Make all events of a function call whose arguments come in two pieces."""
    where = {"output_index": index, "item_id": name}
    call = {"id": name, "type": "function_call", "call_id": f"c-{name}", "name": "f", "arguments": ""}
    kind = "response.function_call_arguments"
    return [
        {"type": "response.output_item.added", "output_index": index, "item": call},
        {**where, "type": f"{kind}.delta", "delta": arguments[:3]},
        {**where, "type": f"{kind}.delta", "delta": arguments[3:]},
        {**where, "type": f"{kind}.done", "arguments": arguments},
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": {**call, "arguments": arguments},
        },
    ]


ONE_BY_ONE = [*spoken(0, "m", "Hello"), *called(1, "f", '{"a":1}'), *spoken(2, "n", "there")]
TOLD = ["Hello", '{"a":1}', "there"]


def told(item: Json) -> str:
    """Return what an item says."""
    return str(item["content"][0]["text"] if "content" in item else item["arguments"])


def without(*ends: str) -> Callable[[list[Json]], list[Json]]:
    """Leave out the events whose type ends so."""
    return lambda made: [event for event in made if not event["type"].endswith(ends)]


def all_with(name: str, value: object) -> Callable[[list[Json]], list[Json]]:
    """Say the same in a member wherever it stands; an id stands in an item, too."""

    def change(event: Json) -> Json:
        event = {**event, name: value} if name in event else dict(event)
        if name == "item_id" and "item" in event:
            event["item"] = {**event["item"], "id": value}
        return event

    return lambda made: [change(event) for event in made]


def doubled(made: list[Json]) -> list[Json]:
    """Send each event that opens something twice."""
    return [event for each in made for event in ([each] * (2 if each["type"].endswith(".added") else 1))]


def late(made: list[Json]) -> list[Json]:
    """Send what opens an item or a part behind the first delta of its inside."""
    moved = list(made)
    for at, event in enumerate(made[:-2]):
        if event["type"] == "response.output_text.delta" and made[at - 1]["type"].endswith("part.added"):
            moved[at - 2 : at + 1] = [event, made[at - 2], made[at - 1]]
        elif event["type"].endswith("arguments.delta") and made[at - 1]["type"].endswith("item.added"):
            moved[at - 1 : at + 1] = [event, made[at - 1]]
    return moved


def emptied(made: list[Json]) -> list[Json]:
    """Send the ends of texts and arguments without the text."""
    names = ("text", "arguments")
    return [
        {**event, **{name: "" for name in names if name in event}}
        if event["type"].endswith(".done")
        else event
        for event in made
    ]


DAMAGES: dict[str, Callable[[list[Json]], list[Json]]] = {
    "none": list,
    "nothing is closed": without(".done"),
    "no item is closed": without("item.done"),
    "nothing is opened": without(".added"),
    "ids only at the ends": without(".added", ".delta", "text.done", "arguments.done", "part.done"),
    "one id for all": all_with("item_id", "same"),
    "one index for all": all_with("output_index", 0),
    "no ids": all_with("item_id", None),
    "no indexes": all_with("output_index", None),
    "openings doubled": doubled,
    "openings late": late,
    "ends without text": emptied,
    "ends without text, and items not closed": lambda made: without("item.done")(emptied(made)),
    "neither ids nor indexes": lambda made: all_with("item_id", None)(all_with("output_index", None)(made)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_items_are_whole_whatever_their_events_lack(damage: str) -> None:
    """No item of a stream is doubled, mixed with another or emptied by what servers do wrong around it."""
    body = DAMAGES[damage](ONE_BY_ONE)
    for terminal in ([ENDED], []):
        fields = record("responses", named(CREATED, *body, *terminal))
        assert [told(item) for item in fields["response"]["output"]] == TOLD


def test_items_that_share_an_id_close_each_at_its_index() -> None:
    """Interleaved items with one id for all are told apart by their index."""
    first, second = spoken(0, "same", "Hello"), spoken(1, "same", "there")
    body = [event for pair in zip(first, second, strict=True) for event in pair]
    fields = record("responses", named(CREATED, *body, ENDED))
    assert [told(item) for item in fields["response"]["output"]] == ["Hello", "there"]
    assert fields["flags"] == ["items_recovered"]


def test_an_index_used_again_means_the_newest_item() -> None:
    """A delta without an id goes to the item that was opened last under its index."""
    first, second = called(0, "f", '{"a":1}'), called(0, "g", '{"b":2}')
    unnamed = [{key: event[key] for key in event if key != "item_id"} for event in second]
    fields = record("responses", named(CREATED, *first, *unnamed, ENDED))
    assert [told(item) for item in fields["response"]["output"]] == ['{"a":1}', '{"b":2}']
    assert fields["flags"] == ["items_recovered", "repeated_index"]
    nameless = DAMAGES["no ids"]([*first[:1], *second[:1], *second[1:-2]])
    for item in (nameless[0]["item"], nameless[1]["item"]):
        del item["id"]
    fields = record("responses", named(CREATED, *nameless))
    assert [told(item) for item in fields["response"]["output"]] == ["", '{"b":2}']


def test_items_that_a_resumed_response_already_has() -> None:
    """What a progress event says was there before the stream went on is kept, and grows by what follows."""
    before = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": "Hel"}]}
    resumed = {"type": "response.in_progress", "response": {**CREATED["response"], "output": [before]}}
    body = named(resumed, *spoken(0, "m", "..lo")[3:4], *spoken(1, "n", "there"))
    output = record("responses", body)["response"]["output"]
    assert [told(item) for item in output] == ["Hello", "there"]


def test_a_patch_grows_inside_its_operation() -> None:
    """The pieces of a patch's diff belong to the operation of its call, and are content."""
    operation = {"type": "update_file", "path": "a.py", "diff": ""}
    added = {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"id": "p", "type": "apply_patch_call", "call_id": "c", "operation": operation},
    }
    where = {"output_index": 0, "item_id": "p"}
    kind = "response.apply_patch_call_operation_diff"
    grown = [{**where, "type": f"{kind}.delta", "delta": piece} for piece in ("@@\n", "-a\n", "+b\n")]
    whole = {**where, "type": f"{kind}.done", "diff": "@@\n-a\n+b\n"}
    for inside in (grown, [*grown, whole], [whole]):
        fields = record("responses", named(CREATED, added, *inside))
        assert fields["response"]["output"][0]["operation"] == {**operation, "diff": "@@\n-a\n+b\n"}
        assert fields["tool_calls"][0]["arguments"]["diff"] == "@@\n-a\n+b\n"
        assert fields["flags"] == []
        assert fields["timing"]["first_token_ms"] is not None
    unopened = record("responses", named(CREATED, *grown))
    assert unopened["response"]["output"][0]["operation"] == {"diff": "@@\n-a\n+b\n"}


def test_an_item_that_failed_is_no_failed_stream() -> None:
    """The error of one tool call is kept in its item; the answer goes on and is whole."""
    failed = {
        "type": "response.mcp_call.failed",
        "output_index": 0,
        "item_id": "x",
        "error": {"code": 500, "message": "no such tool"},
    }
    call = {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"id": "x", "type": "mcp_call", "name": "f", "arguments": "{}"},
    }
    fields = record("responses", named(CREATED, call, failed, ENDED))
    assert fields["response"]["output"][0]["error"] == failed["error"]
    assert (fields["complete"], fields["error_category"]) == (True, None)


def test_thoughts_that_no_item_announced_are_of_no_message() -> None:
    """Reasoning whose id changes with each piece is one item, though it comes under a message's index."""
    kind = "response.reasoning_summary_text.delta"
    thoughts = [
        {"type": kind, "output_index": 0, "item_id": f"r{at}", "summary_index": 0, "delta": piece}
        for at, piece in enumerate(("h", "m", "!"))
    ]
    message, call = spoken(0, "m", "Hello"), called(0, "f", '{"a":1}')
    for body in (
        [*thoughts, *message, *call],
        [*thoughts, message[-1], call[-1]],
        [*thoughts[:1], *message[:3], *thoughts[1:], *message[3:], *call],
    ):
        for ending in (len(body), -1):
            output = record("responses", named(CREATED, *body[:ending]))["response"]["output"]
            assert [item["type"] for item in output][:2] == ["reasoning", "message"]
            assert output[0]["summary"] == [{"type": "summary_text", "text": "hm!"}]
            assert told(output[1]) == "Hello"
            assert [told(item) for item in output[2:]] in (['{"a":1}'], [])
