"""The format of a ledger file, and the one order in which a slot is written and read.

A file is a header, a column of state bytes, and a table of details beside it. Only its server process writes,
and only in this order: state to free; the details in one copy, with the same generation first and last; state to
open. Every later change is one byte stored; a slot whose call is finished and counted is
free again. A reader takes a slot only when both generations agree and the state
did not change while it read. `pack_into` is never used on the map: it clears its target before it writes.

Nothing here opens files or knows what the states mean to anyone.
"""

import struct
from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple, TypeAlias

View: TypeAlias = mmap | bytes
"""A ledger file's content: mapped by its owner and by readers alike."""

FREE, OPEN, ACCEPTED, COMMITTED, DROPPED, FAILED, SKIPPED, SPILLED = range(8)

STATE_NAMES = ("free", "open", "accepted", "committed", "dropped", "failed", "skipped", "spilled")

UNFINISHED = (OPEN, ACCEPTED, SPILLED)
"""A call in one of these states has neither a line nor a gap yet."""

MAGIC = b"MCCLDGR1"
HEADER_BYTES = 4096
DETAIL_BYTES = 256
STEM_MAX_BYTES = 200
READ_TRIES = 10_000
"""A slot in motion holds still within a microsecond; one that never does is damaged (a crash tore its page)."""
_WORD = struct.Struct("<Q")
_HEAD = struct.Struct("<8sIIQ")  # magic, slots, segment number, bytes of identity
_IDENTITY_AT = 1024
_COUNTERS_AT = 64
_DETAIL = struct.Struct("<Q16sdH200s14xQ")

COUNTERS = (
    "committed",
    "dropped",
    "failed",
    "skipped",
    "unslotted",
    "uncorrelated_skipped",
    "annotations",
    "annotations_dropped",
    "captured_bytes",
    "capture_errors",
    "worker_restarts",
    "gaps_unwritten",
    "queued_events",
    "queued_bytes",
    "last_commit_us",
    "oldest_backlog_us",
    "worker_threads",
    "carried",
)
"""Unsigned words in the header, in this order; added at the end, never moved.

`last_commit_us` is in Unix microseconds, `oldest_backlog_us` an age; the ones from `queued_events` on are states."""

_COUNTER_AT = {name: _COUNTERS_AT + 8 * index for index, name in enumerate(COUNTERS)}


class Slot:
    """One slot of a map, as its owner holds it. Taken from the free list by exactly one thread at a time."""

    __slots__ = ("detail_at", "generation", "map", "state_at")

    def __init__(self, into: mmap, index: int, slots: int) -> None:
        self.map = into
        self.state_at = HEADER_BYTES + index
        self.detail_at = details_at(slots) + DETAIL_BYTES * index
        self.generation = 0

    def occupy(self, call_id: bytes, started_at: float, stem: bytes) -> None:
        """Write a new call's details in the order that readers rely on."""
        view = self.map
        self.generation = generation = self.generation + 1
        view[self.state_at] = FREE
        at = self.detail_at
        view[at : at + DETAIL_BYTES] = _DETAIL.pack(
            generation, call_id, started_at, len(stem), stem, generation
        )
        view[self.state_at] = OPEN

    def mark(self, state: int) -> None:
        """Store the one byte that every change after `occupy` is; in a closed map nothing is told any more."""
        try:
            self.map[self.state_at] = state
        except ValueError:
            return

    @property
    def state(self) -> int:
        """The state byte as it stands."""
        return self.map[self.state_at]


class SlotView(NamedTuple):
    """What a reader saw of one slot, all at one moment."""

    number: int
    state: int
    generation: int
    call_id: bytes
    started_at: float
    stem: str


def details_at(slots: int) -> int:
    """Offset of the table of details: the state column, rounded up to the size of a detail."""
    return HEADER_BYTES + -(-slots // DETAIL_BYTES) * DETAIL_BYTES


def file_bytes(slots: int) -> int:
    """Size of a ledger file with so many slots."""
    return details_at(slots) + slots * DETAIL_BYTES


def write_header(view: mmap, slots: int, segment: int, identity: bytes) -> None:
    """Fill the header of a new map; `identity` is JSON of at most 3 KiB."""
    view[: _HEAD.size] = _HEAD.pack(MAGIC, slots, segment, len(identity))
    view[_IDENTITY_AT : _IDENTITY_AT + len(identity)] = identity


def write_counter(view: mmap, name: str, value: int) -> None:
    """Store one counter; eight aligned bytes in one copy."""
    at = _COUNTER_AT[name]
    view[at : at + 8] = _WORD.pack(value)


class Header(NamedTuple):
    """The fixed part of a ledger file."""

    slots: int
    segment: int
    identity: bytes
    counters: dict[str, int]


def read_header(view: View) -> Header:
    """Read the header. Raises ValueError where this is no whole ledger file of this format."""
    if len(view) < HEADER_BYTES:
        raise ValueError(f"a ledger file has at least {HEADER_BYTES} bytes, this one {len(view)}")
    magic, slots, segment, length = _HEAD.unpack_from(view)
    if magic != MAGIC or len(view) < file_bytes(slots) or length > HEADER_BYTES - _IDENTITY_AT:
        raise ValueError(f"not a ledger file of format {MAGIC.decode()}")
    counters = {name: _WORD.unpack_from(view, at)[0] for name, at in _COUNTER_AT.items()}
    return Header(slots, segment, view[_IDENTITY_AT : _IDENTITY_AT + length], counters)


def generations(view: View, slots: int) -> int:
    """Return how often slots of this file were taken: the number of calls that started in it."""
    start = details_at(slots)
    words = memoryview(view)[start : start + slots * DETAIL_BYTES].cast("Q")
    return sum(words[:: DETAIL_BYTES // 8])


def count_states(view: View, slots: int) -> list[int]:
    """Return how many slots are in each state, by state number."""
    column = view[HEADER_BYTES : HEADER_BYTES + slots]
    return [column.count(state) for state in range(len(STATE_NAMES))]


def read_slot(view: View, slots: int, index: int) -> SlotView | None:
    """Read one slot whole, or None where it is free or just being reused."""
    state = view[HEADER_BYTES + index]
    at = details_at(slots) + DETAIL_BYTES * index
    first, call_id, started_at, length, stem, last = _DETAIL.unpack_from(view, at)
    if state == FREE or first != last or view[HEADER_BYTES + index] != state:
        return None
    name = stem[: min(length, STEM_MAX_BYTES)].decode("ascii", "replace")
    if "/" in name or "\0" in name:
        return None  # no owner writes that: the file is damaged, and the name must lead nowhere
    return SlotView(index, state, first, call_id, started_at, name)


def read_slots(view: View, slots: int, states: tuple[int, ...]) -> Iterator[SlotView]:
    """Yield the slots in one of `states`, each as it was while it held still."""
    column = view[HEADER_BYTES : HEADER_BYTES + slots]
    for index, state in enumerate(column):
        if state in states and (seen := read_still(view, slots, index)) and seen.state in states:
            yield seen


def read_still(view: View, slots: int, index: int) -> SlotView | None:
    """Read a slot again until it holds still; None where it is free, or damaged."""
    for _ in range(READ_TRIES):
        if (seen := read_slot(view, slots, index)) is not None:
            return seen
        if view[HEADER_BYTES + index] == FREE:
            return None
    return None
