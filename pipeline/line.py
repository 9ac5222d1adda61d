"""A record to its line: strict UTF-8 JSON, no line end inside, the id first; whatever the record holds.

msgspec encodes nearly every record. What it refuses (half surrogates, keys that are no text, values that users put
into their annotations) is made plain first: each value becomes the nearest JSON value, text is healed, the unknown
becomes its `repr`.
"""

import json
import math
from typing import Any

import msgspec

from pipeline.bodies import MAX_DEPTH, heal_text, is_too_deep
from pipeline.record import ModelCallRecord

_ENCODER = msgspec.json.Encoder()


def encode(record: ModelCallRecord) -> bytes:
    """Return the line without its line end. Never fails for what a record holds."""
    notes, events = record.annotations, record.events
    if not ((notes and is_too_deep(notes)) or (events and is_too_deep(events))):
        try:
            return _ENCODER.encode(record)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
            pass
    members = (
        b'"%s":%s' % (name.encode(), _text(getattr(record, name))) for name in record.__struct_fields__
    )
    return b"{%s}" % b",".join(members)


def _text(value: Any) -> bytes:  # noqa: ANN401 - whatever the record holds
    """Return one field's JSON text; bodies that are embedded stay the bytes they are."""
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    plain = _plain(value, MAX_DEPTH)
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any, depth: int) -> Any:  # noqa: ANN401, PLR0911 - one return for each kind of value
    """Return the nearest value that JSON has."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return heal_text(value)[0]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (dict, msgspec.Struct)):
        members = value if isinstance(value, dict) else msgspec.structs.asdict(value)
        return (
            {heal_text(str(key))[0]: _plain(item, depth - 1) for key, item in members.items()}
            if depth
            else "..."
        )
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth - 1) for item in value] if depth else "..."
    return heal_text(repr(value))[0]
