"""Tool calls of one chat choice, told apart by index and id with all their accidents.

A fragment belongs to the call with its index. But servers send one index for all calls, a null index, or none; ids
are repeated, empty or missing on later fragments. So: another id beside a name opens another call, also under an
index that is in use; without an index the id decides, and without either a name opens a call and a nameless fragment
continues the last one. A name that comes again whole is kept once; name fragments are joined.
"""

from typing import Any

from pipeline.dialects.base import Json, as_index, as_text
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
        if call is None or not call_id or call.get("id") in (None, "", call_id):
            return call
        known = next((other for other in self._calls if other.get("id") == call_id), None)
        self._flags.add("identity_changed" if known is None and name is None else "tool_index_shared")
        return call if known is None and name is None else known

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
            if key == "function" and isinstance(value, dict):
                self._fill_function(call, value)
            elif key != "index":
                merge_member(call, key, value, self._flags)

    def _fill_function(self, call: Json, delta: Json) -> None:
        function = call.get("function")
        if not isinstance(function, dict):
            function = call["function"] = {}
        for key, value in delta.items():
            if key == "arguments" and isinstance(value, str):
                merge_text(function, key, value, self._flags)
            elif key == "name" and isinstance(value, str):
                self._fill_name(function, value)
            else:
                merge_member(function, key, value, self._flags)

    def _fill_name(self, function: Json, piece: str) -> None:
        old = function.get("name")
        if isinstance(old, list) and piece and "".join(old) == piece:
            self._flags.add("tool_name_repeated")
        elif piece or old is None:
            merge_text(function, "name", piece, self._flags)


def _name(fragment: Json) -> str | None:
    function = fragment.get("function")
    return as_text(function.get("name")) if isinstance(function, dict) else None
