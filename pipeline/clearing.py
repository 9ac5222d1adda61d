"""Clear: remove a rollout's files so that nothing of the calls that started before comes back.

Under the record file's lock, which every append takes, the unfinished calls are read off the ledgers and fenced, and
the file is unlinked. Each call that had started by then is either in the file that goes, or behind the fence: an
append that waits for the lock finds another inode, opens the path anew, and looks at the fence before it writes. The
files of gaps and late notes go in between, each under its own lock too. A fence goes once no ledger has its calls.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from . import places, slots
from .account import Call, LedgerView, anonymous_servers, ledger_paths
from .append import Busy, locked, sync_directory
from .fences import as_text, folder_of, read_fence
from .gaps import SUFFIXES, gap_path, note_path, record_path
from .unreadable import unreadable_ledgers

LEFT = (*slots.UNFINISHED, slots.DROPPED, slots.FAILED)
"""A call in one of these states may still get a line, of its own or as a gap."""
PATIENCE_S = 5.0
FILE_MODE = 0o600
FENCE_MODE = 0o644
"""Ids only, and the servers' user must be able to read them whoever clears."""
FENCES_LOCK = "fences.lock"


class Cleared(msgspec.Struct, frozen=True):
    """What a clear did.

    `removed` are the rollouts that had files or calls on their way; `fenced` the ids of the calls that had started
    and were not finished in time: they go on, and are recorded nowhere. `unaccountable` names the server processes
    whose calls cannot be seen from here (another host's or user's, or one without a ledger file): a call of theirs
    that was on its way may still come.
    """

    removed: tuple[str, ...] = ()
    fenced: tuple[str, ...] = ()
    unaccountable: tuple[str, ...] = ()


def unfinished(directory: Path) -> dict[str, set[str]]:
    """Return the ids of the calls that may still get a line, by stem. Raises OSError if exhausted."""
    found: dict[str, set[str]] = {}
    for call in _calls_left(directory):
        found.setdefault(call.view.stem, set()).add(call.view.call_id.hex())
    return found


def unaccountable(directory: Path) -> list[str]:
    """Return the server processes whose calls cannot be seen from here, and so cannot be fenced."""
    return anonymous_servers(directory) + unreadable_ledgers(directory)


def present(directory: Path, stems: Iterable[str]) -> list[str]:
    """Return those of `stems` that have files, or calls that may still get a line. Raises OSError if exhausted."""
    left = unfinished(
        directory
    )  # first: a call that is finished now has its line in a file that is there below
    return [
        stem
        for stem in stems
        if stem in left or any((directory / (stem + suffix)).exists() for suffix in SUFFIXES)
    ]


def clear(directory: Path, stem: str) -> set[str]:
    """Fence a rollout's unfinished calls and remove its files; return the calls' ids.

    Raises OSError where the directory or its `.pipeline` cannot be written, or a lock is not free in 5 s.
    """
    try:
        with locked(record_path(directory, stem), FILE_MODE, PATIENCE_S):
            ids = unfinished(directory).get(stem, set())
            _fence(directory, stem, ids)
            for path in (gap_path(directory, stem), note_path(directory, stem)):
                if path.exists():
                    with locked(path, FILE_MODE, PATIENCE_S):
                        path.unlink()
            record_path(directory, stem).unlink()
    except Busy as busy:
        raise TimeoutError(f"a file of {stem} in {directory} was locked for {PATIENCE_S:.0f} s") from busy
    return ids


def end_clear(directory: Path) -> None:
    """Make removals durable, and take down the fences whose calls are all finished. Raises OSError."""
    sync_directory(directory)
    if not folder_of(directory).is_dir() or unaccountable(directory):
        return
    with locked(places.default_folder(directory) / FENCES_LOCK, FILE_MODE, PATIENCE_S):
        there = [path for path in folder_of(directory).iterdir() if not path.name.startswith(".")]
        left = {call.view.call_id.hex() for call in _calls_left(directory)}
        for path in there:
            if left.isdisjoint(read_fence(directory, path.name)):
                path.unlink(missing_ok=True)


def _calls_left(directory: Path) -> Iterator[Call]:
    for path in ledger_paths(directory):
        if (ledger := LedgerView.open(path)) is not None:
            with closing(ledger):
                yield from ledger.calls(LEFT)


def _fence(directory: Path, stem: str, ids: Iterable[str]) -> None:
    """Add calls to a rollout's fence; whoever reads it meanwhile sees the old one or the new one, whole."""
    held = read_fence(directory, stem) | set(ids)
    if not held:
        return
    folder = folder_of(directory)
    places.make_folders(folder, 0o700)
    with locked(places.default_folder(directory) / FENCES_LOCK, FILE_MODE, PATIENCE_S):
        making = folder / f".{stem}.making"
        making.write_text(as_text(held), encoding="ascii")
        making.chmod(FENCE_MODE)
        making.replace(folder / stem)
