"""A ledger without an owner: what is not in its file is a gap, named once and counted once."""

import errno
import os
from pathlib import Path

import pytest

from pipeline import append as append_module
from pipeline import places, takeover
from pipeline.account import LedgerView
from pipeline.gaps import Gap, gap_path, parse_gaps, record_path
from pipeline.ledger import Ledger, new_identity
from pipeline.settings import PipelineSettings
from pipeline.slots import COMMITTED
from pipeline.takeover import bury, read_totals, retire_own
from tests.pipeline.deadly import call_id, dead_ledger, new_ledger, record, rename_as, view_of

MIXED = {
    1: ("a", "open"),
    2: ("a", "accepted"),
    3: ("a", "accepted"),
    4: ("b", "dropped"),
    5: ("b", "failed"),
    6: ("c", "accepted"),
}


def bury_at(path: Path, directory: Path) -> dict[str, list[Gap]] | None:
    """Open a ledger, take it over if it is dead, and close it."""
    view = view_of(path)
    try:
        return bury(view, directory)
    finally:
        view.close()


def codes(gaps: dict[str, list[Gap]] | None) -> dict[str, list[tuple[int, str]]]:
    """Return gaps as call numbers and codes by stem."""
    assert gaps is not None
    return {
        stem: sorted((int(gap.model_call_id or "0", 16), gap.code) for gap in found)
        for stem, found in gaps.items()
    }


def in_file(directory: Path, stem: str) -> list[tuple[int, str]]:
    """Return the gaps that a file names, as call numbers and codes."""
    found = parse_gaps(gap_path(directory, stem).read_bytes())
    return sorted((int(gap.model_call_id or "0", 16), gap.code) for gap in found)


def test_lost_calls_become_gaps_and_found_ones_do_not(tmp_path: Path) -> None:
    """Of a dead ledger those in no file are lost, dropped and failed ones keep their code, the rest is there."""
    path = dead_ledger(tmp_path, MIXED)
    record(tmp_path, "a", 2)
    record(tmp_path, "c", 6)
    expected = {"a": [(1, "lost"), (3, "lost")], "b": [(4, "dropped"), (5, "failed")]}
    assert codes(bury_at(path, tmp_path)) == expected
    assert {stem: in_file(tmp_path, stem) for stem in expected} == expected
    assert not gap_path(tmp_path, "c").exists()
    assert not path.exists()
    totals = read_totals(tmp_path)
    assert (totals.processes, totals.lost) == (1, 2)
    ends = {name: totals.counts[name] for name in ("started", "committed", "dropped", "failed", "skipped")}
    assert ends == {"started": 6, "committed": 2, "dropped": 1, "failed": 3, "skipped": 0}


def test_a_torn_line_is_no_record(tmp_path: Path) -> None:
    """A call whose line was cut by the crash is lost, with and without a later line behind it."""
    path = dead_ledger(tmp_path, {1: ("a", "accepted"), 2: ("b", "accepted")})
    for stem, number, tail in (("a", 1, b""), ("b", 2, b"\n")):
        record(tmp_path, stem, 9)
        with record_path(tmp_path, stem).open("ab") as file:
            file.write(b'{"model_call_id":"%s","sch' % call_id(number).hex().encode() + tail)
    assert codes(bury_at(path, tmp_path)) == {"a": [(1, "lost")], "b": [(2, "lost")]}


def test_a_living_ledger_is_left_alone(tmp_path: Path) -> None:
    """While its lock is held nothing is taken over."""
    ledger = new_ledger(tmp_path, MIXED)
    assert ledger.path is not None
    assert bury_at(ledger.path, tmp_path) is None
    assert ledger.path.exists()
    ledger.close()


@pytest.mark.parametrize("own_boot", [True, False])
def test_foreign_ledgers_are_only_reported(tmp_path: Path, *, own_boot: bool) -> None:
    """Another host's ledger, or an earlier boot's, stays as it is: its lock says nothing here."""
    path = dead_ledger(tmp_path, MIXED)
    boot = places.boot_id()
    path = rename_as(path, "elsewhere", boot) if own_boot else rename_as(path, places.host_name(), "0" * 8)
    assert bury_at(path, tmp_path) is None
    assert path.exists()
    assert list(tmp_path.glob("*.incomplete")) == []


@pytest.mark.parametrize("fault", ["gaps", "totals", "unlink"])
def test_a_crash_on_the_way_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Stopped before its gaps, its totals or its removal, a takeover done again names and counts each call once."""
    path = dead_ledger(tmp_path, MIXED)
    with monkeypatch.context() as broken:
        place = {
            "gaps": (takeover, "sync_directory"),
            "totals": (takeover, "add_to_totals"),
            "unlink": (LedgerView, "unlink"),
        }[fault]

        def crash(*_: object) -> None:
            raise KeyboardInterrupt

        broken.setattr(*place, crash)
        with pytest.raises(KeyboardInterrupt):
            bury_at(path, tmp_path)
    assert path.exists()
    other = dead_ledger(tmp_path, {7: ("d", "open")})
    bury_at(other, tmp_path)
    bury_at(path, tmp_path)
    assert in_file(tmp_path, "a") == [(1, "lost"), (2, "lost"), (3, "lost")]
    assert len(gap_path(tmp_path, "a").read_bytes().splitlines()) == 3
    totals = read_totals(tmp_path)
    assert (totals.processes, totals.counts["started"], totals.lost) == (2, 7, 5)
    assert list(places.default_folder(tmp_path).glob("*.ledger")) == []


def test_counted_ledgers_are_forgotten_once_they_are_gone(tmp_path: Path) -> None:
    """The totals name only ledgers that may come up again, however many processes ended."""
    for _ in range(5):
        bury_at(dead_ledger(tmp_path, {}), tmp_path)
    totals = read_totals(tmp_path)
    assert totals.processes == 5
    assert len(totals.counted) == 1


def test_a_read_only_directory_gives_gaps_without_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be written the gaps are computed all the same, each time anew, and the ledger stays."""
    path = dead_ledger(tmp_path, MIXED)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only file system")

    monkeypatch.setattr(takeover, "append", read_only)
    first = bury_at(path, tmp_path)
    assert codes(first) == codes(bury_at(path, tmp_path))
    assert codes(first)["a"] == [(1, "lost"), (2, "lost"), (3, "lost")]
    assert path.exists()
    assert list(tmp_path.glob("*.incomplete")) == []


def test_a_held_gap_file_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the gap file the gaps are known, unwritten, and nothing raises."""
    monkeypatch.setattr(takeover, "PATIENCE_S", 0.01)
    path = dead_ledger(tmp_path, {1: ("a", "open")})
    with append_module.locked(gap_path(tmp_path, "a"), 0o600, 0.0):
        assert codes(bury_at(path, tmp_path)) == {"a": [(1, "lost")]}
    assert path.exists()
    assert codes(bury_at(path, tmp_path)) == {"a": [(1, "lost")]}
    assert not path.exists()


def test_records_that_cannot_be_read_are_not_called_lost(tmp_path: Path) -> None:
    """Where a file is there but cannot be read nobody knows what is missing: no gap is written, the ledger stays."""
    path = dead_ledger(tmp_path, {1: ("a", "accepted")})
    record_path(tmp_path, "a").mkdir()
    assert bury_at(path, tmp_path) is None
    assert path.exists()
    assert not gap_path(tmp_path, "a").exists()


def test_a_ledger_removed_by_hand_still_names_its_calls(tmp_path: Path) -> None:
    """A reader that has a dead ledger open when its file goes still finds which calls are in no file."""
    path = dead_ledger(tmp_path, MIXED)
    record(tmp_path, "a", 2)
    view = view_of(path)
    path.unlink()
    assert codes(bury(view, tmp_path))["a"] == [(1, "lost"), (3, "lost")]
    view.close()
    assert list(tmp_path.glob("*.incomplete")) == []


def test_a_finished_process_retires_its_own_ledger(tmp_path: Path) -> None:
    """With every call accounted for the ledger goes and its counters are kept; with one open it stays."""
    busy, done = new_ledger(tmp_path, {1: ("a", "open")}), new_ledger(tmp_path, {})
    slot = done.open(b"i" * 16, 1.0, b"a")
    done.finish(slot, COMMITTED)
    for ledger in (busy, done):
        retire_own(ledger, tmp_path)
        ledger.close()
    assert _exist(busy, done) == [True, False]
    totals = read_totals(tmp_path)
    assert (totals.processes, totals.counts["started"], totals.counts["committed"]) == (1, 1, 1)


def _exist(*ledgers: Ledger) -> list[bool]:
    return [ledger.path is not None and ledger.path.exists() for ledger in ledgers]


def test_an_announcement_goes_with_its_ledger(tmp_path: Path) -> None:
    """Taking over a ledger in a state directory clears its announcement away too."""
    state = tmp_path / "state"
    settings = PipelineSettings(directory=str(tmp_path), state_directory=str(state))
    ledger = Ledger(settings, new_identity(settings))
    ledger.open(call_id(1), 1.0, b"a")
    assert ledger.path is not None
    ledger.close()
    assert codes(bury_at(ledger.path, tmp_path)) == {"a": [(1, "lost")]}
    assert places.announced(tmp_path) == {}
    assert os.listdir(state) == []  # noqa: PTH208 - all that is there


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"counts":[]}', b'{"last":"old","processes":1}'])
def test_damaged_totals_are_begun_anew(tmp_path: Path, content: bytes) -> None:
    """Totals that a crash tore, or of an older shape, stop nobody."""
    folder = places.default_folder(tmp_path)
    folder.mkdir()
    (folder / takeover.TOTALS).write_bytes(content)
    before = read_totals(tmp_path).processes
    bury_at(dead_ledger(tmp_path, {}), tmp_path)
    assert read_totals(tmp_path).processes == before + 1
