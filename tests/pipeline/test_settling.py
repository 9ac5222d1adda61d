"""Waiting until every call that started before is in its file or named."""

import errno
import os
from pathlib import Path

import pytest

from pipeline import places, slots
from pipeline.ledger import Ledger
from pipeline.settling import Settling
from pipeline.slots import Slot
from pipeline.takeover import bury
from tests.pipeline.deadly import (
    call_id,
    dead_ledger,
    descriptors,
    new_ledger,
    record,
    rename_as,
    view_of,
)


class Time:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def settling(directory: Path, stem: str | None) -> Settling:
    """Begin a settle."""
    return Settling(directory, stem, Time())


def opened(ledger: Ledger, number: int, stem: str = "a") -> Slot:
    """Start a call."""
    slot = ledger.open(call_id(number), float(number), stem.encode())
    assert slot is not None
    return slot


def test_only_calls_that_started_before_are_waited_for(tmp_path: Path) -> None:
    """A settle ends with the calls of its snapshot, whatever started since, in the same slot too."""
    ledger = new_ledger(tmp_path, {})
    slot = opened(ledger, 1)
    under_way = settling(tmp_path, "a")
    assert not under_way.poll()
    later = opened(ledger, 2)
    slot.mark(slots.ACCEPTED)
    assert not under_way.poll()
    ledger.finish(slot, slots.COMMITTED)
    opened(ledger, 3)
    assert under_way.poll()
    assert under_way.result([]).complete
    under_way.close()
    assert later.state == slots.OPEN
    ledger.close()


def test_other_rollouts_are_not_waited_for(tmp_path: Path) -> None:
    """Calls of another rollout hold nobody up."""
    ledger = new_ledger(tmp_path, {1: ("b", "open"), 2: ("b", "accepted")})
    under_way = settling(tmp_path, "a")
    assert under_way.poll()
    under_way.close()
    ledger.close()


def test_a_settle_of_all_waits_for_accepted_calls_only(tmp_path: Path) -> None:
    """Without a rollout an open call, which may stay so for hours, is not waited for; an accepted one is."""
    ledger = new_ledger(tmp_path, {1: ("a", "open")})
    under_way = settling(tmp_path, None)
    assert under_way.poll()
    under_way.close()
    slot = opened(ledger, 2, "b")
    slot.mark(slots.ACCEPTED)
    under_way = settling(tmp_path, None)
    assert not under_way.poll()
    ledger.finish(slot, slots.COMMITTED)
    assert under_way.poll()
    under_way.close()
    ledger.close()


def test_pending_calls_are_named(tmp_path: Path) -> None:
    """At the end of patience the answer says which call it is, where it stands, and whose."""
    ledger = new_ledger(tmp_path, {1: ("a", "open")})
    clock = Time()
    under_way = Settling(tmp_path, "a", clock)
    clock.now += 2.5
    assert not under_way.poll()
    found = under_way.result([])
    under_way.close()
    assert (found.complete, found.waited_s, len(found.pending)) == (False, 2.5, 1)
    call = found.pending[0]
    assert (call.model_call_id, call.stem, call.state) == (call_id(1).hex(), "a", "open")
    assert (call.started_at, call.pid) == (1.0, ledger.identity.pid)
    ledger.close()


def test_a_server_that_dies_meanwhile_is_taken_over(tmp_path: Path) -> None:
    """When the last writer goes, calls that are in no file are named as lost, and the rest is there."""
    ledger = new_ledger(tmp_path, {1: ("a", "accepted"), 2: ("a", "open"), 3: ("b", "open")})
    under_way = settling(tmp_path, "a")
    assert not under_way.poll()
    record(tmp_path, "a", 1)
    ledger.close()
    assert under_way.poll()
    found = under_way.result([])
    under_way.close()
    assert [(gap.model_call_id, gap.code) for gap in found.gaps] == [(call_id(2).hex(), "lost")]
    assert not found.pending
    assert ledger.path is not None
    assert not ledger.path.exists()


def test_another_reader_may_take_over_first(tmp_path: Path) -> None:
    """Two settles of one dead ledger come to the same gaps, whoever wrote them."""
    ledger = new_ledger(tmp_path, {1: ("a", "accepted"), 2: ("a", "open")})
    first, second = settling(tmp_path, "a"), settling(tmp_path, "a")
    record(tmp_path, "a", 1)
    ledger.close()
    assert first.poll()
    assert second.poll()
    assert first.result([]).gaps == second.result([]).gaps
    assert len(first.result([]).gaps) == 1
    first.close()
    second.close()


def test_a_reader_that_holds_the_lock_is_waited_for(tmp_path: Path) -> None:
    """While another reader is taking over, the calls are pending; once it is done they are named."""
    path = dead_ledger(tmp_path, {1: ("a", "open")})
    other = view_of(path)
    assert other.try_lock()
    under_way = settling(tmp_path, "a")
    assert not under_way.poll()
    other.unlock()
    assert bury(other, tmp_path) is not None
    other.close()
    assert under_way.poll()
    under_way.close()


def test_known_gaps_are_named_once(tmp_path: Path) -> None:
    """A gap that the files name already is not named again by the ledger."""
    dead_ledger(tmp_path, {1: ("a", "open")})
    under_way = settling(tmp_path, "a")
    found = under_way.result([])
    assert under_way.result(list(found.gaps)).gaps == found.gaps
    under_way.close()


def test_another_hosts_calls_are_beyond_account_only_if_they_are_missing(tmp_path: Path) -> None:
    """A foreign ledger counts against a rollout while it has a call of it that is in no file."""
    path = rename_as(dead_ledger(tmp_path, {1: ("a", "accepted")}), "elsewhere", places.boot_id())
    under_way = settling(tmp_path, "a")
    assert under_way.poll()
    assert under_way.result([]).unaccountable == (path.name,)
    under_way.close()
    for stem in ("a", "b"):
        record(tmp_path, "a", 1)
        under_way = settling(tmp_path, stem)
        assert under_way.poll()
        assert under_way.result([]).complete
        under_way.close()


def test_records_that_cannot_be_read_leave_the_call_pending(tmp_path: Path) -> None:
    """Nobody knows what is in a file that cannot be read, so its calls are neither there nor lost."""
    dead_ledger(tmp_path, {1: ("a", "accepted")})
    (tmp_path / "a.capture.jsonl").mkdir()
    under_way = settling(tmp_path, "a")
    assert not under_way.poll()
    assert [each.stem for each in under_way.result([]).pending] == ["a"]
    under_way.close()


def test_a_missing_or_relative_directory_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was ever captured nothing is waited for; a relative path finds what the whole one does."""
    under_way = settling(tmp_path / "missing", "a")
    assert under_way.poll()
    assert under_way.result([]).complete
    under_way.close()
    ledger = new_ledger(tmp_path, {1: ("a", "open")})
    monkeypatch.chdir(tmp_path)
    under_way = settling(Path(), "a")
    assert not under_way.poll()
    under_way.close()
    ledger.close()


def test_a_process_without_descriptors_calls_nothing_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that could not be opened for want of descriptors is no ledger without calls."""
    ledger = new_ledger(tmp_path, {1: ("a", "open")})
    really_open = os.open

    def spent(path: Path, *rest: int) -> int:
        if str(path).endswith(".ledger"):
            raise OSError(errno.EMFILE, "too many open files")
        return really_open(path, *rest)

    with monkeypatch.context() as process:
        process.setattr(os, "open", spent)
        under_way = settling(tmp_path, "a")
    assert under_way.poll()
    found = under_way.result([])
    assert (found.complete, found.unaccountable) == (False, (str(places.default_folder(tmp_path)),))
    under_way.close()
    ledger.close()


def test_everything_is_closed(tmp_path: Path) -> None:
    """A settle leaves no descriptor behind, and may be closed twice."""
    ledger = new_ledger(tmp_path, {1: ("a", "open")})
    before = descriptors()
    under_way = settling(tmp_path, "a")
    under_way.poll()
    under_way.close()
    under_way.close()
    assert descriptors() == before
    ledger.close()
