"""A JSON value as indented lines that a person can read, and as one document that a program can.

The lines look like YAML and are not meant to be parsed: one member a line, text of several lines as an indented
block, so that a long prompt reads as it was written. The document is ASCII, so no terminal, locale or half
surrogate that a client sent can break it.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from .reading import StoredRecord
from .wording import plain

DEPTH_MAX = 60
"""Deeper values are written on one line; nobody reads that far in."""
_QUOTED = frozenset(("", "null", "true", "false"))
"""Text that would be taken for something else without its quotes."""


def lines(value: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - whatever JSON holds
    """Yield the lines of a JSON value, without line ends; control characters are escaped."""
    indent = "  " * depth
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _member(f"{indent}{plain(name)}:", item, depth + 1)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _member(f"{indent}-", item, depth + 1)
    else:
        yield from _member("", value, depth)


def document(value: Any) -> str:  # noqa: ANN401 - whatever msgspec can turn into JSON's types
    """Return a value as one line of ASCII JSON; what JSON has no number for becomes null."""
    members = msgspec.to_builtins(value, str_keys=True)
    try:
        text = json.dumps(members, allow_nan=False)
    except ValueError:
        text = json.dumps(json.loads(json.dumps(members), parse_constant=_null))
    return text.replace("\x7f", "\\u007f")


def as_stored(record: StoredRecord) -> dict[str, Any]:
    """Return a record's members as its line holds them, those that this reader does not know included."""
    members: dict[str, Any] = msgspec.to_builtins(record)
    unknown: dict[str, Any] = members.pop("unknown")
    return {**members, **unknown}


def _member(label: str, item: Any, depth: int) -> Iterator[str]:  # noqa: ANN401 - whatever JSON holds
    if isinstance(item, (dict, list)) and item and depth < DEPTH_MAX:
        yield label
        yield from lines(item, depth)
    elif isinstance(item, str) and "\n" in item:
        yield f"{label} |" if label else "|"
        yield from ("  " * depth + plain(line, keep="\t") for line in item.split("\n"))
    else:
        yield f"{label} {_scalar(item)}" if label else _scalar(item)


def _scalar(item: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    if isinstance(item, str) and item not in _QUOTED and item == item.strip():
        return plain(item, keep="\t")
    return plain(json.dumps(item, ensure_ascii=False))


def _null(_: str) -> None:
    """Stand for what is no number in JSON."""
