"""The ledger file's format, and the order that lets another process read it."""

import multiprocessing
import random
from mmap import mmap
from pathlib import Path

import pytest

from pipeline import slots
from pipeline.slots import Slot

SLOTS = 64


def new_map() -> mmap:
    """Make a map with a header."""
    view = mmap(-1, slots.file_bytes(SLOTS))
    slots.write_header(view, SLOTS, 0, b'{"pid":1}')
    return view


def test_header_round_trip() -> None:
    """A header's fields and counters read back as they were written."""
    view = new_map()
    slots.write_counter(view, "committed", 7)
    slots.write_counter(view, slots.COUNTERS[-1], 1 << 60)
    header = slots.read_header(view)
    assert (header.slots, header.identity, header.counters["committed"]) == (SLOTS, b'{"pid":1}', 7)
    assert header.counters[slots.COUNTERS[-1]] == 1 << 60


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"MCCLDGR1" + b"\0" * 5000, b"\xff" * 9000])
def test_a_file_that_is_no_ledger_is_refused(content: bytes) -> None:
    """What is not a whole ledger file raises ValueError instead of being read as one."""
    with pytest.raises(ValueError, match="ledger"):
        slots.read_header(content + b"" if content[:8] != slots.MAGIC else content[:12] + b"\xff" * 5000)


def test_a_slot_is_read_as_it_was_written() -> None:
    """An occupied slot gives its call id, time, stem and generation; a free one gives nothing."""
    view = new_map()
    slot = Slot(view, 3, SLOTS)
    assert slots.read_slot(view, SLOTS, 3) is None
    slot.occupy(b"i" * 16, 12.5, b"a-stem")
    seen = slots.read_slot(view, SLOTS, 3)
    assert seen == (3, slots.OPEN, 1, b"i" * 16, 12.5, "a-stem")
    slot.mark(slots.FREE)
    assert slots.read_slot(view, SLOTS, 3) is None


def test_the_longest_stem_fits() -> None:
    """A stem of 200 bytes is stored whole."""
    view = new_map()
    slot = Slot(view, SLOTS - 1, SLOTS)
    slot.occupy(b"i" * 16, 0.0, b"s" * 200)
    seen = slots.read_slot(view, SLOTS, SLOTS - 1)
    assert seen is not None
    assert seen.stem == "s" * 200


def test_generations_count_every_use() -> None:
    """The number of calls that started is the sum of all generations."""
    view = new_map()
    chosen = [Slot(view, index, SLOTS) for index in (0, 5, 63)]
    for slot in chosen * 3:
        slot.occupy(b"i" * 16, 0.0, b"s")
    assert slots.generations(view, SLOTS) == 9
    assert slots.count_states(view, SLOTS)[slots.OPEN] == 3


def write_for_ever(path: str, seed: int) -> None:
    """Reuse a few slots as fast as can be; each use's details all come from one number."""
    choose = random.Random(seed)
    with Path(path).open("r+b") as file:
        view = mmap(file.fileno(), 0)
    held = [Slot(view, index, SLOTS) for index in range(4)]
    number = 0
    while True:
        number += 1
        slot = choose.choice(held)
        slot.occupy(number.to_bytes(16, "big"), float(number), str(number).encode() * 8)
        slot.mark(slots.ACCEPTED)
        slot.mark(slots.COMMITTED)


def test_a_reader_never_sees_half_a_call(tmp_path: Path) -> None:
    """Racing a writer of another process, a reader takes only slots whose details belong together."""
    path = tmp_path / "map"
    path.write_bytes(bytes(slots.file_bytes(SLOTS)))
    with path.open("r+b") as file:
        view = mmap(file.fileno(), 0)
    slots.write_header(view, SLOTS, 0, b"{}")
    writer = multiprocessing.get_context("spawn").Process(
        target=write_for_ever, args=(str(path), random.randrange(1 << 30)), daemon=True
    )
    writer.start()
    try:
        seen = torn = 0
        while seen < 20_000:
            for index in range(4):
                found = slots.read_slot(view, SLOTS, index)
                if found is not None:
                    seen += 1
                    number = int.from_bytes(found.call_id, "big")
                    torn += found.started_at != number or found.stem != str(number) * 8
        assert torn == 0
    finally:
        writer.kill()
        writer.join()
