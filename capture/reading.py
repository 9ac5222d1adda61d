"""Bytes of a record file to records: every readable line, and a count of those that are not.

Lines end at LF only: a record may hold any other character that some call a line end. A record is read as the types
of `model-call/1`; members it does not know are kept beside them, and a higher major version is not guessed at.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from filelock import lock_descriptor

from pipeline.exhausted import raise_if_exhausted
from pipeline.notes import parse_notes
from pipeline.record import ModelCallRecord

MAJOR = "model-call/1"


class StoredRecord(ModelCallRecord, frozen=True, kw_only=True):
    """A record as it was read. `unknown` holds the members that a newer writer added."""

    unknown: dict[str, Any] = msgspec.field(default_factory=dict)


_KNOWN = frozenset(ModelCallRecord.__struct_fields__)


class Reading(NamedTuple):
    """A rollout's readable records in order, and the number of lines that cannot be read."""

    records: list[StoredRecord]
    damaged: int

    @property
    def ids(self) -> set[str]:
        """The call ids of the records."""
        return {record.model_call_id for record in self.records}


class Scan(NamedTuple):
    """What a glance at a file tells: the call ids in it, and the number of lines that cannot be read."""

    ids: set[str]
    damaged: int


class _Glance(ModelCallRecord, frozen=True, kw_only=True):
    """A record whose bodies are passed over: all else must have its type, as in a record that is read."""

    schema: str
    request: msgspec.Raw = msgspec.Raw(b"null")
    response: msgspec.Raw = msgspec.Raw(b"null")


_glance = msgspec.json.Decoder(_Glance)


def parse_line(line: bytes) -> StoredRecord | None:
    """Read one line; None where it is no record of a version that this reader knows."""
    try:
        members = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        members = _parse_leniently(line)
    if not isinstance(members, dict) or not _is_readable(members.get("schema")):
        return None
    unknown = {name: value for name, value in members.items() if name not in _KNOWN}
    known = {name: members[name] for name in members.keys() & _KNOWN}
    try:
        return msgspec.convert({**known, "unknown": unknown}, StoredRecord)
    except (msgspec.ValidationError, UnicodeEncodeError):  # a complaint about half a character cannot be made
        return None


def parse_records(text: bytes) -> Reading:
    """Read a file's content; a last line without LF is not looked at."""
    records, damaged = [], 0
    for line in text.split(b"\n")[:-1]:
        if not line:
            continue
        record = parse_line(line)
        if record is None:
            damaged += 1
        else:
            records.append(record)
    records.sort(key=_completed_at)
    return Reading(records, damaged)


def scan_records(text: bytes) -> Scan:
    """Glance at a file's content: a third of the price of reading it. A last line without LF is not looked at."""
    ids, damaged = set(), 0
    for line in text.split(b"\n")[:-1]:
        if not line:
            continue
        call_id = _call_id_of(line)
        if call_id is None:
            damaged += 1
        else:
            ids.add(call_id)
    return Scan(ids, damaged)


def _call_id_of(line: bytes) -> str | None:
    """Return the call id of a readable line; None where `parse_line` would give none."""
    try:
        line.decode()  # what is passed over is not looked at as text
        glance = _glance.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        record = parse_line(line)
        return None if record is None else record.model_call_id
    return glance.model_call_id if _is_readable(glance.schema) else None


def with_notes(reading: Reading, text: bytes | None) -> Reading:
    """Join handlers' late notes to their records by call id."""
    if not text:
        return reading
    by_id = {record.model_call_id: index for index, record in enumerate(reading.records)}
    records = list(reading.records)
    for note in parse_notes(text):
        index = by_id.get(note.model_call_id)
        if index is not None:
            record = records[index]
            records[index] = msgspec.structs.replace(
                record,
                annotations={**(record.annotations or {}), **(note.annotations or {})} or None,
                events=[*(record.events or []), *(note.events or [])] or None,
            )
    return Reading(records, reading.damaged)


def read_bytes(path: Path) -> bytes | None:
    """Return a file's content; None where there is none to be had. Raises OSError if this process is exhausted."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise_if_exhausted(error)
        return None


def why_closed(path: Path) -> str | None:
    """Say why a file that is there cannot be read; None where it can be, or is not there."""
    try:
        with path.open("rb"):
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise_if_exhausted(error)
        return error.strerror


def tail_is_torn(path: Path, size: int) -> bool:
    """Whether a tail without LF is damage: no writer holds the file, and it has not grown since."""
    try:
        with path.open("rb") as file:
            free = lock_descriptor(file.fileno(), blocking=False)
            return free and path.stat().st_size == size
    except OSError:
        return False


def _parse_leniently(line: bytes) -> Any:  # noqa: ANN401 - whatever the line holds
    """Read what the strict decoder refuses, such as escaped lone surrogates that a client sent."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_readable(schema: object) -> bool:
    return isinstance(schema, str) and (schema == MAJOR or schema.startswith(MAJOR + "."))


def _completed_at(record: StoredRecord) -> float:
    return record.completed_at
