"""The reader's side of all ledgers of a directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import places, slots
from pipeline.account import LedgerView, anonymous_servers, held_gaps, ledger_paths
from tests.pipeline.deadly import call_id, dead_ledger, descriptors, new_ledger, rename_as, view_of


def test_a_living_ledger_cannot_be_locked(tmp_path: Path) -> None:
    """While its owner lives the lock is held; once it is closed anybody gets it, one at a time."""
    ledger = new_ledger(tmp_path, {1: ("a", "open")})
    assert ledger.path is not None
    view, other = view_of(ledger.path), view_of(ledger.path)
    assert view.here
    assert not view.try_lock()
    ledger.close()
    assert view.try_lock()
    assert not other.try_lock()
    view.unlock()
    assert other.try_lock()
    view.close()
    other.close()


def test_calls_are_seen_by_state(tmp_path: Path) -> None:
    """Calls come with their details, filtered by state, from every segment."""
    view = view_of(dead_ledger(tmp_path, {1: ("a", "open"), 2: ("b", "accepted"), 3: ("c", "failed")}))
    found = {(call.view.call_id, call.view.stem) for call in view.calls(slots.UNFINISHED)}
    assert found == {(call_id(1), "a"), (call_id(2), "b")}
    view.close()


def test_a_call_is_no_longer_the_one_waited_for_once_its_slot_is_reused(tmp_path: Path) -> None:
    """The same slot with another generation is another call."""
    ledger = new_ledger(tmp_path, {})
    slot = ledger.open(call_id(1), 1.0, b"a")
    assert slot is not None
    assert ledger.path is not None
    view = view_of(ledger.path)
    (call,) = view.calls(slots.UNFINISHED)
    slot.mark(slots.ACCEPTED)
    now = view.still(call, slots.UNFINISHED)
    assert now is not None
    assert now.state == slots.ACCEPTED
    assert view.still(call, (slots.OPEN,)) is None
    ledger.finish(slot, slots.COMMITTED)
    assert view.still(call, slots.UNFINISHED) is None
    ledger.open(call_id(2), 1.0, b"a")
    assert view.still(call, slots.UNFINISHED) is None
    view.close()
    ledger.close()


FLIP = """
import sys
from mmap import mmap
with open(sys.argv[1], "r+b") as file:
    view = mmap(file.fileno(), 0)
print(flush=True)
while True:
    view[4096] = 1
    view[4096] = 2
"""


def test_a_call_that_changes_while_it_is_read_is_still_there(tmp_path: Path) -> None:
    """Racing a process that moves a call between open and accepted, a reader never takes it for finished."""
    path = dead_ledger(tmp_path, {1: ("a", "open")})
    view = view_of(path)
    (call,) = view.calls(slots.UNFINISHED)
    process = subprocess.Popen([sys.executable, "-c", FLIP, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        missed = sum(view.still(call, slots.UNFINISHED) is None for _ in range(100_000))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    view.close()
    assert missed == 0


@pytest.mark.parametrize(
    "content", [b"", b"x" * 9000, b"MCCLDGR1" + b"\xff" * 5000, b"MCCLDGR1" + b"\0" * 9000]
)
def test_a_file_that_is_no_ledger_is_passed_over(tmp_path: Path, content: bytes) -> None:
    """Whatever lies under a ledger's name, opening it gives None, raises nothing and leaks nothing."""
    path = tmp_path / "x.ledger"
    path.write_bytes(content)
    before = descriptors()
    assert LedgerView.open(path) is None
    assert LedgerView.open(tmp_path / "missing.ledger") is None
    assert descriptors() == before


@pytest.mark.parametrize("damage", ["torn", "path", "nul"])
def test_a_damaged_slot_is_passed_over(tmp_path: Path, damage: str) -> None:
    """A slot that a crash tore, or whose name leads elsewhere, hangs no reader and names no call."""
    path = dead_ledger(tmp_path, {1: ("aaaaaaaaaa", "accepted"), 2: ("b", "accepted")})
    content = bytearray(path.read_bytes())
    at = slots.details_at(4096)
    stem_at = content.index(b"aaaaaaaaaa", at)
    if damage == "torn":
        content[at] = 77
    else:
        content[stem_at : stem_at + 10] = b"../../../x" if damage == "path" else b"a\0" * 5
    path.write_bytes(content)
    view = view_of(path)
    assert [call.view.stem for call in view.calls(slots.UNFINISHED)] == ["b"]
    view.close()


def test_a_lock_shows_segments_that_came_later(tmp_path: Path) -> None:
    """A reader that opened a ledger before it grew sees all of it once it holds its lock, and removes all of it."""
    ledger = new_ledger(tmp_path, {})
    assert ledger.path is not None
    view = view_of(ledger.path)
    for number in range(5000):
        ledger.grow_if_needed()
        ledger.open(call_id(number), 1.0, b"a")
    ledger.close()
    assert len(list(view.calls(slots.UNFINISHED))) == 4096
    assert view.try_lock()
    assert len(list(view.calls(slots.UNFINISHED))) == 5000
    assert view.counters()["started"] == 5000
    view.unlink()
    assert list(places.default_folder(tmp_path).iterdir()) == []
    view.close()


@pytest.mark.parametrize("content", [b"", b"x" * 9000])
def test_a_damaged_segment_leaves_the_ledger_to_others(tmp_path: Path, content: bytes) -> None:
    """A later segment that cannot be read stops a takeover, and the lock is not kept."""
    path = dead_ledger(tmp_path, {1: ("a", "open")})
    view, other = view_of(path), view_of(path)
    path.with_name(path.name + ".1").write_bytes(content)
    before = descriptors()
    assert not view.try_lock()
    assert descriptors() == before
    assert len(list(view.calls(slots.UNFINISHED))) == 1
    path.with_name(path.name + ".1").unlink()
    assert other.try_lock()
    view.close()
    other.close()


def test_another_hosts_or_boots_ledger_is_not_here(tmp_path: Path) -> None:
    """Only a ledger of this host since its last start has a lock that means something."""
    boot = places.boot_id()
    for host, started in (("elsewhere", boot), (places.host_name(), "01234567")):
        view = view_of(rename_as(dead_ledger(tmp_path, {}), host, started))
        assert not view.here
        view.close()


def test_gone_is_told(tmp_path: Path) -> None:
    """A ledger that was removed or replaced under the reader is gone."""
    path = dead_ledger(tmp_path, {})
    view = view_of(path)
    assert not view.gone
    path.rename(path.with_suffix(".old"))
    assert view.gone
    path.write_bytes(b"new")
    assert view.gone
    view.close()
    view.close()


def test_a_living_server_whose_ledger_is_nowhere_is_named(tmp_path: Path) -> None:
    """An announced ledger that cannot be seen from here (another host's memory) is beyond account while locked."""
    held = places.announce(tmp_path, "other-1-2-3.ledger", "/memory/of/another/host", 0o700)
    assert anonymous_servers(tmp_path) == ["other-1-2-3.ledger"]
    os.close(held)
    assert anonymous_servers(tmp_path) == []
    assert places.announced(tmp_path) == {}


@pytest.mark.parametrize("content", [b"", b"\0", b"relative", b"/\xff\xfe", b"/" + b"x" * 5000])
def test_odd_announcements_lead_nowhere(tmp_path: Path, content: bytes) -> None:
    """Whatever an announcement says, looking for ledgers raises nothing."""
    path = places.announcement(tmp_path, "odd.ledger")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert ledger_paths(tmp_path) == []
    assert anonymous_servers(tmp_path) == []


def test_gaps_on_their_way_are_seen_in_the_ledger(tmp_path: Path) -> None:
    """Dropped and failed calls are gaps before their lines are written."""
    ledger = new_ledger(tmp_path, {1: ("a", "dropped"), 2: ("b", "failed"), 3: ("a", "open")})
    assert {(stem, gap.code) for stem, gap in held_gaps(tmp_path)} == {("a", "dropped"), ("b", "failed")}
    assert [stem for stem, _ in held_gaps(tmp_path, "b")] == ["b"]
    ledger.close()
