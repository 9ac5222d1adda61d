"""Responses: typed events to the response object they stream.

The terminal event carries the whole response and is believed; what only earlier events said of the response stays. A
response that is an event by itself is such an end.
Where it is missing, or came without the items that were streamed, the items built from the other events stand in. An
item's `done` event is final; a delta behind it is flagged. Which event changes what is a table, `DELTAS`.
"""

from typing import Any

from pipeline.dialects.base import (
    Json,
    Mark,
    Reassembler,
    append_text,
    as_index,
    as_text,
    event_error,
)
from pipeline.dialects.items import (
    DELTAS,
    PARTIAL_IMAGE,
    PARTS,
    SHELL_COMMAND,
    SHELL_OUTPUT,
    WITHOUT_TEXT,
    Delta,
    Item,
)
from pipeline.dialects.output import Output
from pipeline.dialects.quirks import SILENT_EVENTS

_TERMINAL = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": "completed",
}
"""Events that end a stream, to the status of the response where it does not name its own."""

_LIFECYCLE = frozenset({"response.created", "response.queued", "response.in_progress", *_TERMINAL})
_STATES = (
    ".in_progress",
    ".searching",
    ".generating",
    ".interpreting",
    ".compiling",
    ".compacting",
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
        self._output = Output()
        self._number: int | None = None
        self._closed = False
        self._doubts: set[str] = set()

    def event(self, name: str, data: Json) -> int:
        """Take in one event; its own `type` decides, else the event's name."""
        kind = as_text(data.get("type")) or name
        if kind in SILENT_EVENTS:
            return Mark.SILENT
        self._check_number(data.get("sequence_number"))
        if kind in _LIFECYCLE:
            self._lifecycle(kind, data)
        elif ("error" in data or name == "error" or kind in ("error", "")) and (
            error := _stream_error(name, kind, data)
        ) is not None:
            self._fail(error, data)
            self._ended = True
        elif kind.startswith("response.output_item."):
            return self._output_item(data, done=kind.endswith(".done"))
        else:
            return self._inside(kind, data)
        return Mark.NOTHING

    def end_mark(self) -> None:
        """Pass over `[DONE]`: this dialect ends with an event, and the mark proves nothing."""

    def _check_number(self, number: Any) -> None:  # noqa: ANN401 - whatever the provider put there
        if number.__class__ is int and number >= 0:
            if self._number is not None and number != self._number + 1:
                self.flags.add("sequence_gap")
            self._number = number

    def _lifecycle(self, kind: str, data: Json) -> None:
        terminal = kind in _TERMINAL
        if self._closed:
            self.flags.add("after_terminal")
        response = data.get("response")
        if not isinstance(response, dict):
            self.flags.add("unexpected_shape")
            response = {}
        if data.get("error"):
            self._fail(data["error"], {})
        if terminal or not self._closed:
            self._renew(response)
        if terminal:
            self._end(kind, data)
        elif isinstance(response.get("output"), list):
            self._output.seed(response["output"])

    def _renew(self, response: Json) -> None:
        """Take in what an event says of the response; what it leaves out stays as it was."""
        old = self._envelope or {}
        new = self._envelope = {**old, **response}
        for name in _LASTING:
            if old.get(name) and new.get(name) is None:
                new[name] = old[name]
        if not response.get("output"):
            new["output"] = old.get("output") if self._closed else response.get("output")
        if old.get("id") and new["id"] != old["id"]:
            self.flags.add("identity_changed")
            new["id"] = old["id"]

    def _end(self, kind: str, data: Json) -> None:
        """Take in that the stream ended, and what its last event says beside the response."""
        envelope = self._envelope or {}
        if not isinstance(data.get("response"), dict) or not as_text(data["response"].get("status")):
            envelope["status"] = _TERMINAL[kind]
        for name, value in data.items():
            if name not in _BESIDE and envelope.get(name) is None:
                envelope[name] = value
        self._closed = self._ended = True

    def _output_item(self, data: Json, *, done: bool) -> int:
        """Take in an item that opens or closes; the call of a tool is content from its opening on."""
        fields = data.get("item")
        if not isinstance(fields, dict):
            return Mark.NOTHING
        if self._output.take(data, fields, done=done):
            self.flags.add("repeated_index")
        is_call = not done and (as_text(fields.get("type")) or "").endswith("_call")
        return Mark.CONTENT if is_call else Mark.NOTHING

    def _inside(self, kind: str, data: Json) -> int:
        """Take in an event about the inside of an item."""
        stem, _, what = kind.rpartition(".")
        delta = DELTAS.get(stem)
        if delta is not None and what in ("delta", "done"):
            silent = what == "done" and stem in WITHOUT_TEXT
            return Mark.NOTHING if silent else self._text(delta, data, done=what == "done")
        if stem in PARTS and what in ("added", "done"):
            self._part(*PARTS[stem], data)
        elif kind.endswith(_STATES):
            self._state(stem, data)
        elif kind == "response.output_text.annotation.added":
            self._annotation(data)
        elif stem in (SHELL_COMMAND, SHELL_OUTPUT):
            return self._shell(stem, what, data)
        elif kind == PARTIAL_IMAGE:
            self._partial_image(data)
        elif data.get("object") == "response":
            self._lifecycle("response.done", {"response": data})
        else:
            self._doubts.add("unknown_event")
        return Mark.NOTHING

    def _state(self, stem: str, data: Json) -> None:
        """Take in how far an item is: only its failure says more than the item's own events."""
        if data.get("error"):
            item = self._item(data, stem.removeprefix("response."))
            if not item.done:
                item.fields.setdefault("error", data["error"])

    def _shell(self, stem: str, what: str, data: Json) -> int:
        """Take in an event about a shell call's commands, or about what they wrote."""
        item = self._item(data, "shell_call" if stem == SHELL_COMMAND else "shell_call_output")
        index = as_index(data.get("command_index")) or 0
        if item.done:
            self._doubts |= {"late_delta"} if what == "delta" else set()
        elif stem == SHELL_COMMAND:
            text = data.get("delta" if what == "delta" else "command")
            item.write_command(index, text, whole=what != "delta")
        elif what == "delta":
            item.write_output(index, data.get("delta"))
        elif isinstance(data.get("output"), list):
            item.parts["output"] = dict(enumerate(data["output"]))
        return Mark.CONTENT if what == "delta" and stem == SHELL_COMMAND else Mark.NOTHING

    def _partial_image(self, data: Json) -> None:
        """Keep the newest preview of an image until the item's `done` event brings the image."""
        item = self._item(data, "image_generation_call")
        if not item.done:
            item.fields |= {key: value for key, value in data.items() if key not in _EVENT_MEMBERS}

    def _item(self, data: Json, kind: str) -> Item:
        """Return the item that an event speaks of, opened if need be."""
        item = self._output.of(data, kind)
        if item.guessed:
            self._doubts.add("unopened_item")
        return item

    def _text(self, delta: Delta, data: Json, *, done: bool) -> int:
        item = self._item(data, delta.item)
        text = data.get(delta.text if done else "delta")
        mark = delta.mark if text and not done else Mark.NOTHING
        if item.done:
            self._doubts |= set() if done else {"late_delta"}
            return mark
        target = item.member(delta) if delta.parts is None else self._open_part(item, delta, data)
        if not isinstance(text, str):
            self._doubts.add("unexpected_shape")
            return Mark.NOTHING
        if done:
            mark = delta.mark if text and not target.get(delta.field) else Mark.NOTHING
            if text:
                target[delta.field] = text
            else:
                target.setdefault(delta.field, text)
            item.fields |= {
                key: data[key]
                for key in _NAMES
                if delta.parts is None and key in data and key not in item.fields
            }
        else:
            append_text(target, delta.field, text)
            _extend(target, "logprobs", data.get("logprobs"))
        return mark

    def _open_part(self, item: Item, delta: Delta, data: Json) -> Json:
        part = item.part(delta, as_index(data.get(delta.place)))
        if not isinstance(part, dict):
            self._doubts.add("unexpected_shape")
            return {}
        return part

    def _part(self, kind: str, parts: str, place: str, data: Json) -> None:
        part = data.get("part")
        if isinstance(part, dict):
            item = self._item(data, "reasoning" if part.get("type") == "reasoning_text" else kind)
            if not item.done:
                item.renew_part(parts, as_index(data.get(place)) or 0, part)

    def _annotation(self, data: Json) -> None:
        item = self._item(data, "message")
        if not item.done and "annotation" in data:
            part = self._open_part(item, DELTAS["response.output_text"], data)
            _extend(part, "annotations", [data["annotation"]])

    def _assemble(self) -> Json | None:
        envelope = self._envelope
        if envelope is not None and self._closed and (envelope.get("output") or not self._output.items):
            return envelope if envelope.get("output") is not None else {**envelope, "output": []}
        self.flags |= self._doubts
        items = self._output.whole()
        if envelope is None:
            return {"object": "response", "output": items} if items else None
        if self._closed:
            self.flags.add("items_recovered")
        return {**envelope, "output": items or envelope.get("output")}

    def _is_terminal(self) -> bool:
        return self._ended


def _stream_error(name: str, kind: str, data: Json) -> Any:  # noqa: ANN401 - whatever the provider put there
    """Return the error that an event is, null if it is none, or only an item's."""
    if kind != "error" and ("response" in data or (kind.endswith(_STATES) and "item_id" in data)):
        return None
    return event_error(name, kind, data)


def _extend(target: Json, key: str, entries: Any) -> None:  # noqa: ANN401 - whatever the provider put there
    """Append entries to the list at `key`, in place."""
    if entries and isinstance(entries, list):
        old = target.get(key)
        if not isinstance(old, list):
            old = target[key] = []
        old.extend(entries)


_EVENT_MEMBERS = frozenset({"type", "sequence_number", "output_index", "item_id"})
_BESIDE = _EVENT_MEMBERS | {"response", "error", "event_id", "obfuscation"}
"""Members of a terminal event that say nothing of the response beside it."""

_LASTING = ("id", "model", "usage")
"""Members of a response that a later event's null does not take back."""

_NAMES = ("name", "call_id")
"""What the `done` event of a call's arguments may say of the call itself."""
