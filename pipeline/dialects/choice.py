"""One choice of a chat stream: its deltas to the choice that would have come unstreamed.

What a choice says beside its delta is kept from the first chunk that says it, as the official SDK does, except the
finish reason (last one wins) and lists (they grow: log probabilities, token ids). Deltas grow into the message by the
rules of `merge` and `toolcalls`. In a delta's place servers send a message, whole or in parts, or a piece of text.
"""

from typing import Any

from pipeline.dialects.base import Json, Mark, Pieces, append_text, as_list, as_text, joined
from pipeline.dialects.completion import thoughts
from pipeline.dialects.finish import is_reason
from pipeline.dialects.merge import merge_member, merge_text
from pipeline.dialects.quirks import ECHOES, REASONING, REASONING_LISTS
from pipeline.dialects.toolcalls import ToolCalls, merge_call

NOTHING, CONTENT, REASONED = Mark.NOTHING, Mark.CONTENT, Mark.REASONING
"""The marks by names of this module's own: they are looked up for every token."""


class Choice:
    """One choice under construction; `fields` is what it says beside its message, `reasoning` that in its order."""

    def __init__(self, index: int, flags: set[str]) -> None:
        self.fields: Json = {"index": index, "finish_reason": None}
        self.reasoning: list[str] = []
        self._last: Json | None = None
        self._message: Json = {}
        self._tools = ToolCalls(flags)
        self._by_message = False
        self._flags = flags

    def merge(self, choice: Json) -> int:
        """Take in what one chunk says of this choice; return its marks."""
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
        """Return the choice that it amounts to."""
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
        """Take in a message in a delta's place: the whole so far, which some servers send last, or a part of it.

        Behind deltas it is never a part. Where it then says something else than they did, they are kept.
        """
        text, so_far = as_text(message.get("content")) or "", self._message.get("content") or ""
        behind_deltas, self._by_message = bool(so_far) and not self._by_message, True
        if isinstance(so_far, (str, Pieces)) and text.startswith("".join(so_far)):
            for key in message:
                self._message.pop(key, None)
            if message.get("tool_calls"):
                self._tools = ToolCalls(self._flags)
            if any(message.get(key) for key in REASONING):
                self.reasoning.clear()
        elif behind_deltas:
            self._flags.add("unexpected_shape")
            return NOTHING
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
                mark |= _mark(key, value)
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
    """Say what a member that is no text brings: parts of content may be nothing but thinking, an object empty."""
    if key in REASONING_LISTS:
        return REASONED
    if key not in _CONTENT or (value.__class__ is dict and not any(value.values())):
        return NOTHING
    parts = as_list(value)
    return REASONED if parts and all(thoughts(part) for part in parts) else CONTENT


_CONTENT = frozenset({"content", "refusal", "audio", "function_call"})
