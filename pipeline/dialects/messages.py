"""Messages: typed events to the message they stream.

Blocks are opened by index and grow by deltas; which delta changes what is a table, `_DELTAS`; `_WHOLE` are those that
bring their members whole, and a delta of an unknown kind is merged by its members, so new kinds lose nothing. Tool
input is JSON text in pieces, parsed once at the end. Usage in `message_delta` is a running total: it replaces, field
by field, and nulls change nothing. What else the last two events say, beside their type, belongs to the message.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any

from pipeline.begun import decode_begun
from pipeline.bodies import BodyError, decode_text
from pipeline.dialects.base import (
    Json,
    Mark,
    Pieces,
    Reassembler,
    append_text,
    as_index,
    as_list,
    as_text,
    event_error,
    follow,
    report,
)
from pipeline.dialects.finish import is_reason
from pipeline.dialects.merge import merge
from pipeline.dialects.message_object import is_call
from pipeline.dialects.quirks import SILENT_EVENTS

_DELTAS: dict[str, tuple[str, str, int]] = {
    "text_delta": ("text", "text", Mark.CONTENT),
    "thinking_delta": ("thinking", "thinking", Mark.REASONING),
    "signature_delta": ("thinking", "signature", Mark.NOTHING),
    "input_json_delta": ("tool_use", "partial_json", Mark.CONTENT),
    "citations_delta": ("text", "citation", Mark.NOTHING),
}
"""Type of delta, to the block opened where none was, the delta's member, and what it brings."""

_WHOLE = frozenset({"compaction_delta"})
"""Types of deltas that say what their members are, not how they go on, by the documentation of compaction."""

_USUAL_MEMBERS = 2
"""Members of a delta of a known kind: its type and what it adds. Any more are kept as the block's own."""


class _Block:
    """One content block under construction."""

    def __init__(self, fields: Json) -> None:
        self.fields = {
            key: list(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        self.input: Pieces | None = None
        self.closed = False


class MessagesReassembler(Reassembler):
    """Folds the events of the Messages API."""

    def __init__(self) -> None:
        super().__init__()
        self._message: Json | None = None
        self._blocks: list[tuple[int, _Block]] = []
        self._by_index: dict[int, _Block] = {}
        self._last = -1
        self._newest = 0
        self._restarted = False
        self._stopped = False
        self._texts: dict[int, str] = {}

    def event(self, name: str, data: Json) -> int:
        """Take in one event; its own `type` decides, else the event's name."""
        kind = as_text(data.get("type")) or name
        if kind in SILENT_EVENTS:
            return Mark.SILENT
        if self._ended:
            self.flags.add("after_terminal")
        if kind == "content_block_delta":
            return self._delta(data)
        if kind == "content_block_start":
            return self._block_start(data)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, data)
        elif (error := event_error(name, kind, data)) is not None:
            self._fail(error, data)
        else:
            self.flags.add("unknown_event")
        return Mark.NOTHING

    def end_mark(self) -> None:
        """Pass over `[DONE]`: this dialect ends with an event, and the mark proves nothing."""

    def _start(self, data: Json) -> None:
        message = data.get("message")
        if not isinstance(message, dict):
            self.flags.add("unexpected_shape")
        elif self._message is not None:
            self._start_again(message)
        else:
            usage = message.get("usage")
            self._message = {**message, "usage": dict(usage)} if isinstance(usage, dict) else dict(message)
            for index, block in enumerate(as_list(message.get("content"))):
                self._open(index, block)

    def _start_again(self, message: Json) -> None:
        """Take in a start that is sent twice; another message's start is no part of this one."""
        known = self._message or {}
        if message.get("id") not in (None, known.get("id")):
            self.flags.add("repeated_start")
            return
        self.flags.add("duplicate_start")
        self._merge_envelope(known, {key: message[key] for key in message if key not in ("content", "usage")})
        report(known, message.get("usage"))

    def _open(self, index: int, fields: Json) -> _Block:
        """Open a block where its index says; once an index came again, where it arrived, since the rest may, too."""
        self._restarted = self._restarted or index in self._by_index
        block = self._by_index[index] = _Block(fields)
        place = self._last + 1 if self._restarted else index
        self._newest, self._last = index, max(self._last, place)
        self._blocks.append((place, block))
        return block

    def _block_start(self, data: Json) -> int:
        fields = data.get("content_block")
        if not isinstance(fields, dict):
            self.flags.add("unexpected_shape")
            return Mark.NOTHING
        index = as_index(data.get("index"))
        if index is None or index in self._by_index:
            self.flags.add("repeated_index")
            index = self._last + 1 if index is None else index
        self._open(index, fields)
        if fields.get("type") == "fallback" and (model := as_text(follow(fields, ("to", "model")))):
            self._known()["model"] = model
        if fields.get("thinking") or fields.get("type") == "redacted_thinking":
            return Mark.REASONING
        return Mark.CONTENT if is_call(fields) or fields.get("text") else Mark.NOTHING

    def _block_stop(self, data: Json) -> None:
        block = self._by_index.get(self._place(data))
        if block is not None:
            block.closed = True

    def _place(self, data: Json) -> int:
        index = as_index(data.get("index"))
        return index if index is not None else self._newest

    def _delta(self, data: Json) -> int:
        delta = data.get("delta")
        if not isinstance(delta, dict):
            self.flags.add("unexpected_shape")
            return Mark.NOTHING
        kind = as_text(delta.get("type")) or ""
        opened, member, mark = _DELTAS.get(kind, (kind.removesuffix("_delta"), "", Mark.NOTHING))
        block = self._by_index.get(self._place(data))
        if block is None:
            self.flags.add("unopened_item")
            block = self._open(self._place(data), {"type": opened})
        if block.closed:
            self.flags.add("late_delta")
        self._grow(block, kind, member, delta)
        return mark if delta.get(member) else Mark.NOTHING

    def _grow(self, block: _Block, kind: str, member: str, delta: Json) -> None:
        value = delta.get(member)
        if kind not in _DELTAS or len(delta) > _USUAL_MEMBERS:
            more = {key: item for key, item in delta.items() if key not in ("type", member)}
            if kind in _WHOLE:
                self._merge_envelope(block.fields, more)
            else:
                merge(block.fields, more, self.flags)
        if kind == "citations_delta":
            old = block.fields.get("citations")
            citations = block.fields["citations"] = old if isinstance(old, list) else []
            citations.append(value)
        elif kind not in _DELTAS:
            return
        elif not isinstance(value, str):
            self.flags.add("unexpected_shape")
        elif kind == "input_json_delta":
            block.input = block.input or Pieces()
            block.input.append(value)
        elif kind == "signature_delta":
            if block.fields.get("signature") not in (None, "", value):
                self.flags.add("signature_replaced")
            block.fields["signature"] = value
        else:
            append_text(block.fields, member, value)

    def _known(self) -> Json:
        """Return the message, begun here where its start is missing."""
        if self._message is None:
            self._message = {"type": "message", "role": "assistant"}
        return self._message

    def _message_delta(self, data: Json) -> None:
        delta = data.get("delta")
        news = delta if isinstance(delta, dict) else {}
        self._stopped = self._stopped or is_reason(news.get("stop_reason"))
        report(self._known(), news.pop("usage", None))
        self._merge_envelope(self._known(), news)
        self._of_message(data)

    def _whole_message(self, data: Json) -> None:
        """Take in a message that is an event by itself: start, blocks and end in one."""
        self._start({"message": data})
        self._stopped = self._stopped or is_reason(data.get("stop_reason"))
        self._ended = True

    def _stop(self, data: Json) -> None:
        self._ended = True
        if self._message is not None:
            self._of_message(data)

    def _of_message(self, data: Json) -> None:
        """Take in what one of the last events says beside what it changes: it is of the message."""
        more = {key: item for key, item in data.items() if key not in _EVENT_MEMBERS}
        self._merge_envelope(self._known(), more)
        report(self._known(), data.get("usage"))

    def _merge_envelope(self, message: Json, news: Json) -> None:
        for key, value in news.items():
            if value is not None or key not in message:
                message[key] = value

    def _assemble(self) -> Json | None:
        if self._message is None and not self._blocks:
            return None
        blocks = [block for _, block in sorted(self._blocks, key=lambda entry: entry[0])]
        calls = count()
        for block in blocks:
            call = next(calls) if is_call(block.fields) else None
            if block.input:
                self._read_input(block.fields, "".join(block.input), call)
        return {**self._known(), "content": [block.fields for block in blocks]}

    def _read_input(self, fields: Json, text: str, call: int | None) -> None:
        """Read a tool's input; of one that stops in the middle, what is whole of it, as the official SDK does."""
        if not text:
            return
        try:
            fields["input"] = decode_text(text)
        except BodyError:
            fields["input"] = _begun(text)
            if call is not None:
                self._texts[call] = text

    def _arguments(self) -> Mapping[int, str]:
        return self._texts

    def _is_terminal(self) -> bool:
        if self._stopped and not self._ended and not self._error:
            self.flags.add("no_stop_event")
        return self._stopped or (self._ended and bool(self._message or self._blocks))


_EVENT_MEMBERS = frozenset({"type", "delta", "usage", "index"})

_HANDLERS = {
    "message_start": MessagesReassembler._start,  # noqa: SLF001 - the table of this very class
    "content_block_stop": MessagesReassembler._block_stop,  # noqa: SLF001
    "message_delta": MessagesReassembler._message_delta,  # noqa: SLF001
    "message_stop": MessagesReassembler._stop,  # noqa: SLF001
    "message": MessagesReassembler._whole_message,  # noqa: SLF001
}


def _begun(text: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return decode_begun(text)
    except BodyError:
        return text
