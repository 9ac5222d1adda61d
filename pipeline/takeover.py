"""A ledger without an owner: its unfinished calls are looked up in their files, and what is not there is a gap.

The files are the truth and the ledger lags behind them, so a call that is `accepted` in a dead ledger is usually on
disk. Gaps are written and synced first, then the counters join the retired totals, then the ledger goes; a crash in
between costs nothing, because gaps are keyed by call id and the totals remember whom they counted. Where the
directory cannot be written, the same gaps are computed and returned.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from . import places, slots
from .account import Call, LedgerView, gap_of, ledger_paths
from .append import Busy, append, find_calls, locked, sync_directory
from .fences import read_fence
from .gaps import LOST, Gap, gap_line, gap_path, record_path
from .ledger import Ledger
from .log import log

TOTALS = "retired.json"
TOTALS_LOCK = "retired.lock"
PATIENCE_S = 5.0
FILE_MODE = 0o600
LEFT = (*slots.UNFINISHED, slots.DROPPED, slots.FAILED)
SUMMED = (
    "started",
    "committed",
    "dropped",
    "failed",
    "skipped",
    "unslotted",
    "captured_bytes",
    "annotations",
    "uncorrelated_skipped",
    "capture_errors",
)


class Totals(msgspec.Struct):
    """What all server processes that ended have counted; `counted` are ledgers that may still be there after that."""

    counted: list[str] = []
    processes: int = 0
    lost: int = 0
    counts: dict[str, int] = {}


def bury(ledger: LedgerView, directory: Path) -> dict[str, list[Gap]] | None:
    """Take a dead ledger over, or leave it to whoever did already; return the gaps by stem.

    None for one that may still be written for, or that another host or an earlier boot left: its lock says nothing
    here; and for one whose calls cannot be looked up now. The file stays where the directory cannot be written. Of
    one that is gone (another reader took it over, or a person removed it) the calls are looked up all the same.
    """
    if not ledger.here or not ledger.try_lock():
        return None
    try:
        gone = ledger.gone
        return missing_calls(ledger.calls(LEFT), directory) if gone else take_over(ledger, directory)
    except OSError as error:
        log.warning("ledger_not_retired", ledger=str(ledger.path), error=str(error))
        return None
    finally:
        ledger.unlock()


def take_over(ledger: LedgerView, directory: Path) -> dict[str, list[Gap]]:
    """Account for a dead ledger whose lock the caller holds; return the gaps by stem.

    Writes them, adds to the totals and removes the ledger where it may. Raises OSError where a file that is there
    cannot be read, for then nobody knows what is missing.
    """
    gaps = missing_calls(ledger.calls(LEFT), directory)
    try:
        for stem, found in gaps.items():
            _write_gaps(directory, stem, found)
        if gaps:
            sync_directory(directory)
        lost = sum(gap.code == LOST for found in gaps.values() for gap in found)
        add_to_totals(directory, ledger.path.name, _closing_counts(ledger, gaps), lost)
        ledger.unlink()
        places.announcement(directory, ledger.path.name).unlink(missing_ok=True)
    except (OSError, Busy) as error:
        log.warning("ledger_not_retired", ledger=str(ledger.path), error=_text(error))
    return gaps


def missing_calls(calls: Iterable[Call], directory: Path) -> dict[str, list[Gap]]:
    """Return the calls that are in no file, as gaps by stem; those of a cleared run are none. Raises OSError."""
    by_stem: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_stem[call.view.stem].append(call)
    gaps = {}
    for stem, group in by_stem.items():
        held = read_fence(directory, stem)
        wanted = {call.view.call_id.hex(): call for call in group if call.view.call_id.hex() not in held}
        present = _present(record_path(directory, stem), set(wanted))
        missing = [gap_of(call) for call_id, call in wanted.items() if call_id not in present]
        if missing:
            gaps[stem] = missing
    return gaps


def retire_own(ledger: Ledger, directory: Path) -> None:
    """Retire this process's own ledger at its end, unless a call in it is not accounted for."""
    if any(segment.busy() for segment in ledger.segments) or ledger.path is None or ledger.gone():
        return
    counts = {name: ledger.counts.get(name, 0) for name in SUMMED} | {"started": ledger.started()}
    try:
        add_to_totals(directory, ledger.path.name, counts, 0)
        ledger.unlink()
    except (OSError, Busy) as error:
        log.warning("ledger_not_retired", ledger=str(ledger.path), error=_text(error))


def add_to_totals(directory: Path, name: str, counts: dict[str, int], lost: int) -> None:
    """Add an ended process's counters, once also where this was done before a crash. Raises OSError, Busy."""
    folder = places.default_folder(directory)
    folder.mkdir(mode=0o700, exist_ok=True)
    with locked(folder / TOTALS_LOCK, FILE_MODE, PATIENCE_S):
        totals = _totals(directory)
        if name in totals.counted:
            return
        there = {path.name for path in ledger_paths(directory)}
        totals.counted = [each for each in totals.counted if each in there] + [name]
        totals.processes += 1
        totals.lost += lost
        for key in SUMMED:
            totals.counts[key] = totals.counts.get(key, 0) + counts.get(key, 0)
        temporary = folder / f".{TOTALS}.making"
        temporary.touch(mode=FILE_MODE)
        temporary.write_bytes(msgspec.json.encode(totals))
        temporary.replace(folder / TOTALS)


def read_totals(directory: Path) -> Totals:
    """Return the totals of the processes that ended; all zero where there are none."""
    try:
        return _totals(directory)
    except OSError:
        return Totals()


def _totals(directory: Path) -> Totals:
    """Read the totals; zero where there are none yet or a crash tore them. Raises OSError."""
    try:
        return msgspec.json.decode((places.default_folder(directory) / TOTALS).read_bytes(), type=Totals)
    except (FileNotFoundError, msgspec.MsgspecError):
        return Totals()


def _text(error: Exception) -> str:
    return "its lock is held" if isinstance(error, Busy) else str(error)


def _present(path: Path, wanted: set[str]) -> set[str]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return set()
    try:
        return find_calls(descriptor, wanted)
    finally:
        os.close(descriptor)


def _write_gaps(directory: Path, stem: str, gaps: list[Gap]) -> None:
    """Append gap lines and sync them; those that are there already are left out."""
    made = append(
        gap_path(directory, stem),
        [gap_line(gap) for gap in gaps],
        mode=FILE_MODE,
        patience_s=PATIENCE_S,
        resent=True,
    )
    try:
        os.fsync(made.descriptor)
    finally:
        os.close(made.descriptor)


def _closing_counts(ledger: LedgerView, gaps: dict[str, list[Gap]]) -> dict[str, int]:
    """Return the counters with every unfinished call counted as what it turned out to be."""
    counts = ledger.counters()
    named = [gap.code for found in gaps.values() for gap in found]
    unfinished = sum(counts.get(slots.STATE_NAMES[state], 0) for state in slots.UNFINISHED)
    counts["failed"] += named.count(LOST)
    counts["committed"] += unfinished - named.count(LOST)
    return counts
