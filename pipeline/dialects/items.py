"""Output items of a Responses stream: which event changes what of an item, and an item under construction.

`DELTAS` and `PARTS` are the grammar of what happens inside an item, from the API reference; a new type is a row.
"""

from typing import Any, NamedTuple

from pipeline.dialects.base import Json, Mark, append_text


class Delta(NamedTuple):
    """Where an event's text goes: the item's member, or member `field` of a part in the item's list `parts`.

    `item` and `part` are the types that are opened where nothing was; `place` is the event's member with the part's
    index, `text` the one with the text of a `.done` event. `inside` is the object in the item that has `field`.
    """

    item: str
    field: str
    mark: int
    parts: str | None = None
    part: str | None = None
    place: str = "content_index"
    text: str = "text"
    inside: str | None = None


DELTAS: dict[str, Delta] = {
    "response.output_text": Delta("message", "text", Mark.CONTENT, "content", "output_text"),
    "response.refusal": Delta("message", "refusal", Mark.CONTENT, "content", "refusal", text="refusal"),
    "response.reasoning_text": Delta("reasoning", "text", Mark.REASONING, "content", "reasoning_text"),
    "response.reasoning_summary_text": Delta(
        "reasoning", "text", Mark.REASONING, "summary", "summary_text", place="summary_index"
    ),
    "response.function_call_arguments": Delta("function_call", "arguments", Mark.CONTENT, text="arguments"),
    "response.mcp_call_arguments": Delta("mcp_call", "arguments", Mark.CONTENT, text="arguments"),
    "response.custom_tool_call_input": Delta("custom_tool_call", "input", Mark.CONTENT, text="input"),
    "response.code_interpreter_call_code": Delta("code_interpreter_call", "code", Mark.CONTENT, text="code"),
    "response.apply_patch_call_operation_diff": Delta(
        "apply_patch_call", "diff", Mark.CONTENT, text="diff", inside="operation"
    ),
    "response.audio": Delta("message", "data", Mark.CONTENT, "content", "output_audio", text="data"),
    "response.audio.transcript": Delta(
        "message", "transcript", Mark.CONTENT, "content", "output_audio", text="transcript"
    ),
    "response.reasoning": Delta("reasoning", "text", Mark.REASONING, "content", "reasoning_text"),
    "response.reasoning_summary": Delta(
        "reasoning", "text", Mark.REASONING, "summary", "summary_text", place="summary_index"
    ),
}
"""Event type without `.delta` or `.done`, to where its text goes."""

PARTS: dict[str, tuple[str, str, str]] = {
    "response.content_part": ("message", "content", "content_index"),
    "response.reasoning_part": ("reasoning", "content", "content_index"),
    "response.reasoning_summary_part": ("reasoning", "summary", "summary_index"),
}
"""Event type without `.added` or `.done`, to the item opened for it, its list of parts, the member with the index."""

WITHOUT_TEXT = frozenset({"response.audio", "response.audio.transcript"})
"""Event types of `DELTAS` whose `.done` says only that it is done."""

SHELL_COMMAND = "response.shell_call_command"
SHELL_OUTPUT = "response.shell_call_output_content"
PARTIAL_IMAGE = "response.image_generation_call.partial_image"

_APART = ("message", "reasoning")
"""Types of items that hold nothing of another type."""

_PART_LISTS = ("content", "summary", "output")


class Item:
    """One output item under construction; its lists of parts are kept by index until it is whole.

    `guessed` says that no event has opened it, so that its type is only what its deltas are of.
    """

    def __init__(self, fields: Json, item_id: str | None = None) -> None:
        self.id = item_id
        self.fields = dict(fields)
        self.parts: dict[str, dict[int, Any]] = {}
        self.commands: dict[int, Json] = {}
        self.done = self.guessed = False
        for name in _PART_LISTS:
            if isinstance(fields.get(name), list):
                self.parts[name] = dict(enumerate(fields[name]))

    def may_be(self, item_id: str | None, fields: Json, *, done: bool) -> bool:
        """Whether an event that opens or closes an item in this one's place speaks of this one."""
        if item_id and item_id == self.id:
            return True
        if fields.get("type") not in (None, self.fields.get("type")):
            return False
        if done:
            return not self.done or fields == self.whole()
        return self.guessed

    def may_hold(self, kind: str) -> bool:
        """Whether what is of an item of this type can be of this one; calls go by each other's events."""
        own = self.fields.get("type")
        return own in (None, kind) or (own not in _APART and kind not in _APART)

    def fill(self, fields: Json) -> None:
        """Take in an opening that came behind the item's first delta, or a second time: what grew stays."""
        grown = {key: value for key, value in self.fields.items() if value and key != "type"}
        self.fields = {**fields, **grown}
        self.guessed = False
        for name in _PART_LISTS:
            if isinstance(fields.get(name), list):
                self.parts[name] = {**dict(enumerate(fields[name])), **self.parts.get(name, {})}

    def whole(self) -> Json:
        """Return the item, its parts in the order of their indexes."""
        if self.commands:
            action = self.fields.get("action")
            texts = [self.commands[at].get("text", "") for at in sorted(self.commands)]
            self.fields["action"] = {**(action if isinstance(action, dict) else {}), "commands": texts}
        return {
            **self.fields,
            **{name: [parts[at] for at in sorted(parts)] for name, parts in self.parts.items()},
        }

    def part(self, delta: Delta, index: int | None) -> Any:  # noqa: ANN401 - whatever the provider put there
        """Return the part that a delta grows, opened if need be; without an index the last one of its type."""
        parts = self.parts.setdefault(delta.parts or "", {})
        if index is None:
            own = [
                at for at, part in parts.items() if isinstance(part, dict) and part.get("type") == delta.part
            ]
            index = max(own) if own else max(parts, default=-1) + 1
        return parts.setdefault(index, {"type": delta.part})

    def renew_part(self, parts: str, index: int, part: Json) -> None:
        """Take in a part, opened or whole; what has grown of it is not undone by an empty member."""
        known = self.parts.setdefault(parts, {})
        old = known.get(index)
        grown = old.items() if isinstance(old, dict) else ()
        known[index] = {**part, **{key: value for key, value in grown if value and not part.get(key)}}

    def member(self, delta: Delta) -> Json:
        """Return the object that a delta outside of parts grows: the item, or an object in it."""
        if delta.inside is None:
            return self.fields
        if not isinstance(self.fields.get(delta.inside), dict):
            self.fields[delta.inside] = {}
        inside: Json = self.fields[delta.inside]
        return inside

    def write_command(self, index: int, text: Any, *, whole: bool) -> None:  # noqa: ANN401 - the wire's
        """Take in a shell command, or a piece of it."""
        command = self.commands.setdefault(index, {})
        if isinstance(text, str):
            if whole:
                command["text"] = text
            else:
                append_text(command, "text", text)

    def write_output(self, index: int, texts: Any) -> None:  # noqa: ANN401 - the wire's
        """Take in what a shell command wrote: pieces of `stdout` and `stderr`."""
        part = self.parts.setdefault("output", {}).setdefault(index, {})
        for name, text in texts.items() if isinstance(texts, dict) and isinstance(part, dict) else ():
            if isinstance(text, str):
                append_text(part, name, text)
