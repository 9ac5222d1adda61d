"""What `capture ls` and `capture show` tell of a rollout, as values: sums over its records, and one row a call.

Pure functions of what the store read. Null is unknown and adds nothing to a sum; a sum of unknowns is unknown.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline import gaps as gap_files
from pipeline.gaps import DAMAGED, Gap
from pipeline.stems import stem_of

from .reading import Reading, StoredRecord
from .store import CaptureStore

ROW_NUMBER_DIGITS = 7
"""A shorter decimal number names a call by its row; anything else is the beginning of an id."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout in sums. `rollout_id` is null for calls that named none; `stem` is its files' name.

    `errors` counts the calls with an `error_category`, `damaged` the lines that cannot be read, `gaps` the calls
    known to be missing. Tokens are null where no call reported any.
    """

    rollout_id: str | None
    stem: str
    calls: int
    dialects: list[str]
    models: list[str]
    input_tokens: int | None
    output_tokens: int | None
    errors: int
    gaps: int
    damaged: int
    last_call_at: float | None
    file_bytes: int


class Rollout(NamedTuple):
    """What was read of one rollout."""

    stem: str
    reading: Reading
    gaps: list[Gap]

    @property
    def rollout_id(self) -> str | None:
        """The true id, as the records say; where there are none, the file's name if that is an id itself."""
        if self.reading.records:
            return self.reading.records[0].rollout_id
        return self.stem if stem_of(self.stem) == self.stem else None


def load(store: CaptureStore, stem: str) -> Rollout:
    """Read one rollout by the name of its files."""
    reading = store.read_stem(stem)
    gaps = [gap for gap in store.gaps_beside(stem, reading) if gap.code != DAMAGED]
    return Rollout(stem, reading, gaps)


def find_stem(store: CaptureStore, name: str) -> str | None:
    """Return the name of the files of a rollout, given its id or, for calls without one, that name itself.

    None where there are neither records nor gaps.
    """
    there = set(store.stems())
    return next((stem for stem in (stem_of(name), name) if stem in there), None)


def overview(store: CaptureStore, stem: str) -> Overview:
    """Sum one rollout up."""
    found = load(store, stem)
    records = found.reading.records
    usages = [record.usage for record in records if record.usage is not None]
    return Overview(
        rollout_id=found.rollout_id,
        stem=stem,
        calls=len(records),
        dialects=_each(record.dialect for record in records),
        models=_each(record.model for record in records),
        input_tokens=_sum(usage.input_tokens for usage in usages),
        output_tokens=_sum(usage.output_tokens for usage in usages),
        errors=sum(record.error_category is not None for record in records),
        gaps=len(found.gaps),
        damaged=found.reading.damaged,
        last_call_at=max((record.completed_at for record in records), default=None),
        file_bytes=_file_bytes(gap_files.record_path(store.directory, stem)),
    )


def find_calls(records: Sequence[StoredRecord], name: str) -> list[StoredRecord]:
    """Return the records that `name` can mean: a row's number, counted from 1, or the beginning of an id."""
    if name.isdecimal() and len(name) <= ROW_NUMBER_DIGITS:
        return list(records[int(name) - 1 : int(name)]) if int(name) else []
    return [record for record in records if record.model_call_id.startswith(name.lower())]


def _each(values: Iterable[str | None]) -> list[str]:
    """Return every value once, in order of first appearance; null is none of them."""
    return list(dict.fromkeys(value for value in values if value is not None))


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
