"""Chat completions: chunks of choices to the `chat.completion` they stream.

Every choice grows by its index. What a chunk says beside its choices is kept from the first chunk that says it, as
the official SDK does, except usage (running totals: last value wins) and the fingerprint (last one wins). The end is
the `[DONE]` mark, or a finish reason on every choice; either is enough, and the missing one is flagged. Chunks of the
older text completions, with text in a delta's place, grow into a `text_completion`.
"""

from typing import Any

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
    is_reason,
    joined,
    report,
    told_error,
)
from pipeline.dialects.completion import thoughts
from pipeline.dialects.merge import merge_member, merge_text
from pipeline.dialects.quirks import (
    ECHOES,
    LAST_WINS,
    REASONING,
    REASONING_LISTS,
    SILENT_EVENTS,
)
from pipeline.dialects.toolcalls import ToolCalls, merge_call

NOTHING, CONTENT, REASONED = Mark.NOTHING, Mark.CONTENT, Mark.REASONING
"""The marks by names of this module's own: they are looked up for every token."""

_NOT_KEPT = frozenset({"object", "obfuscation"})
_MAY_CHANGE = _NOT_KEPT | frozenset({"id", "created", "model", "usage", "error", *LAST_WINS})
"""Members of which a chunk without choices may say something else than the one before."""


class ChatReassembler(Reassembler):
    """Folds chat completion chunks."""

    def __init__(self) -> None:
        super().__init__()
        self._top: Json = {}
        self._last: Json = {}
        self._choices: dict[int, _Choice] = {}
        self._has_choices = False

    def event(self, name: str, data: Json) -> int:
        """Take in one chunk, or an error in a chunk's place."""
        choices = data.pop("choices", None)
        if choices is None and self._is_silent(name, data):
            return Mark.SILENT
        if self._ended:
            self.flags.add("after_terminal")
        if name or data != self._last:
            self._keep_top(name, data)
        mark = NOTHING
        if choices.__class__ is list:
            self._has_choices = True
            for choice in choices:
                if choice.__class__ is dict:
                    index = choice.get("index")
                    known = self._choices.get(index) if index.__class__ is int else None
                    mark |= (known or self._open(as_index(index))).merge(choice)
                else:
                    self.flags.add("unexpected_shape")
        elif choices is not None:
            self.flags.add("unexpected_shape")
        return mark

    def _is_silent(self, name: str, data: Json) -> bool:
        """Read what comes in a chunk's place, without choices; whether it says nothing.

        What grows beside no choice is another API's: only the first of each name is kept, so the bytes must be.
        """
        kind = as_text(data.get("type")) or name
        if kind in SILENT_EVENTS:
            return True
        if "object" not in data and "id" not in data:
            self._error = self._error or event_error(kind, data)
        if "delta" in data or any(self._is_lost(key, value) for key, value in data.items()):
            self.flags.add("unknown_event")
        return False

    def _is_lost(self, key: str, value: Any) -> bool:  # noqa: ANN401 - whatever the provider put there
        return bool(value) and key not in _MAY_CHANGE and self._top.get(key) not in (None, "", value)

    def _open(self, index: int | None) -> "_Choice":
        """Return the choice with this index, made if need be; 0 stands in for an index that is none."""
        if index is None:
            self.flags.add("choice_without_index")
            index = 0
        if index not in self._choices:
            self._choices[index] = _Choice(index, self.flags)
        return self._choices[index]

    def _keep_top(self, name: str, chunk: Json) -> None:
        """Keep what a chunk says beside its choices; chunks that repeat the one before need not come here."""
        self._last = chunk
        if chunk.get("error") or name == "error" or chunk.get("object") == "error":
            self._error = self._error or told_error(chunk) or chunk
        top = self._top
        for key, value in chunk.items():
            if key in _NOT_KEPT:
                continue
            old = top.get(key)
            if key == "usage":
                report(top, value)
            elif value.__class__ is dict and old.__class__ is dict:
                top[key] = joined(value, old) if key not in LAST_WINS else joined(old, value)
            elif not old or (key in LAST_WINS and value):
                if value is not None or key not in top:
                    top[key] = value
            elif key == "id" and value and value != old:
                self.flags.add("identity_changed")

    def _assemble(self) -> Json | None:
        if not self._has_choices:
            return self._top or None
        choices = [self._choices[index].whole() for index in sorted(self._choices)]
        kind = "text_completion" if choices and "message" not in choices[0] else "chat.completion"
        return {**self._top, "object": kind, "choices": choices}

    def _is_terminal(self) -> bool:
        reasons = [is_reason(choice.fields.get("finish_reason")) for choice in self._choices.values()]
        if self._ended and not all(reasons):
            self.flags.add("no_finish_reason")
        if self._choices and all(reasons) and not self._ended and not self._error:
            self.flags.add("no_done")
        return bool(self._choices) and (self._ended or all(reasons))

    def _reasoning(self) -> str | None:
        first = self._choices.get(0)
        return "".join(first.reasoning) or None if first else None


class _Choice:
    """One choice under construction."""

    def __init__(self, index: int, flags: set[str]) -> None:
        self.fields: Json = {"index": index, "finish_reason": None}
        self.reasoning: list[str] = []
        self._last: Json | None = None
        self._message: Json = {}
        self._tools = ToolCalls(flags)
        self._flags = flags

    def merge(self, choice: Json) -> int:
        delta = choice.pop("delta", None)
        if delta is None:
            return self._merge_whole(choice)
        if choice != self._last:
            self._merge_fields(choice, streamed=bool(delta))
        if delta.__class__ is dict:
            return self._merge_delta(delta)
        self._flags.add("unexpected_shape")
        return NOTHING

    def _merge_fields(self, choice: Json, *, streamed: bool) -> None:
        """Keep what a choice says beside its delta, unless it repeats the one before and nothing in it grows."""
        fields, grows = self.fields, False
        for key, value in choice.items():
            if value is None:
                fields.setdefault(key, None)
            elif value.__class__ is list or value.__class__ is dict:
                grows = True
                if key == "logprobs":
                    self._merge_logprobs(value)
                elif key != "message":
                    self._keep(key, value)
            elif key == "finish_reason":
                if is_reason(value) or fields[key] is None:
                    fields[key] = value
            elif key != "index" and (fields.get(key) is None or not (fields[key] or key in ECHOES)):
                fields[key] = value
        self._last = None if grows or not streamed else choice

    def whole(self) -> Json:
        calls = self._tools.whole()
        if "text" in self.fields and not self._message and not calls:
            return self.fields
        message = {"content": None, **self._message, **({"tool_calls": calls} if calls else {})}
        return {**self.fields, "message": message}

    def _merge_whole(self, choice: Json) -> int:
        """Take in a choice without a delta: with a message, the next piece of a text completion, or neither."""
        text, message = choice.pop("text", None), choice.get("message")
        self._merge_fields(choice, streamed=False)
        if text.__class__ is str:
            append_text(self.fields, "text", text)
            return CONTENT if text else NOTHING
        if message.__class__ is dict:
            return self._merge_message(message)
        if message is not None or text is not None:
            self._flags.add("unexpected_shape")
        return NOTHING

    def _merge_message(self, message: Json) -> int:
        """Take in a message in a delta's place: the whole so far, which some servers send last, or a part of it."""
        text, so_far = as_text(message.get("content")) or "", self._message.get("content") or ""
        if isinstance(so_far, (str, Pieces)) and text.startswith("".join(so_far)):
            for key in message:
                self._message.pop(key, None)
            if message.get("tool_calls"):
                self._tools = ToolCalls(self._flags)
            if any(message.get(key) for key in REASONING):
                self.reasoning.clear()
        return self._merge_delta(message)

    def _merge_delta(self, delta: Json) -> int:
        mark = NOTHING
        message = self._message
        for key, value in delta.items():
            if value.__class__ is str:
                if key in REASONING:
                    mark |= self._merge_reasoning(key, delta)
                elif value and key in _CONTENT:
                    mark |= CONTENT
                text = message.get(key)
                if text.__class__ is Pieces:
                    text.append(value)
                else:
                    merge_text(message, key, value, self._flags)
            elif key == "tool_calls":
                mark |= self._merge_tools(value)
            elif key == "function_call" and value.__class__ is dict:
                merge_call(message, key, value, self._flags)
                mark |= CONTENT
            else:
                merge_member(message, key, value, self._flags)
                mark |= _mark(key, value) if value else NOTHING
        return mark

    def _merge_tools(self, value: Any) -> int:  # noqa: ANN401 - whatever the provider put there
        """Take in fragments of calls; some servers send the one that they have without a list around it."""
        if value and isinstance(value, (list, dict)):
            self._tools.merge(value if isinstance(value, list) else [value])
            return CONTENT
        if isinstance(value, list):
            self._message.setdefault("tool_calls", value)
        elif value is not None:
            self._flags.add("unexpected_shape")
        return NOTHING

    def _merge_reasoning(self, key: str, delta: Json) -> int:
        """Keep the reasoning in its order; what a server sends under two names is taken under the first."""
        first = next((name for name in REASONING if delta.get(name)), key)
        if first == key and delta[key]:
            self.reasoning.append(delta[key])
            return REASONED
        return NOTHING

    def _merge_logprobs(self, value: Any) -> None:  # noqa: ANN401 - whatever the provider put there
        old = self.fields.get("logprobs")
        if value.__class__ is not dict or (old and old.__class__ is not dict):
            return self._keep("logprobs", value)
        merged = self.fields["logprobs"] = old or {}
        for key, entries in value.items():
            if isinstance(entries, list) and isinstance(merged.get(key), list):
                merged[key].extend(entries)
            elif entries is not None or key not in merged:
                merged[key] = list(entries) if isinstance(entries, list) else entries
        return None

    def _keep(self, key: str, value: Any) -> None:  # noqa: ANN401 - whatever the provider put there
        """Keep what a choice says beside its delta: lists grow (token ids), objects are joined."""
        old = self.fields.get(key)
        if not old:
            self.fields[key] = list(value) if value.__class__ is list else value
        elif old.__class__ is not value.__class__:
            self._flags.add("unexpected_shape")
        elif value.__class__ is list:
            old.extend(value)
        else:
            self.fields[key] = joined(value, old)


def _mark(key: str, value: Any) -> int:  # noqa: ANN401 - whatever the provider put there
    """Say what a member that is no text brings: parts of content may be nothing but thinking."""
    if key in REASONING_LISTS:
        return REASONED
    if key not in _CONTENT:
        return NOTHING
    parts = as_list(value)
    return REASONED if parts and all(thoughts(part) for part in parts) else CONTENT


_CONTENT = frozenset({"content", "refusal", "audio", "function_call"})
