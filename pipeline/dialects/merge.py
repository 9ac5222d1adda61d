"""How deltas of the chat family grow into values, by the type of what is there and of what comes.

Text is appended, unless its member names or labels something (`LABELS`); numbers replace numbers; objects are merged
member by member; list entries are merged into the entry they continue, else appended. A member that comes again as
another type keeps its first value, and is flagged. These are the rules by which the official SDK accumulates, less
two of its accidents: it doubles labels that are repeated on every chunk, and adds numbers up.
"""

from typing import Any

from pipeline.dialects.base import Json, Pieces, append_text
from pipeline.dialects.quirks import LABELS, PART_LISTS


def merge(target: Json, delta: Json, flags: set[str]) -> None:
    """Merge one object into another, in place."""
    for key, value in delta.items():
        merge_member(target, key, value, flags)


def merge_member(target: Json, key: str, value: Any, flags: set[str]) -> None:  # noqa: ANN401 - any JSON value
    """Merge one member into an object, in place."""
    if isinstance(value, str):
        merge_text(target, key, value, flags)
    elif value is None:
        target.setdefault(key, None)
    elif isinstance(value, dict):
        _merge_object(target, key, value, flags)
    elif isinstance(value, list):
        _merge_list(target, key, value, flags)
    elif not (old := target.get(key)) or isinstance(old, (int, float)):
        target[key] = value
    else:
        flags.add("unexpected_shape")


def merge_text(target: Json, key: str, value: str, flags: set[str]) -> None:
    """Merge text: labels keep their first value, a list of parts grows by a text part."""
    old = target.get(key)
    if key in LABELS:
        if not old:
            target[key] = value
    elif old is None or isinstance(old, (str, Pieces)):
        append_text(target, key, value)
    elif old.__class__ is not list or key not in PART_LISTS:
        flags.add("unexpected_shape")
    elif value:
        merge_parts(old, [{"type": "text", "text": value}])


def _merge_object(target: Json, key: str, value: Json, flags: set[str]) -> None:
    old = target.get(key)
    if isinstance(old, dict):
        merge(old, value, flags)
    elif not old:
        fresh = target[key] = {}
        merge(fresh, value, flags)
    else:
        flags.add("unexpected_shape")


def _merge_list(target: Json, key: str, value: list[Any], flags: set[str]) -> None:
    old = target.get(key)
    if key in PART_LISTS and isinstance(old, (str, Pieces)):
        text = "".join(old)
        old = target[key] = [{"type": "text", "text": Pieces((text,))}] if text else []
    elif old is None:
        old = target[key] = []
    if old.__class__ is not list:
        flags.add("unexpected_shape")
    elif key in PART_LISTS or any(isinstance(entry, dict) and "index" in entry for entry in value):
        merge_parts(old, value)
    else:
        old.extend(value)


def merge_parts(parts: list[Any], news: list[Any]) -> None:
    """Merge list entries: one that continues an entry goes into it, any other is appended.

    Only the first of them can continue what came before without an index to say so: a list's entries are different
    parts.
    """
    for at, new in enumerate(news):
        last = _continued(parts, new, first=at == 0) if isinstance(new, dict) else None
        if last is None:
            parts.append(_opened(new))
        else:
            merge(last, {key: value for key, value in new.items() if key != "index"}, set())


def _opened(entry: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Copy a new entry, so that merging into it changes nothing else."""
    if not isinstance(entry, dict):
        return entry
    return {key: list(value) if isinstance(value, list) else value for key, value in entry.items()}


def _continued(parts: list[Any], new: Json, *, first: bool) -> Json | None:
    """Return the entry that this one continues: one with its index, else the last, if type and id allow it."""
    index = new.get("index")
    if index is None and not first:
        return None
    for old in reversed(parts) if index is not None else parts[-1:]:
        if isinstance(old, dict) and old.get("index") == index and _is_same(old, new):
            return old
    return None


def _is_same(old: Json, new: Json) -> bool:
    return all(new.get(key) in (None, "", old.get(key)) for key in ("type", "id"))
