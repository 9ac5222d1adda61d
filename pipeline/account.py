"""The reader's side of all ledgers of a capture directory: who is there, what is in flight, who is dead.

Any process of the host may read. A ledger whose lock is free has no writer left, neither its server process nor a
worker of it, and is taken over. Another host's, or an earlier boot's, is only reported: its lock says nothing here.
"""

import os
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

import msgspec
from filelock import lock_descriptor, unlock_descriptor

from . import places, slots
from .exhausted import raise_if_exhausted
from .fences import Fences
from .gaps import DROPPED, FAILED, LOST, Gap
from .settings import ServerIdentity
from .slots import SlotView

LEDGER_SUFFIX = ".ledger"
_CODES = {slots.DROPPED: DROPPED, slots.FAILED: FAILED}


class Call(NamedTuple):
    """One slot of one ledger, named so that it can be looked at again."""

    segment: int
    view: SlotView

    def held_by(self, fences: Fences) -> bool:
        """Whether its rollout was cleared, so that it belongs to no run any more."""
        return fences.hold(self.view.stem, self.view.call_id.hex())


class LedgerView:
    """One server process's ledger, read-only. Close it."""

    def __init__(self, path: Path, descriptor: int, maps: list[mmap]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._maps = maps
        self._headers = [slots.read_header(view) for view in maps]
        self._closed = False
        self.identity = msgspec.json.decode(self._headers[0].identity, type=ServerIdentity)

    @classmethod
    def open(cls, path: Path) -> "LedgerView | None":
        """Open a ledger file; None where it is gone, not whole, or not to be read. Raises OSError if exhausted."""
        try:
            return cls._opened(path)
        except (ValueError, msgspec.MsgspecError):
            return None
        except OSError as error:
            raise_if_exhausted(error)
            return None

    @classmethod
    def _opened(cls, path: Path) -> "LedgerView":
        maps: list[mmap] = []
        descriptor = _open(path)
        try:
            maps.append(mmap(descriptor, 0, access=ACCESS_READ))
            _map_segments(path, maps)
            return cls(path, descriptor, maps)
        except BaseException:
            for view in maps:
                view.close()
            os.close(descriptor)
            raise

    @property
    def here(self) -> bool:
        """Whether its lock means something to this process: same host, same boot."""
        return self.path.name.startswith(f"{places.host_name()}-{places.boot_id()}-")

    @property
    def gone(self) -> bool:
        """Whether the file was removed meanwhile."""
        try:
            return self.path.stat().st_ino != os.fstat(self._descriptor).st_ino
        except OSError:
            return True

    def try_lock(self) -> bool:
        """Take the lock of a dead ledger, and look at all of it; False while anyone may still write for it."""
        try:
            if not lock_descriptor(self._descriptor, blocking=False):
                return False
        except OSError:
            return False
        try:
            self._look_for_more()
        except (OSError, ValueError):
            self.unlock()
            return False
        return True

    def _look_for_more(self) -> None:
        """Map the segments that came since this was opened. Raises OSError, ValueError; then all is as it was."""
        maps = list(self._maps)
        try:
            if not self.gone:
                _map_segments(self.path, maps)
            self._headers = [slots.read_header(view) for view in maps]
        except BaseException:
            for view in maps[len(self._maps) :]:
                view.close()
            raise
        self._maps = maps

    def unlock(self) -> None:
        """Give the lock back, for another reader to take over."""
        unlock_descriptor(self._descriptor)

    def calls(self, states: tuple[int, ...]) -> Iterator[Call]:
        """Yield the calls that are in one of `states` now."""
        for number, (view, header) in enumerate(zip(self._maps, self._headers, strict=True)):
            for seen in slots.read_slots(view, header.slots, states):
                yield Call(number, seen)

    def still(self, call: Call, states: tuple[int, ...]) -> SlotView | None:
        """Return a call's slot as it is now, if it still is this call and in one of `states`."""
        header = self._headers[call.segment]
        seen = slots.read_still(self._maps[call.segment], header.slots, call.view.number)
        if seen is None:
            return None
        same = seen.generation == call.view.generation
        return seen if same and seen.state in states else None

    def counters(self) -> dict[str, int]:
        """Return the counters, with `started` and the number of slots in each unfinished state."""
        counts = dict(slots.read_header(self._maps[0]).counters)
        uses = sum(
            slots.generations(view, header.slots)
            for view, header in zip(self._maps, self._headers, strict=True)
        )
        counts["started"] = uses + counts["unslotted"] + counts["carried"]
        columns = [
            slots.count_states(view, header.slots)
            for view, header in zip(self._maps, self._headers, strict=True)
        ]
        for state in (*slots.UNFINISHED, slots.DROPPED, slots.FAILED, slots.SKIPPED, slots.COMMITTED):
            held = sum(column[state] for column in columns)
            name = slots.STATE_NAMES[state]
            counts[name] = counts.get(name, 0) + held
        return counts

    def unlink(self) -> None:
        """Remove the ledger's files; the first one last, for its lock is held."""
        for number in range(len(self._maps) - 1, 0, -1):
            _segment_path(self.path, number).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close maps and descriptor, once; a lock taken here is free again."""
        if self._closed:
            return
        self._closed = True
        for view in self._maps:
            view.close()
        os.close(self._descriptor)


def ledger_paths(directory: Path) -> list[Path]:
    """Return the ledger files of a capture directory, wherever they are. Raises OSError if exhausted."""
    folders = {places.default_folder(directory)}
    folders |= {Path(text) for text in places.announced(directory).values() if text.startswith("/")}
    return sorted(path for folder in folders for path in _ledgers_in(folder))


def _ledgers_in(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.name.endswith(LEDGER_SUFFIX)]
    except OSError as error:
        raise_if_exhausted(error)
        return []


def held_gaps(directory: Path, stem: str | None = None) -> list[tuple[str, Gap]]:
    """Return the dropped and failed calls whose gap line is still on its way to its file, with their stems."""
    found: list[tuple[str, Gap]] = []
    fences = Fences(directory)
    for path in ledger_paths(directory):
        if (ledger := LedgerView.open(path)) is None:
            continue
        calls = ledger.calls((slots.DROPPED, slots.FAILED))
        found += [
            (call.view.stem, gap_of(call))
            for call in calls
            if stem in (None, call.view.stem) and not call.held_by(fences)
        ]
        ledger.close()
    return found


def gap_of(call: Call) -> Gap:
    """Return a call that is in no file as a gap: by its state dropped or failed, else lost."""
    view = call.view
    code = _CODES.get(view.state, LOST)
    return Gap(model_call_id=view.call_id.hex(), code=code, started_at=round(view.started_at, 6))


def anonymous_servers(directory: Path) -> list[str]:
    """Return the names of living server processes whose ledger cannot be read from here.

    It has no file, or is in the memory of another host that shares the directory. Dead ones are cleared away.
    """
    announced = places.announced(directory)
    names = [name for name, text in announced.items() if not os.path.lexists(Path(text, name))]
    return [name for name in names if not _cleared(places.announcement(directory, name))]


def _cleared(path: Path) -> bool:
    """Remove an announcement whose lock is free; whether it is gone."""
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        free = lock_descriptor(descriptor, blocking=False)
        if free:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return free


def _open(path: Path) -> int:
    """Open for reading and writing (some file systems lock no other way), else for reading."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


def _segment_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _map_segments(path: Path, maps: list[mmap]) -> None:
    """Map the segments that were added to those in `maps`, as far as they are there. Raises OSError, ValueError."""
    while True:
        try:
            descriptor = os.open(_segment_path(path, len(maps)), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        try:
            maps.append(mmap(descriptor, 0, access=ACCESS_READ))
        finally:
            os.close(descriptor)
