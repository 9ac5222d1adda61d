"""What the three dialects share: the reassembler's life, text that grows by pieces, and the meaning of a response.

A reassembler is fed a stream's events, decoded, one by one, and then asked for the response that the provider would
have sent unstreamed. It never raises, whatever a member's type: what cannot be merged is flagged. Text grows as a
list of pieces that is joined once at the end, so a long answer costs linear time.

A dialect's `read` takes such a response, streamed or not, and says what it means in the record's words.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from pipeline.bodies import BodyError, decode_text
from pipeline.dialects.quirks import ERROR_MEMBERS, USAGE_PATHS
from pipeline.record import ToolCall

Json: TypeAlias = dict[str, Any]
"""A JSON object."""


class Mark:
    """What an event brought to its reader, as bits: nothing to see, a part of the answer, a part of the reasoning.

    `SILENT` stands alone and says that the event is a keep-alive, which counts as nothing at all.

    Plain integers: an enumeration's operators cost more than everything else that is done with an event.
    """

    NOTHING = 0
    CONTENT = 1
    REASONING = 2
    SILENT = 4


class Pieces(list[str]):
    """Text under construction."""


class Assembly(NamedTuple):
    """What a stream amounted to.

    `terminal` says that the dialect's own end was seen. `error` is the provider's error as it came, if one did.
    `reasoning` is the reasoning of choice 0 in the order it arrived, where that order tells more than the response.
    `arguments` are texts of tool calls' arguments, by the call's number, of which the response can hold only a part.
    """

    response: Json | None
    terminal: bool
    error: Any
    reasoning: str | None = None
    arguments: Mapping[int, str] = {}


class Reassembler:
    """Folds the events of one stream. Subclasses fill in `event`, `_assemble` and `_is_terminal`."""

    def __init__(self) -> None:
        self.flags: set[str] = set()
        self._error: Any = None
        self._beside: Json = {}
        self._ended = False

    def event(self, name: str, data: Json) -> int:
        """Take in one event: its `event` field ("" where there was none) and its data; return its marks.

        The data belongs to the reassembler from then on, which may change it.
        """
        raise NotImplementedError

    def end_mark(self) -> None:
        """Take in the `[DONE]` mark."""
        self._ended = True

    def finish(self) -> Assembly:
        """Return what the stream amounted to. Call it once, after the last event.

        An error that came as an event is put into the response as `error`, where an unstreamed answer would have it,
        and what the event said beside it, too.
        """
        response = self._assemble()
        if self._error and not (response or {}).get("error"):
            response = {**self._beside, **(response or {}), "error": self._error}
        if response is not None:
            join_pieces(response)
        return Assembly(response, self._is_terminal(), self._error, self._reasoning(), self._arguments())

    def _fail(self, error: Any, data: Json) -> None:  # noqa: ANN401 - whatever the provider put there
        """Take in an error and the event that brought it."""
        self._error = error
        if error is data.get("error"):
            self._beside = {key: item for key, item in data.items() if key not in _OF_AN_ERROR}

    def _assemble(self) -> Json | None:
        raise NotImplementedError

    def _is_terminal(self) -> bool:
        raise NotImplementedError

    def _reasoning(self) -> str | None:
        return None

    def _arguments(self) -> Mapping[int, str]:
        return {}


_OF_AN_ERROR = frozenset({"type", "error", "sequence_number"})
"""Members of an error's event that say nothing beside the error."""


class Meaning(msgspec.Struct, frozen=True, gc=False):
    """A response in the record's words. Null is unknown.

    `failed`, `incomplete` and `pending` are states that the provider itself names: it gave up, it stopped early, it
    has not answered yet (a background response).
    """

    model: str | None = None
    response_id: str | None = None
    choices: int | None = None
    finish: str | None = None
    finish_reason: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning: str | None = None
    usage: Json | None = None
    error: Any = None
    incomplete: bool = False
    failed: bool = False
    pending: bool = False
    invalid_arguments: bool = False


class Dialect(NamedTuple):
    """One row of the table of dialects."""

    reassembler: Callable[[], Reassembler]
    read: Callable[[Json], Meaning]


def append_text(target: Json, key: str, piece: str) -> None:
    """Append to the text at `key`, whatever is there: pieces, text, or nothing."""
    old = target.get(key)
    if old.__class__ is Pieces:
        old.append(piece)
    else:
        target[key] = Pieces((old, piece) if isinstance(old, str) and old else (piece,))


def join_pieces(node: Any) -> None:  # noqa: ANN401 - any JSON value
    """Join all text under construction below this object or array, in place. Depth is bounded by the decoder."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if value.__class__ is Pieces:
            node[key] = "".join(value)
        elif value.__class__ is dict or value.__class__ is list:
            join_pieces(value)


def joined(base: Json, over: Json) -> Json:
    """Return an object with the members of both; what the second one knows counts."""
    return {**base, **{key: value for key, value in over.items() if value is not None or key not in base}}


def report(target: Json, usage: Any) -> None:  # noqa: ANN401 - whatever the provider put there
    """Merge a usage report: counts are running totals, so per field the last value that is not null wins.

    What is no report stays as it came until one comes.
    """
    if not isinstance(usage, dict):
        if usage is not None:
            target.setdefault("usage", usage)
        return
    old = target.get("usage")
    merged = target["usage"] = old if isinstance(old, dict) else {}
    for key, value in usage.items():
        before = merged.get(key)
        if value.__class__ is dict and before.__class__ is dict:
            merged[key] = joined(before, value)
        elif value is not None or before is None:
            merged[key] = value


def follow(value: Any, path: Sequence[str | int]) -> Any:  # noqa: ANN401 - any JSON value
    """Return what is at a path of names and positions; `*` is the first entry of a list where the rest is."""
    for at, key in enumerate(path):
        if value.__class__ is dict:
            value = value.get(key)
        elif value.__class__ is not list:
            return None
        elif key == "*":
            found = (follow(entry, path[at + 1 :]) for entry in value)
            return next((one for one in found if one is not None), None)
        else:
            value = value[key] if key.__class__ is int and len(value) > key else None
    return value


def usage_in(response: Json) -> Json | None:
    """Return the usage that a response reports, wherever its server puts it."""
    for path in USAGE_PATHS:
        usage = follow(response, path)
        if usage and isinstance(usage, dict):
            return usage
    return None


def own_error(response: Json) -> Any:  # noqa: ANN401 - whatever the provider put there
    """Return the error that an object says it is or holds, in whatever shape; null where it is none."""
    if error := told_error(response):
        return error
    if response.get("object") == "error" or response.get("type") == "error":
        return response
    for member, (code, message) in ERROR_MEMBERS.items():
        told = response.get(member)
        if isinstance(told, dict) and told.get(code):
            return {"code": told[code], "message": told.get(message)}
    return None


def told_error(data: Json) -> Any:  # noqa: ANN401 - whatever the provider put there
    """Return the member `error`; one that is no more than text with the members beside it that belong to it."""
    error = data.get("error")
    beside = _BESIDE_TEXT.intersection(data) if isinstance(error, str) else None
    return {"error": error, **{key: data[key] for key in beside}} if error and beside else error


_BESIDE_TEXT = frozenset({"code", "error_type", "error_code", "status_code", "statusCode", "message"})


def event_error(name: str, kind: str, data: Json) -> Any:  # noqa: ANN401 - whatever the provider put there
    """Return the error that an event of a typed dialect is, null if it is none: by its type, its member, or neither.

    Frameworks write what they raise as an object without a type, that says no more than `detail` or `message`; others
    write the error itself, with its own type, as the data of an event named `error`.
    """
    if kind == "error" or data.get("error"):
        return told_error(data) or {key: item for key, item in data.items() if key != "type"}
    if name == "error":
        return data
    return data if not kind and (data.get("detail") or data.get("message")) else None


def as_text(value: Any) -> str | None:  # noqa: ANN401 - whatever the provider put there
    """Return a text that says something, else null."""
    return value if isinstance(value, str) and value else None


def as_list(value: Any) -> list[Json]:  # noqa: ANN401 - whatever the provider put there
    """Return the objects of a list; nothing for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_index(value: Any) -> int | None:  # noqa: ANN401 - whatever the provider put there
    """Return an index that can be one, else null."""
    return value if value.__class__ is int and value >= 0 else None


def tool_call(call_id: Any, name: Any, arguments: Any, kind: Any) -> tuple[ToolCall, bool]:  # noqa: ANN401
    """Make a tool call, its arguments parsed where they are JSON text; also says whether they were meant to be.

    The second value is false where text that should have been JSON is not; the text is then kept as it is.
    """
    valid = True
    if isinstance(arguments, str) and kind not in FREE_TEXT_TOOLS:
        try:
            arguments = decode_text(arguments) if arguments else arguments
        except BodyError:
            valid = False
    return ToolCall(
        call_id=as_text(call_id), name=as_text(name), arguments=arguments, type=as_text(kind)
    ), valid


FREE_TEXT_TOOLS = frozenset(
    {"custom", "custom_tool_call", "code_interpreter_call", "image_generation_call", "program"}
)
"""Types of tool calls whose input is text by definition, so that text like `1` stays text."""
