"""Chat completions: chunks of choices to the `chat.completion` they stream.

Every choice grows by its index. What a chunk says beside its choices is kept from the first chunk that says it, as
the official SDK does, except usage (running totals: last value wins) and the fingerprint (last one wins). The end is
the `[DONE]` mark, or a finish reason on every choice; either is enough, and the missing one is flagged.
"""

from typing import Any

from pipeline.dialects.base import (
    Json,
    Mark,
    Meaning,
    Reassembler,
    as_index,
    as_list,
    as_text,
    normal_finish,
    report,
    tool_call,
)
from pipeline.dialects.merge import merge_member, merge_text
from pipeline.dialects.quirks import REASONING, USAGE_PATHS
from pipeline.dialects.toolcalls import ToolCalls

_LAST_WINS = frozenset({"system_fingerprint", "moderation"})
_NOT_KEPT = frozenset({"choices", "object", "obfuscation"})


class ChatReassembler(Reassembler):
    """Folds chat completion chunks."""

    def __init__(self) -> None:
        super().__init__()
        self._top: Json = {}
        self._choices: dict[int, _Choice] = {}

    def event(self, name: str, data: Json) -> Mark:
        """Take in one chunk, or an error in a chunk's place."""
        if data.get("error") or name == "error" or data.get("object") == "error":
            self._error = self._error or data.get("error") or data
        self._keep_top(data)
        mark = Mark.NOTHING
        choices = data.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            mark |= self._choice(choice)
        if choices is not None and not isinstance(choices, list):
            self.flags.add("unexpected_shape")
        return mark

    def _choice(self, delta: Any) -> Mark:  # noqa: ANN401 - whatever the provider put there
        if not isinstance(delta, dict):
            self.flags.add("unexpected_shape")
            return Mark.NOTHING
        index = as_index(delta.get("index"))
        if index is None:
            self.flags.add("choice_without_index")
            index = 0
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = _Choice(index, self.flags)
        return choice.merge(delta)

    def _keep_top(self, chunk: Json) -> None:
        top = self._top
        for key, value in chunk.items():
            if key in _NOT_KEPT:
                continue
            old = top.get(key)
            if key == "usage":
                report(top, value)
            elif not old or (key in _LAST_WINS and value):
                if value is not None or key not in top:
                    top[key] = value
            elif value.__class__ is dict and old.__class__ is dict:
                top[key] = {**value, **{name: item for name, item in old.items() if item is not None}}
            elif key == "id" and value and value != old:
                self.flags.add("identity_changed")

    def _assemble(self) -> Json | None:
        if not self._choices:
            return self._top or None
        choices = [self._choices[index].whole() for index in sorted(self._choices)]
        return {**self._top, "object": "chat.completion", "choices": choices}

    def _is_terminal(self) -> bool:
        reasons = [choice.fields.get("finish_reason") for choice in self._choices.values()]
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
        self._message: Json = {}
        self._tools = ToolCalls(flags)
        self._flags = flags

    def merge(self, choice: Json) -> Mark:
        mark = Mark.NOTHING
        for key, value in choice.items():
            if key == "delta":
                mark |= self._merge_delta(value)
            elif key == "finish_reason":
                if value:
                    self.fields[key] = value
            elif key == "logprobs":
                self._merge_logprobs(value)
            elif key == "message":
                mark |= self._merge_message(choice)
            elif key != "index":
                self._keep(key, value)
        return mark

    def whole(self) -> Json:
        calls = self._tools.whole()
        message = {"content": None, **self._message, **({"tool_calls": calls} if calls else {})}
        return {**self.fields, "message": message}

    def _merge_message(self, choice: Json) -> Mark:
        """Take in a whole message: the answer itself if there is no delta, else what was streamed, repeated."""
        return Mark.NOTHING if choice.get("delta") else self._merge_delta(choice["message"])

    def _merge_delta(self, delta: Any) -> Mark:  # noqa: ANN401 - whatever the provider put there
        if not isinstance(delta, dict):
            if delta is not None:
                self._flags.add("unexpected_shape")
            return Mark.NOTHING
        mark = self._merge_reasoning(delta)
        for key, value in delta.items():
            if key == "tool_calls":
                if isinstance(value, list):
                    self._tools.merge(value)
                    mark |= Mark.CONTENT if value else Mark.NOTHING
                elif value is not None:
                    self._flags.add("unexpected_shape")
            elif value.__class__ is str:
                merge_text(self._message, key, value, self._flags)
                if value and key in _CONTENT:
                    mark |= Mark.CONTENT
            else:
                merge_member(self._message, key, value, self._flags)
                if value and key in _CONTENT:
                    mark |= Mark.CONTENT
        return mark

    def _merge_reasoning(self, delta: Json) -> Mark:
        """Keep the reasoning in its order; servers that send it under two names send it twice."""
        for key in REASONING:
            piece = delta.get(key)
            if piece and isinstance(piece, str):
                self.reasoning.append(piece)
                return Mark.REASONING
        return Mark.NOTHING

    def _merge_logprobs(self, value: Any) -> None:  # noqa: ANN401 - whatever the provider put there
        if isinstance(value, dict):
            old = self.fields.get("logprobs")
            merged = self.fields["logprobs"] = old if isinstance(old, dict) else {}
            for key, entries in value.items():
                if isinstance(entries, list) and isinstance(merged.get(key), list):
                    merged[key].extend(entries)
                elif entries is not None or key not in merged:
                    merged[key] = list(entries) if isinstance(entries, list) else entries
        else:
            self.fields.setdefault("logprobs", value)

    def _keep(self, key: str, value: Any) -> None:  # noqa: ANN401 - whatever the provider put there
        """Keep what a choice says beside its delta: lists grow (token ids), anything else is kept from the first."""
        old = self.fields.get(key)
        if isinstance(value, list):
            if isinstance(old, list):
                old.extend(value)
            else:
                self.fields[key] = list(value)
        elif not old and (value is not None or key not in self.fields):
            self.fields[key] = value


_CONTENT = frozenset({"content", "refusal", "audio", "function_call"})


def read(response: Json) -> Meaning:
    """Say what a `chat.completion` means; `error` where it is the provider's error instead."""
    choices = as_list(response.get("choices"))
    choice = next((one for one in choices if one.get("index") in (0, None)), choices[0] if choices else {})
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    calls = [_tool_call(call) for call in _calls(message)]
    reason = as_text(choice.get("finish_reason"))
    failed = reason == "error"
    finish = "refusal" if message.get("refusal") and reason == "stop" else normal_finish(reason)
    return Meaning(
        model=as_text(response.get("model")),
        response_id=as_text(response.get("id")),
        choices=len(choices) if choices else None,
        finish=finish,
        finish_reason=reason,
        tool_calls=[call for call, _ in calls] or None,
        reasoning=_reasoning(message),
        usage=_usage(response),
        error=response.get("error") or (response if response.get("object") == "error" else None),
        failed=failed,
        invalid_arguments=not all(valid for _, valid in calls),
    )


def _calls(message: Json) -> list[Json]:
    legacy = message.get("function_call")
    return as_list(message.get("tool_calls")) + (
        [{"function": legacy, "type": "function"}] if isinstance(legacy, dict) else []
    )


def _tool_call(call: Json) -> Any:  # noqa: ANN401 - see tool_call
    kind = as_text(call.get("type")) or ("custom" if "custom" in call else "function")
    detail = call.get(kind)
    detail = detail if isinstance(detail, dict) else {}
    return tool_call(call.get("id"), detail.get("name"), detail.get("arguments", detail.get("input")), kind)


def _reasoning(message: Json) -> str | None:
    for key in REASONING:
        if text := as_text(message.get(key)):
            return text
    parts = [text for part in as_list(message.get("content")) for text in _thoughts(part)]
    return "\n".join(parts) or None


def _thoughts(part: Json) -> list[str]:
    thinking = part.get("thinking")
    if isinstance(thinking, str):
        return [thinking]
    return [text for piece in as_list(thinking) if (text := as_text(piece.get("text")))]


def _usage(response: Json) -> Json | None:
    for path in USAGE_PATHS:
        found: Any = response
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, dict):
            return found
    return None
