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
    Reassembler,
    as_index,
    as_text,
    event_error,
    joined,
    report,
    told_error,
)
from pipeline.dialects.choice import NOTHING, Choice
from pipeline.dialects.completion import reason_of
from pipeline.dialects.quirks import LAST_WINS, SILENT_EVENTS

_NOT_KEPT = frozenset({"object", "obfuscation"})
_MAY_CHANGE = _NOT_KEPT | frozenset({"id", "created", "model", "usage", "error", *LAST_WINS})
"""Members of which a chunk without choices may say something else than the one before."""


class ChatReassembler(Reassembler):
    """Folds chat completion chunks."""

    def __init__(self) -> None:
        super().__init__()
        self._top: Json = {}
        self._last: Json = {}
        self._choices: dict[int, Choice] = {}
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
            self._error = self._error or event_error(name, kind, data)
        if "delta" in data or any(self._is_lost(key, value) for key, value in data.items()):
            self.flags.add("unknown_event")
        return False

    def _is_lost(self, key: str, value: Any) -> bool:  # noqa: ANN401 - whatever the provider put there
        return bool(value) and key not in _MAY_CHANGE and self._top.get(key) not in (None, "", value)

    def _open(self, index: int | None) -> Choice:
        """Return the choice with this index, made if need be; 0 stands in for an index that is none."""
        if index is None:
            self.flags.add("choice_without_index")
            index = 0
        if index not in self._choices:
            self._choices[index] = Choice(index, self.flags)
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
        reasons = [reason_of(choice.fields) for choice in self._choices.values()]
        if self._ended and not all(reasons):
            self.flags.add("no_finish_reason")
        if self._choices and all(reasons) and not self._ended and not self._error:
            self.flags.add("no_done")
        return bool(self._choices) and (self._ended or all(reasons))

    def _reasoning(self) -> str | None:
        first = self._choices.get(0)
        return "".join(first.reasoning) or None if first else None
