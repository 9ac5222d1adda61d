"""The owner's side of the account: every call in one place, whatever becomes of the files."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import ledger as module
from pipeline import places, segment, slots
from pipeline.account import LedgerView, anonymous_servers, ledger_paths
from pipeline.ledger import Ledger, new_identity
from pipeline.settings import PipelineSettings
from pipeline.slots import Slot

ENDS = ("committed", "dropped", "failed", "skipped")


@pytest.fixture
def settings(tmp_path: Path) -> PipelineSettings:
    """Give settings for a directory that is there."""
    return PipelineSettings(directory=str(tmp_path))


@pytest.fixture
def ledger(settings: PipelineSettings) -> Iterator[Ledger]:
    """Give a new ledger."""
    made = Ledger(settings, new_identity(settings))
    yield made
    made.close()


def take(ledger: Ledger, number: int) -> list[Slot | None]:
    """Start so many calls."""
    return [ledger.open(os.urandom(16), 1.0, b"stem") for _ in range(number)]


def conserved(ledger: Ledger) -> bool:
    """Whether every call that started is in one place, as its owner counts."""
    held = ledger.states()
    under_way = sum(held[name] for name in ("open", "accepted", "spilled"))
    return ledger.started() == sum(ledger.counts[name] for name in ENDS) + under_way


def seen(ledger: Ledger) -> dict[str, int]:
    """Return the counters as another process reads them."""
    assert ledger.path is not None
    view = LedgerView.open(ledger.path)
    assert view is not None
    counters = view.counters()
    view.close()
    return counters


def test_every_call_is_in_one_place(ledger: Ledger) -> None:
    """Through opening, marking and each kind of end, started is the sum of ends and slots, inside and outside."""
    held = take(ledger, 40)
    for slot in held[:20]:
        assert slot is not None
        slot.mark(slots.ACCEPTED)
    for index, slot in enumerate(held[:16]):
        ledger.finish(slot, (slots.COMMITTED, slots.DROPPED, slots.FAILED, slots.SKIPPED)[index % 4])
    ledger.finish(None, slots.COMMITTED)
    assert conserved(ledger)
    assert ledger.counts["committed"] == 5
    assert ledger.in_use == 24
    counters = seen(ledger)
    assert (counters["started"], counters["accepted"], counters["open"]) == (41, 4, 20)
    assert counters["started"] == sum(counters[name] for name in (*ENDS, "accepted", "open", "spilled"))


def test_slots_are_used_again(ledger: Ledger) -> None:
    """A thousand calls one after the other use one slot, and each use is counted."""
    used = set()
    for _ in range(1000):
        (slot,) = take(ledger, 1)
        assert slot is not None
        used.add(slot.state_at)
        ledger.finish(slot, slots.COMMITTED)
    assert len(used) == 1
    assert ledger.started() == 1000


def test_a_segment_is_added_at_three_quarters(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below three quarters nothing grows; there a segment file is added, and readers see its calls."""
    monkeypatch.setattr(segment, "SEGMENT_SLOTS", (64,))
    held = take(ledger, 3071)
    ledger.grow_if_needed()
    assert len(ledger.segments) == 1
    held += take(ledger, 1)
    ledger.grow_if_needed()
    assert len(ledger.segments) == 2
    held += take(ledger, 1024 + 64)
    assert None not in held
    assert take(ledger, 1) == [None]
    assert seen(ledger)["open"] == 4096 + 64
    for slot in held:
        ledger.finish(slot, slots.COMMITTED)
    assert conserved(ledger)


def test_the_owner_is_told_when_slots_run_low(ledger: Ledger) -> None:
    """A sleeping pipeline learns that a quarter is left while calls only start and none ends."""
    told: list[int] = []
    ledger.when_low = lambda: told.append(len(ledger.free))
    take(ledger, 3071)
    assert told == []
    take(ledger, 1)
    assert told == [1024]


def test_no_slot_beyond_the_most(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """At SLOTS_MAX nothing grows; a call gets None, and is counted with its end."""
    monkeypatch.setattr(module, "SLOTS_MAX", 4096)
    take(ledger, 4096)
    ledger.grow_if_needed()
    assert take(ledger, 1) == [None]
    ledger.finish(None, slots.FAILED)
    assert (ledger.counts["unslotted"], ledger.counts["failed"], len(ledger.segments)) == (1, 1, 1)
    assert conserved(ledger)


def test_going_on_after_the_file_was_removed(ledger: Ledger) -> None:
    """After a removal new calls are seen in a new file, old ones end where they are, and nothing is lost."""
    held = take(ledger, 3)
    ledger.finish(held[0], slots.COMMITTED)
    assert ledger.path is not None
    assert not ledger.gone()
    ledger.path.unlink()
    assert ledger.gone()
    ledger.move()
    assert not ledger.gone()
    (later,) = take(ledger, 1)
    assert seen(ledger)["started"] == 4
    for slot in (held[1], held[2], later):
        ledger.finish(slot, slots.COMMITTED)
    assert conserved(ledger)
    assert (seen(ledger)["committed"], seen(ledger)["started"]) == (4, 4)
    assert ledger.in_use == 0


def test_a_slot_taken_while_the_ledger_moves_is_counted(ledger: Ledger) -> None:
    """A slot that a loop took before the move and fills in after it still counts as a start."""
    slot = ledger.free.pop()
    assert ledger.path is not None
    ledger.path.unlink()
    ledger.move()
    slot.occupy(b"i" * 16, 1.0, b"late")
    assert conserved(ledger)
    ledger.tend_lost()
    ledger.finish(slot, slots.COMMITTED)
    assert conserved(ledger)
    assert seen(ledger)["started"] == 1


def test_moves_leak_no_descriptors(ledger: Ledger) -> None:
    """Fifty removals leave no more descriptors open than one, once the lost maps are at rest."""

    def open_now() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the number is all that counts

    counts = []
    for _ in range(50):
        assert ledger.path is not None
        ledger.path.unlink()
        ledger.move()
        ledger.tend_lost()
        ledger.tend_lost()
        counts.append(open_now())
    assert max(counts) == counts[0]


def test_a_move_leaves_no_old_segment_behind(ledger: Ledger, tmp_path: Path) -> None:
    """Only the first of two files is removed: the other goes too, for it is no part of the new ledger."""
    held = take(ledger, 4000)
    ledger.grow_if_needed()
    assert ledger.path is not None
    ledger.path.unlink()
    ledger.move()
    assert [path.name for path in places.default_folder(tmp_path).iterdir()] == [ledger.path.name]
    assert seen(ledger)["started"] == len(held)


def test_a_replaced_file_is_gone(ledger: Ledger) -> None:
    """Another file under the same name is not ours."""
    assert ledger.path is not None
    ledger.path.rename(ledger.path.with_suffix(".kept"))
    ledger.path.write_bytes(b"another")
    assert ledger.gone()


def test_a_ledger_elsewhere_is_announced(tmp_path: Path) -> None:
    """With a state directory of its own, readers of the record directory find the ledger; unlinking takes both."""
    directory, state = tmp_path / "records", tmp_path / "state"
    directory.mkdir()
    settings = PipelineSettings(directory=str(directory), state_directory=str(state))
    ledger = Ledger(settings, new_identity(settings))
    assert ledger_paths(directory) == [ledger.path]
    assert ledger.path is not None
    assert ledger.path.parent == state
    assert anonymous_servers(directory) == []
    ledger.unlink()
    assert ledger_paths(directory) == []
    assert places.announced(directory) == {}
    ledger.close()


CHILD = """
import os, sys
from pipeline.ledger import Ledger, new_identity
from pipeline.settings import PipelineSettings
settings = PipelineSettings(directory=sys.argv[1])
ledger = Ledger(settings, new_identity(settings))
kept = os.dup(ledger.lock_descriptor)
os.set_inheritable(kept, True)
ledger.close()
print(ledger.path, flush=True)
sys.stdin.read()
"""


def test_closing_does_not_unlock(tmp_path: Path) -> None:
    """While somebody else holds the descriptor (a worker does), a closed ledger's lock is held; then it is free."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    view = LedgerView.open(Path(process.stdout.readline().decode().strip()))
    assert view is not None
    held = view.try_lock()
    process.stdin.close()
    process.wait(10)
    process.stdout.close()
    assert (held, view.try_lock()) == (False, True)
    view.close()


def test_a_closed_ledger_is_no_fault_of_the_caller(ledger: Ledger) -> None:
    """Slots that are still held when the ledger closes can be marked, finished and counted without an error."""
    (slot,) = take(ledger, 1)
    assert slot is not None
    ledger.close()
    slot.mark(slots.ACCEPTED)
    ledger.count("capture_errors")
    assert take(ledger, 1) == [None]
    ledger.close()
    assert ledger.counts["capture_errors"] == 1
