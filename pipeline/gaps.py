"""What is known to be missing, as data: one line per gap in `<stem>.capture.incomplete`.

Gaps are keyed by call id: naming one twice costs nothing, and a gap whose record is in the file after all is none.
The file's name is that of NeMo Gym's marker; an empty one (Gym's own) says that something is missing, not what.
"""

import re
from pathlib import Path

import msgspec

RECORD_SUFFIX = ".capture.jsonl"
GAP_SUFFIX = ".capture.incomplete"
NOTE_SUFFIX = ".capture.annotations"
"""What handlers said of calls whose record was already on its way; joined by call id when read."""
SUFFIXES = (RECORD_SUFFIX, GAP_SUFFIX, NOTE_SUFFIX)
"""All that a rollout has in the directory."""

DROPPED = "dropped"
"""The queue was full."""
FAILED = "failed"
"""The record could not be written in time; `detail` names the fault."""
LOST = "lost"
"""The server process and its workers ended before the line was written."""
UNNAMED = "unnamed"
"""Somebody left an empty marker: something is missing, nobody knows what."""
DAMAGED = "damaged_line"
"""A line of the record file cannot be read (torn by a crash, say)."""

UNREADABLE = "unreadable_file"
"""A file of the rollout is there and cannot be read; `detail` names it, and why."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """One missing call, or one damaged line. `model_call_id` is null where nobody knows it."""

    model_call_id: str | None
    code: str
    started_at: float | None = None
    detail: str | None = None


_decoder = msgspec.json.Decoder(Gap)
_id_shape = re.compile(rb'\{"model_call_id":"([0-9a-f]{32})"')
LINE_START = b'\n{"model_call_id":"'
LINE_START_BYTES = len(LINE_START) - 1 + 32 + 1
"""How much of a line tells its call."""


def gap_line(gap: Gap) -> bytes:
    """Return a gap as the line that the gap file holds, without its LF."""
    return msgspec.json.encode(gap)


def record_path(directory: Path, stem: str) -> Path:
    """Return the path of a rollout's records."""
    return directory / (stem + RECORD_SUFFIX)


def gap_path(directory: Path, stem: str) -> Path:
    """Return the path of a rollout's gaps."""
    return directory / (stem + GAP_SUFFIX)


def note_path(directory: Path, stem: str) -> Path:
    """Return the path of a rollout's late annotations."""
    return directory / (stem + NOTE_SUFFIX)


def parse_gaps(text: bytes) -> list[Gap]:
    """Read a gap file's content: each call once, torn lines as an unnamed gap, and so an empty file."""
    found: dict[str, Gap] = {}
    unnamed = Gap(model_call_id=None, code=UNNAMED)
    for line in text.split(b"\n"):
        if not line:
            continue
        try:
            gap = _decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            gap = unnamed
        found.setdefault(gap.model_call_id or "", gap)
    return list(found.values()) or [unnamed]


def call_id_of(line: bytes) -> str | None:
    """Return the call id that a line of either file begins with, or None."""
    match = _id_shape.match(line)
    return match[1].decode() if match else None
