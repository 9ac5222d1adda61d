"""The official SDKs' own unions of events, items, blocks and deltas: every kind that they know is known here.

Values are made from the SDKs' types: each text member gets a text that names it, so that it can be found again.
"""

import typing
from typing import Any

import anthropic.types as messages_types
import openai.types.responses as responses_types
import pytest
from anthropic.types import beta as beta_types
from pydantic import BaseModel

from pipeline.dialects.finish import normal_finish
from pipeline.dialects.responses import ResponsesReassembler
from tests.answers import ENVELOPE, MESSAGE, odd
from tests.exchanges import events, record

Json = dict[str, Any]


def members(union: Any) -> list[type[BaseModel]]:  # noqa: ANN401 - a union of models, annotated or not
    """Return the models of a union."""
    if typing.get_origin(union) is typing.Annotated:
        union = typing.get_args(union)[0]
    found = [one for each in typing.get_args(union) for one in (members(each) or [each])]
    return [one for one in found if isinstance(one, type) and issubclass(one, BaseModel)]


def kind_of(model: type[BaseModel]) -> str:
    """Return the word by which a model of a union is known."""
    return str(typing.get_args(model.model_fields["type"].annotation)[0])


def value(annotation: Any, name: str) -> Any:  # noqa: ANN401, PLR0911 - one return for each kind of type
    """Make a value of a type; text says which member it is of."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return inner[0]
    if origin is typing.Annotated:
        return value(inner[0], name)
    if origin is list:
        return [value(inner[0], name)]
    if origin is dict:
        return {}
    if inner:
        return value(inner[0], name)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return made(annotation)
    return {str: f"<{name}>", int: 0, float: 0.5, bool: True}.get(annotation, f"<{name}>")


def made(model: type[BaseModel]) -> Json:
    """Make an object of a model with all of its members."""
    return {field.alias or name: value(field.annotation, name) for name, field in model.model_fields.items()}


EVENTS = {kind_of(one): one for one in members(responses_types.ResponseStreamEvent)}
ITEMS = {kind_of(one): one for one in members(responses_types.ResponseOutputItem)}
BLOCKS = {
    kind_of(one): one
    for union in (messages_types.ContentBlock, beta_types.BetaContentBlock)
    for one in members(union)
}
DELTAS = {
    kind_of(one): one
    for union in (messages_types.RawContentBlockDelta, beta_types.BetaRawContentBlockDelta)
    for one in members(union)
}
MESSAGE_EVENTS = {
    kind_of(one): one
    for union in (messages_types.RawMessageStreamEvent, beta_types.BetaRawMessageStreamEvent)
    for one in members(union)
}

STATES = {
    name
    for name in EVENTS
    if "_call." in name or "mcp_list_tools." in name or name == "response.compaction.compacting"
} - {"response.image_generation_call.partial_image"}
"""Events that only say how far an item is; the item's own events say the same, so they may be passed over."""

BRING = (
    "delta",
    "text",
    "arguments",
    "code",
    "input",
    "command",
    "refusal",
    "partial_image_b64",
    "annotation",
)
"""Members of events that bring a part of the answer."""


@pytest.mark.parametrize("kind", EVENTS)
def test_every_event_of_the_responses_sdk_is_merged_or_passed_over_knowingly(kind: str) -> None:
    """In a stream without its end, what an event brings is in the response, and no kind is unknown."""
    event = made(EVENTS[kind])
    fields = record("responses", events({"type": "response.created", "response": ENVELOPE}, event))
    assert "unknown_event" not in fields["flags"]
    assert "unexpected_shape" not in fields["flags"]
    if kind not in STATES and not kind.endswith(("in_progress", "created", "queued")):
        brought = [event[name] for name in BRING if isinstance(event.get(name), str)]
        assert all(text in str(fields["response"]) for text in brought), brought
    for name in ("part", "item", "annotation", "output"):
        if name in event and kind not in STATES:
            assert str(event[name]).strip("[]") in str(fields["response"])


def test_states_are_the_only_events_without_effect() -> None:
    """The table of events that may be passed over is no larger than it must be."""
    for kind in EVENTS.keys() - STATES:
        reassembler = ResponsesReassembler()
        reassembler.event("", made(EVENTS[kind]))
        assembly = reassembler.finish()
        silent = kind in {"response.audio.done", "response.audio.transcript.done"}
        assert (assembly.response is None) is silent, kind


@pytest.mark.parametrize("streamed_whole", [True, False])
@pytest.mark.parametrize("kind", ITEMS)
def test_every_item_of_the_responses_sdk_is_kept(kind: str, *, streamed_whole: bool) -> None:
    """Each type of item is kept with all of its members, opened and closed, and from the terminal event alone."""
    item = made(ITEMS[kind])
    opened = {"type": "response.output_item.added", "output_index": 0, "item": item}
    done = {**opened, "type": "response.output_item.done"}
    ended = {**ENVELOPE, "status": "completed"}
    if streamed_whole:
        body = events(opened, done, {"type": "response.completed", "response": ended})
    else:
        body = events({"type": "response.completed", "response": {**ended, "output": [item]}})
    fields = record("responses", body)
    assert fields["response"]["output"] == [item]
    assert (fields["complete"], odd(fields) - {"invalid_arguments"}) == (True, set())
    assert bool(fields["tool_calls"]) is (
        kind.endswith("_call") or kind in {"mcp_approval_request", "program"}
    )


@pytest.mark.parametrize("kind", BLOCKS)
def test_every_block_of_the_messages_sdk_is_kept(kind: str) -> None:
    """Each type of block that is opened whole stays whole, first or last, in a stream that ends or is cut."""
    block = made(BLOCKS[kind])
    text = {"type": "text", "text": "x"}
    for at, blocks in enumerate(([block, text], [text, block])):
        opened = [
            {"type": "content_block_start", "index": index, "content_block": fields}
            for index, fields in enumerate(blocks)
        ]
        for ending in ([], [{"type": "content_block_stop", "index": at}, {"type": "message_stop"}]):
            fields = record(
                "messages", events({"type": "message_start", "message": MESSAGE}, *opened, *ending)
            )
            assert fields["response"]["content"] == blocks
            assert odd(fields) <= {"invalid_arguments"}


@pytest.mark.parametrize("kind", DELTAS)
def test_every_delta_of_the_messages_sdk_is_merged(kind: str) -> None:
    """Each type of delta leaves all that it brings in the block that it grows, opened for it or not."""
    delta = made(DELTAS[kind])
    grow = {"type": "content_block_delta", "index": 0, "delta": delta}
    opened = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": kind.removesuffix("_delta")},
    }
    for before in ([], [opened]):
        body = events({"type": "message_start", "message": MESSAGE}, *before, grow)
        fields = record("messages", body)
        assert odd(fields) <= {"unopened_item", "invalid_arguments"}
        for name, brought in delta.items():
            assert name == "type" or str(brought) in str(fields["response"]["content"]), name


@pytest.mark.parametrize("kind", MESSAGE_EVENTS)
def test_every_event_of_the_messages_sdk_is_known(kind: str) -> None:
    """No event of the SDK is unknown, and what the message's own events say is in the message."""
    event = made(MESSAGE_EVENTS[kind])
    fields = record("messages", events(event))
    assert "unknown_event" not in fields["flags"]
    if kind == "message_delta":
        told = {**event["delta"], **{name: event[name] for name in event if name not in {"type", "delta"}}}
        assert {name: fields["response"][name] for name in told} == told


@pytest.mark.parametrize(
    "reason",
    sorted({*typing.get_args(messages_types.StopReason), *typing.get_args(beta_types.BetaStopReason)}),
)
def test_every_stop_reason_has_a_normal_form(reason: str) -> None:
    """No stop reason of the SDK reads `other`."""
    assert normal_finish(reason) not in {None, "other"}
