"""Responses: typed events to the response object they stream.

The terminal event carries the whole response and is believed. Where it is missing, or came without the items that
were streamed, the items built from the other events stand in: placed by `output_index`, else by `item_id`, since ids
have been seen to change between events of one item. An item's `done` event is final; a delta behind it is flagged.
Which event changes what is a table, `_DELTAS`.
"""

from typing import Any, NamedTuple

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


class _Delta(NamedTuple):
    """Where an event's text goes: the item's member, or member `field` of a part in the item's list `parts`.

    `item` and `part` are the types that are opened where nothing was; `place` is the event's member with the part's
    index, `text` the one with the text of a `.done` event.
    """

    item: str
    field: str
    mark: Mark
    parts: str | None = None
    part: str | None = None
    place: str = "content_index"
    text: str = "text"


_DELTAS: dict[str, _Delta] = {
    "response.output_text": _Delta("message", "text", Mark.CONTENT, "content", "output_text"),
    "response.refusal": _Delta("message", "refusal", Mark.CONTENT, "content", "refusal", text="refusal"),
    "response.reasoning_text": _Delta("reasoning", "text", Mark.REASONING, "content", "reasoning_text"),
    "response.reasoning_summary_text": _Delta(
        "reasoning", "text", Mark.REASONING, "summary", "summary_text", place="summary_index"
    ),
    "response.function_call_arguments": _Delta("function_call", "arguments", Mark.CONTENT, text="arguments"),
    "response.mcp_call_arguments": _Delta("mcp_call", "arguments", Mark.CONTENT, text="arguments"),
    "response.custom_tool_call_input": _Delta("custom_tool_call", "input", Mark.CONTENT, text="input"),
    "response.code_interpreter_call_code": _Delta("code_interpreter_call", "code", Mark.CONTENT, text="code"),
}
"""Event type without `.delta` or `.done`, to where its text goes."""

_PARTS: dict[str, tuple[str, str, str]] = {
    "response.content_part": ("message", "content", "content_index"),
    "response.reasoning_summary_part": ("reasoning", "summary", "summary_index"),
}
"""Event type without `.added` or `.done`, to the item opened for it, its list of parts, the member with the index."""

_PART_LISTS = ("content", "summary")


class _Item:
    """One output item under construction; its lists of parts are kept by index until it is whole."""

    def __init__(self, fields: Json) -> None:
        self.fields = {key: value for key, value in fields.items() if key not in _PART_LISTS}
        self.parts: dict[str, dict[int, Any]] = {}
        self.done = False
        for name in _PART_LISTS:
            if isinstance(fields.get(name), list):
                self.parts[name] = dict(enumerate(fields[name]))
            elif name in fields:
                self.fields[name] = fields[name]

    def whole(self) -> Json:
        return {
            **self.fields,
            **{name: [parts[at] for at in sorted(parts)] for name, parts in self.parts.items()},
        }


class ResponsesReassembler(Reassembler):
    """Folds the events of the Responses API."""

    def __init__(self) -> None:
        super().__init__()
        self._envelope: Json | None = None
        self._items: dict[int, _Item] = {}
        self._places: dict[str, int] = {}
        self._number: int | None = None

    def event(self, name: str, data: Json) -> Mark:
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
        if self._ended:
            self.flags.add("after_terminal")
        if isinstance(response, dict):
            old = self._envelope
            if old and response.get("id") and old.get("id") not in (None, response["id"]):
                self.flags.add("identity_changed")
                response = {**response, "id": old["id"]}
            if terminal or not self._ended:
                self._envelope = dict(response)
        elif terminal:
            self.flags.add("unexpected_shape")
        self._ended = self._ended or terminal

    def _output_item(self, data: Json, *, done: bool) -> None:
        fields = data.get("item")
        if not isinstance(fields, dict):
            return
        index = as_index(data.get("output_index"))
        if index is None:
            index = self._places.get(as_text(fields.get("id")) or "", max(self._items, default=-1) + 1)
        if index in self._items and not done:
            self.flags.add("repeated_index")
            return
        item = self._items[index] = _Item(fields)
        item.done = done
        if item_id := as_text(fields.get("id")):
            self._places.setdefault(item_id, index)

    def _inside(self, kind: str, data: Json) -> Mark:
        """Take in an event about the inside of an item."""
        stem, _, what = kind.rpartition(".")
        delta = _DELTAS.get(stem)
        if delta is not None and what in ("delta", "done"):
            return self._text(delta, data, done=what == "done")
        if stem in _PARTS and what in ("added", "done"):
            self._part(*_PARTS[stem], data)
        elif kind == "response.output_text.annotation.added":
            self._annotation(data)
        elif kind not in SILENT_EVENTS and not kind.endswith(_STATES):
            self.flags.add("unknown_event")
        return Mark.NOTHING

    def _item(self, data: Json, kind: str) -> _Item | None:
        """Return the item that an event speaks of, opened if need be; null where it is closed."""
        index = as_index(data.get("output_index"))
        item_id = as_text(data.get("item_id"))
        if index is None:
            index = self._places.get(item_id or "")
        if index is None:
            index = max(self._items, default=-1) + 1 if item_id else max(self._items, default=0)
        item = self._items.get(index)
        if item is None:
            self.flags.add("unopened_item")
            item = self._items[index] = _Item({"type": kind, **({"id": item_id} if item_id else {})})
            if item_id:
                self._places[item_id] = index
        if item.done:
            self.flags.add("late_delta")
            return None
        return item

    def _text(self, delta: _Delta, data: Json, *, done: bool) -> Mark:
        item = self._item(data, delta.item)
        if item is None:
            return Mark.NOTHING
        target = item.fields if delta.parts is None else self._open_part(item, delta, data)
        text = data.get(delta.text if done else "delta")
        if not isinstance(text, str):
            return Mark.NOTHING
        if done:
            target[delta.field] = text
        else:
            append_text(target, delta.field, text)
            if data.get("logprobs") and isinstance(data["logprobs"], list):
                target["logprobs"] = [*(target.get("logprobs") or []), *data["logprobs"]]
        return delta.mark if text and not done else Mark.NOTHING

    def _open_part(self, item: _Item, delta: _Delta, data: Json) -> Json:
        parts = item.parts.setdefault(delta.parts or "", {})
        part = parts.setdefault(as_index(data.get(delta.place)) or 0, {"type": delta.part})
        if not isinstance(part, dict):
            self.flags.add("unexpected_shape")
            return {}
        return part

    def _part(self, kind: str, parts: str, place: str, data: Json) -> None:
        part = data.get("part")
        if isinstance(part, dict) and part.get("type") == "reasoning_text":
            kind = "reasoning"
        item = self._item(data, kind)
        if item is not None and isinstance(part, dict):
            item.parts.setdefault(parts, {})[as_index(data.get(place)) or 0] = dict(part)

    def _annotation(self, data: Json) -> None:
        item = self._item(data, "message")
        if item is not None and "annotation" in data:
            part = self._open_part(item, _DELTAS["response.output_text"], data)
            old = part.get("annotations")
            part["annotations"] = [*(old if isinstance(old, list) else ()), data["annotation"]]

    def _assemble(self) -> Json | None:
        items = [self._items[index].whole() for index in sorted(self._items)]
        if self._envelope is None:
            return {"object": "response", "output": items} if items else None
        if not items or self._envelope.get("output"):
            return self._envelope
        if self._ended:
            self.flags.add("items_recovered")
        return {**self._envelope, "output": items}

    def _is_terminal(self) -> bool:
        return self._ended


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
    calls = [_tool_call(item) for item in output if item.get("type") in _TOOLS]
    status = as_text(response.get("status"))
    details = response.get("incomplete_details")
    reason = as_text(details.get("reason")) if isinstance(details, dict) else None
    reason = reason or (status if status not in ("queued", "in_progress") else None)
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
        invalid_arguments=not all(valid for _, valid in calls),
        is_answer="output" in response,
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
