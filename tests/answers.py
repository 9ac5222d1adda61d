"""The same answer in each dialect, streamed and whole, so that one accident can be tried in all of them.

`stream` writes an answer of text, `opening`, `text` and `closing` are its parts, `whole` is the unstreamed form. The
Responses API's last event comes without its items, so that what the other events said is what counts.
"""

import json
from collections.abc import Callable
from typing import Any

from tests.exchanges import JSON_BODY, delta, events, record

Json = dict[str, Any]

DIALECTS = ("chat", "responses", "messages")

ENVELOPE: Json = {"id": "r1", "object": "response", "model": "m", "status": "in_progress"}
ITEM: Json = {"id": "i1", "type": "message", "role": "assistant", "content": []}
MESSAGE: Json = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}

OPENING: dict[str, list[Json]] = {
    "chat": [delta(role="assistant")],
    "responses": [
        {"type": "response.created", "response": ENVELOPE},
        {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
    ],
    "messages": [
        {"type": "message_start", "message": MESSAGE},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ],
}
"""The events in front of the first piece of text."""

CLOSING: dict[str, list[Json]] = {
    "chat": [delta("stop")],
    "responses": [{"type": "response.completed", "response": {**ENVELOPE, "status": "completed"}}],
    "messages": [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
}
"""The events behind the last piece of text."""

WRITE: dict[str, Callable[..., bytes]] = {
    "chat": lambda *made: events(*made, done=True),
    "responses": events,
    "messages": events,
}
"""How a dialect's whole stream is written."""


def text(dialect: str, piece: str) -> Json:
    """Make the event that brings a piece of text."""
    made: dict[str, Json] = {
        "chat": delta(content=piece),
        "responses": {
            "type": "response.output_text.delta",
            "item_id": "i1",
            "output_index": 0,
            "delta": piece,
        },
        "messages": {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": piece},
        },
    }
    return made[dialect]


def stream(dialect: str, *pieces: str) -> bytes:
    """Write an answer whose text comes in these pieces."""
    middle = [text(dialect, piece) for piece in pieces]
    return WRITE[dialect](*OPENING[dialect], *middle, *CLOSING[dialect])


def whole(dialect: str, content: str, **more: object) -> bytes:
    """Write the same answer unstreamed, with more members of the response."""
    part = {"type": "output_text", "text": content}
    made: dict[str, Json] = {
        "chat": {"choices": [{"index": 0, "message": {"content": content}, "finish_reason": "stop"}]},
        "responses": {**ENVELOPE, "status": "completed", "output": [{**ITEM, "content": [part]}]},
        "messages": {
            **MESSAGE,
            "content": [{"type": "text", "text": content}],
            "stop_reason": "end_turn",
        },
    }
    return json.dumps({"id": "c1", **made[dialect], **more}).encode()


def unstreamed(dialect: str, body: bytes, **changes: object) -> Json:
    """Make the record of a JSON body."""
    return record(dialect, body, response_headers=JSON_BODY, **changes)


def said(fields: Json) -> str:
    """Return the text of a record's answer, in any dialect."""
    response = fields["response"]
    if "choices" in response:
        return str(response["choices"][0]["message"]["content"])
    parts = [part for item in response.get("output", ()) for part in item["content"]]
    return "".join(part["text"] for part in parts or response.get("content", ()))


def odd(fields: Json) -> set[str]:
    """Return a record's flags, less the one that the missing items of `CLOSING` set."""
    return set(fields["flags"]) - {"items_recovered"}
