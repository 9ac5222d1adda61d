"""Bodies to JSON, with every accident that bodies have; no input makes this module raise anything but its own error.

msgspec decodes first. What it refuses goes to the standard library's decoder, with the changes that strict JSON in
strict UTF-8 needs, each as small as possible: NaN, Infinity and numbers beyond the range of a double become strings,
raw control characters are let in, invalid UTF-8 becomes U+FFFD. Half surrogates are left in the value, because the
next event may bring the other half; `heal` joins what belongs together and replaces the rest.

The whole body is decoded, not only the members wanted: measured on half a megabyte of conversation it costs a quarter
of a millisecond, and decoders that pass over members check neither their UTF-8 nor their numbers.
"""

import json
import math
import re
from typing import Any

import msgspec

from pipeline.sse import BYTE_ORDER_MARK, CR, LF

MAX_DEPTH = 200
"""Deepest nesting that is stored as JSON. Readers recurse, and so do we: Python 3.11 stops at 1,000 frames in all,
its `json` near 990 levels."""

LONGEST_NUMBER = 4000
"""Digits in one number; Python's own limit for text to integer is 4,300."""

_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


class BodyError(ValueError):
    """The bytes are no JSON by any reading here."""


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """A JSON value and what it took: `lenient` if it was no strict JSON, `halves` if half characters may be in it."""

    value: Any
    lenient: bool = False
    halves: bool = False
    byte_order_mark: bool = False


strict_decode = msgspec.json.Decoder().decode
"""Decode strict JSON; raises one of STRICT_ERRORS. Does not look at the depth."""

STRICT_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)


def decode(data: bytes) -> Decoded:
    """Decode one JSON text. Raises BodyError."""
    try:
        found = Decoded(strict_decode(data))
    except STRICT_ERRORS:
        found = _decode_leniently(data)
    if may_be_deep(data) and is_too_deep(found.value):
        raise BodyError("nested too deeply")
    return found


def decode_text(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Decode a JSON text that a stream brought in pieces; halves of characters in it stay. Raises BodyError."""
    try:
        return decode(text.encode()).value
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
    try:
        value = _LENIENT.decode(units.decode("utf-16-le", "surrogatepass").strip(" \t\r\n"))
    except (ValueError, RecursionError) as error:
        raise BodyError(str(error)) from error
    if is_too_deep(value):
        raise BodyError("nested too deeply")
    return value


DEEP_BYTES = 2 * MAX_DEPTH
"""No JSON text that is shorter nests deeper than MAX_DEPTH."""


def may_be_deep(data: bytes) -> bool:
    """Whether a JSON text is long and bracketed enough to nest deeper than MAX_DEPTH; a cheap first look.

    Brackets are counted, or sought where they are few for the text's length: to seek skips text far faster.
    """
    if len(data) < _SEEK_BYTES:
        return len(data) > DEEP_BYTES and data.count(b"{") + data.count(b"[") > MAX_DEPTH
    seen = 0
    for bracket in (b"{", b"["):
        at = data.find(bracket)
        while at >= 0 and seen <= MAX_DEPTH:
            seen += 1
            at = data.find(bracket, at + 1)
    return seen > MAX_DEPTH


_SEEK_BYTES = 16 << 10
"""From this length on, counting every byte costs more than MAX_DEPTH searches."""


def _decode_leniently(data: bytes) -> Decoded:
    text = data.removeprefix(BYTE_ORDER_MARK)
    marked = len(text) != len(data)
    if marked:
        try:
            return Decoded(strict_decode(text), byte_order_mark=True)
        except STRICT_ERRORS:
            pass
    try:
        value = _LENIENT.decode(text.decode("utf-8", "replace").strip(" \t\r\n"))
    except (ValueError, RecursionError) as error:
        raise BodyError(str(error)) from error
    return Decoded(
        value, lenient=True, halves=_HALF_CHARACTER.search(data) is not None, byte_order_mark=marked
    )


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= LONGEST_NUMBER else text


def _real(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


_LENIENT = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_real, parse_constant=str)


def is_too_deep(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether this JSON value nests deeper than MAX_DEPTH. Level by level, so that it cannot recurse itself."""
    level = [value] if value.__class__ in {dict, list} else []
    for _ in range(MAX_DEPTH):
        level = [
            item
            for node in level
            for item in (node.values() if node.__class__ is dict else node)
            if item.__class__ is dict or item.__class__ is list
        ]
        if not level:
            return False
    return True


def embed(data: bytes) -> msgspec.Raw | None:
    """Return the bytes of a JSON text, strictly decoded before, as they can stand in a line; null if they cannot.

    Line ends between tokens go; nothing else changes.
    """
    if LF in data or CR in data:
        try:
            data = msgspec.json.format(data, indent=-1)
        except (msgspec.MsgspecError, RecursionError):
            return None
    return msgspec.Raw(data)


def heal(value: Any) -> tuple[Any, bool]:  # noqa: ANN401 - any JSON value
    """Join halves of characters in every string; those without their other half become U+FFFD.

    Returns the value, and whether such a half was replaced.
    """
    lost = False

    def visit(node: Any) -> Any:  # noqa: ANN401
        nonlocal lost
        if isinstance(node, str):
            text, broken = heal_text(node)
            lost = lost or broken
            return text
        if isinstance(node, dict):
            return {visit(key): visit(item) for key, item in node.items()}
        return [visit(item) for item in node] if isinstance(node, list) else node

    return visit(value), lost


def heal_text(text: str) -> tuple[str, bool]:
    """Join halves of characters in one string, as `heal` does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
        joined = units.decode("utf-16-le", "replace")
        return joined, joined.encode("utf-16-le") != units
    return text, False
