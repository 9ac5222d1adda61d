"""Responses: typed events to the response object they stream.

The terminal event carries the whole response and is believed. Where it is missing, or came without the items that
were streamed, the items built from the other events stand in: placed by `output_index`, else by `item_id`, since ids
have been seen to change between events of one item. An item's `done` event is final; a delta behind it is flagged.
Which event changes what is a table, `DELTAS`.
"""

from typing import Any

from pipeline.dialects.base import (
    Json,
    Mark,
    Meaning,
    Reassembler,
    append_text,
    as_index,
    as_list,
    as_text,
    normal_finish,
    tool_call,
)
from pipeline.dialects.items import DELTAS, PARTS, Delta, Item
from pipeline.dialects.quirks import SILENT_EVENTS

_LIFECYCLE = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "response.cancelled",
    },
)
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_STATES = (
    ".in_progress",
    ".searching",
    ".generating",
    ".interpreting",
    ".compiling",
    ".completed",
    ".failed",
)
"""Ends of event types that tell an item's state; the item's own `done` event says the same."""


class ResponsesReassembler(Reassembler):
    """Folds the events of the Responses API.

    `_doubts` are flags that only count if the response has to be built from the events.
    """

    def __init__(self) -> None:
        super().__init__()
        self._envelope: Json | None = None
        self._items: dict[int, Item] = {}
        self._places: dict[str, int] = {}
        self._last = -1
        self._number: int | None = None
        self._closed = False
        self._doubts: set[str] = set()

    def event(self, name: str, data: Json) -> int:
        """Take in one event; its own `type` decides, else the event's name."""
        kind = as_text(data.get("type")) or name
        self._check_number(data.get("sequence_number"))
        if kind in _LIFECYCLE:
            self._lifecycle(kind, data.get("response"))
        elif kind == "error" or (data.get("error") and "response" not in data):
            self._error = data.get("error") or {key: item for key, item in data.items() if key != "type"}
            self._ended = True
        elif kind.startswith("response.output_item."):
            self._output_item(data, done=kind.endswith(".done"))
        else:
            return self._inside(kind, data)
        return Mark.NOTHING

    def end_mark(self) -> None:
        """Pass over `[DONE]`: this dialect ends with an event, and the mark proves nothing."""

    def _check_number(self, number: Any) -> None:  # noqa: ANN401 - whatever the provider put there
        number = as_index(number)
        if number is not None:
            if self._number is not None and number != self._number + 1:
                self.flags.add("sequence_gap")
            self._number = number

    def _lifecycle(self, kind: str, response: Any) -> None:  # noqa: ANN401 - whatever the provider put there
        terminal = kind in _TERMINAL
        if self._closed:
            self.flags.add("after_terminal")
        if not isinstance(response, dict):
            self.flags.add("unexpected_shape")
        elif terminal or not self._closed:
            old_id = (self._envelope or {}).get("id")
            self._envelope = dict(response)
            if old_id and response.get("id") not in (None, old_id):
                self.flags.add("identity_changed")
                self._envelope["id"] = old_id
        self._closed = self._closed or terminal
        self._ended = self._ended or terminal

    def _output_item(self, data: Json, *, done: bool) -> None:
        fields = data.get("item")
        if not isinstance(fields, dict):
            return
        item_id = as_text(fields.get("id"))
        index = self._place(data, item_id)
        if index is None or (index in self._items and not done):
            if index is not None:
                self.flags.add("repeated_index")
            index = self._last + 1
        self._put(index, item_id, fields).done = done

    def _put(self, index: int, item_id: str | None, fields: Json) -> Item:
        item = self._items[index] = Item(fields)
        self._last = max(self._last, index)
        if item_id:
            self._places.setdefault(item_id, index)
        return item

    def _place(self, data: Json, item_id: str | None) -> int | None:
        """Return where an item is: where its id was opened, else where the event says. Ids may change, too."""
        known = self._places.get(item_id) if item_id else None
        return known if known is not None else as_index(data.get("output_index"))

    def _inside(self, kind: str, data: Json) -> int:
        """Take in an event about the inside of an item."""
        stem, _, what = kind.rpartition(".")
        delta = DELTAS.get(stem)
        if delta is not None and what in ("delta", "done"):
            return self._text(delta, data, done=what == "done")
        if stem in PARTS and what in ("added", "done"):
            self._part(*PARTS[stem], data)
        elif kind == "response.output_text.annotation.added":
            self._annotation(data)
        elif kind not in SILENT_EVENTS and not kind.endswith(_STATES):
            self._doubts.add("unknown_event")
        return Mark.NOTHING

    def _item(self, data: Json, kind: str) -> Item:
        """Return the item that an event speaks of, opened if need be."""
        item_id = as_text(data.get("item_id"))
        index = self._place(data, item_id)
        if index is None:
            index = self._last + 1 if item_id else max(self._last, 0)
        item = self._items.get(index)
        if item is None:
            self._doubts.add("unopened_item")
            item = self._put(index, item_id, {"type": kind, **({"id": item_id} if item_id else {})})
        return item

    def _text(self, delta: Delta, data: Json, *, done: bool) -> int:
        item = self._item(data, delta.item)
        text = data.get(delta.text if done else "delta")
        mark = delta.mark if text and not done else Mark.NOTHING
        if item.done:
            self._doubts |= set() if done else {"late_delta"}
            return mark
        target = item.fields if delta.parts is None else self._open_part(item, delta, data)
        if not isinstance(text, str):
            self._doubts.add("unexpected_shape")
            return Mark.NOTHING
        if done:
            target[delta.field] = text
        else:
            append_text(target, delta.field, text)
            _extend(target, "logprobs", data.get("logprobs"))
        return mark

    def _open_part(self, item: Item, delta: Delta, data: Json) -> Json:
        parts = item.parts.setdefault(delta.parts or "", {})
        part = parts.setdefault(as_index(data.get(delta.place)) or 0, {"type": delta.part})
        if not isinstance(part, dict):
            self._doubts.add("unexpected_shape")
            return {}
        return part

    def _part(self, kind: str, parts: str, place: str, data: Json) -> None:
        part = data.get("part")
        if isinstance(part, dict):
            item = self._item(data, "reasoning" if part.get("type") == "reasoning_text" else kind)
            if not item.done:
                item.parts.setdefault(parts, {})[as_index(data.get(place)) or 0] = dict(part)

    def _annotation(self, data: Json) -> None:
        item = self._item(data, "message")
        if not item.done and "annotation" in data:
            part = self._open_part(item, DELTAS["response.output_text"], data)
            _extend(part, "annotations", [data["annotation"]])

    def _assemble(self) -> Json | None:
        envelope = self._envelope
        if envelope is not None and self._closed and (envelope.get("output") or not self._items):
            return envelope if envelope.get("output") is not None else {**envelope, "output": []}
        self.flags |= self._doubts
        items = [self._items[index].whole() for index in sorted(self._items)]
        if envelope is None:
            return {"object": "response", "output": items} if items else None
        if self._closed:
            self.flags.add("items_recovered")
        return {**envelope, "output": items or envelope.get("output")}

    def _is_terminal(self) -> bool:
        return self._ended


def _extend(target: Json, key: str, entries: Any) -> None:  # noqa: ANN401 - whatever the provider put there
    """Append entries to the list at `key`, in place."""
    if entries and isinstance(entries, list):
        old = target.get(key)
        if not isinstance(old, list):
            old = target[key] = []
        old.extend(entries)


_TOOLS: dict[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "tool_search_call": "arguments",
}
"""Types of items that are tool calls, to the member that holds what is called with."""


def read(response: Json) -> Meaning:
    """Say what a response object means."""
    output = as_list(response.get("output"))
    calls = [_tool_call(item) for item in output if as_text(item.get("type")) in _TOOLS]
    status = as_text(response.get("status"))
    details = response.get("incomplete_details")
    reason = as_text(details.get("reason")) if isinstance(details, dict) else None
    pending = status in ("queued", "in_progress")
    reason = reason or (None if pending else status)
    usage = response.get("usage")
    return Meaning(
        model=as_text(response.get("model")),
        response_id=as_text(response.get("id")),
        choices=1 if "output" in response else None,
        finish=_finish(output, reason),
        finish_reason=reason,
        tool_calls=[call for call, _ in calls] or None,
        reasoning="\n".join(text for item in output for text in _thoughts(item)) or None,
        usage=usage if isinstance(usage, dict) else None,
        error=response.get("error"),
        incomplete=status == "incomplete",
        failed=status == "failed",
        pending=pending,
        invalid_arguments=not all(valid for _, valid in calls),
    )


def _finish(output: list[Json], reason: str | None) -> str | None:
    finish = normal_finish(reason)
    if finish != "stop":
        return finish
    if any(item.get("type") in ("function_call", "custom_tool_call") for item in output):
        return "tool_calls"
    parts = [part for item in output for part in as_list(item.get("content"))]
    return "refusal" if any(part.get("type") == "refusal" for part in parts) else finish


def _tool_call(item: Json) -> Any:  # noqa: ANN401 - see tool_call
    kind = item["type"]
    return tool_call(item.get("call_id") or item.get("id"), item.get("name"), item.get(_TOOLS[kind]), kind)


def _thoughts(item: Json) -> list[str]:
    if item.get("type") != "reasoning":
        return []
    parts = as_list(item.get("summary")) or as_list(item.get("content"))
    return [text for part in parts if (text := as_text(part.get("text")))]
