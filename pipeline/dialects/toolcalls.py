"""Tool calls of one chat choice, told apart by index and id with all their accidents.

A fragment belongs to the call with its index. But servers send one index for all calls, a null index, or none; ids
are repeated, empty or missing on later fragments. So: another id beside a name opens another call, also under an
index that is in use, and so does another name behind arguments where no id is sent; without an index the id decides,
and without either a name opens a call and a nameless fragment continues the last one. A name that comes again whole
is kept once; name fragments are joined.
"""

from typing import Any

from pipeline.dialects.base import Json, Pieces, as_index, as_text
from pipeline.dialects.merge import merge_member, merge_text


class ToolCalls:
    """The calls of one choice, in order of arrival."""

    def __init__(self, flags: set[str]) -> None:
        self._calls: list[Json] = []
        self._by_index: dict[int, Json] = {}
        self._flags = flags

    def merge(self, fragments: list[Any]) -> None:
        """Take in the `tool_calls` of one delta."""
        for fragment in fragments:
            if isinstance(fragment, dict):
                self._fill(self._find(fragment) or self._open(fragment), fragment)
            else:
                self._flags.add("unexpected_shape")

    def whole(self) -> list[Json]:
        """Return the calls: by index where each has one, else as they came."""
        if all("index" in call for call in self._calls):
            return sorted(self._calls, key=lambda call: int(call["index"]))
        return self._calls

    def _find(self, fragment: Json) -> Json | None:
        index, call_id = as_index(fragment.get("index")), as_text(fragment.get("id"))
        name = _name(fragment)
        if index is None:
            self._flags.add("tool_index_missing")
            return self._find_unindexed(call_id, name)
        call = self._by_index.get(index)
        if call is None or (call_id and call_id == call.get("id")):
            return call
        if not call_id or not call.get("id"):
            return None if name and self._is_another(call, name) else call
        known = next((other for other in self._calls if other.get("id") == call_id), None)
        self._flags.add("identity_changed" if known is None and name is None else "tool_index_shared")
        return call if known is None and name is None else known

    def _is_another(self, call: Json, name: str) -> bool:
        """Whether a name that comes without an id to say so is another call's: arguments never precede their name."""
        detail = _detail(call)
        known = detail.get("name")
        if not isinstance(known, Pieces) or "".join(known) in ("", name) or not _has_begun(detail):
            return False
        self._flags.add("tool_index_shared")
        return True

    def _find_unindexed(self, call_id: str | None, name: str | None) -> Json | None:
        if call_id:
            return next((call for call in self._calls if call.get("id") == call_id), None)
        if name:
            return None
        return self._calls[-1] if self._calls else None

    def _open(self, fragment: Json) -> Json:
        call: Json = {}
        self._calls.append(call)
        index = as_index(fragment.get("index"))
        if index is not None:
            call["index"] = index
            self._by_index[index] = call
        return call

    def _fill(self, call: Json, fragment: Json) -> None:
        for key, value in fragment.items():
            if key in _DETAILS and isinstance(value, dict):
                merge_call(call, key, value, self._flags)
            elif key != "index":
                merge_member(call, key, value, self._flags)


def merge_call(holder: Json, key: str, delta: Json, flags: set[str]) -> None:
    """Merge what names a call and holds its arguments, in place; a name that comes again whole is kept once."""
    detail = holder.get(key)
    if not isinstance(detail, dict):
        if detail:
            flags.add("unexpected_shape")
        detail = holder[key] = {}
    for member, value in delta.items():
        if member == "name" and isinstance(value, str):
            _merge_name(detail, value, flags)
        else:
            merge_member(detail, member, value, flags)


def _merge_name(detail: Json, piece: str, flags: set[str]) -> None:
    old = detail.get("name")
    if isinstance(old, Pieces) and piece and "".join(old) == piece:
        flags.add("tool_name_repeated")
    elif piece or old is None:
        merge_text(detail, "name", piece, flags)


_DETAILS = ("function", "custom")
"""Members of a tool call that name it and hold its arguments or its input."""


def _detail(call: Json) -> Json:
    return next((detail for key in _DETAILS if isinstance(detail := call.get(key), dict) and detail), {})


def _has_begun(detail: Json) -> bool:
    """Whether anything of a call's arguments or input has come."""
    begun = (detail.get(key) for key in ("arguments", "input"))
    return any(any(value) if isinstance(value, Pieces) else value for value in begun)


def _name(fragment: Json) -> str | None:
    return as_text(_detail(fragment).get("name"))
