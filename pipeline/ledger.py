"""The account of every exchange of this server process, in memory that other processes can read.

The request path calls `open` (takes a slot) and stores single bytes; everything else is the pipeline's thread:
counting, freeing, adding a segment when three quarters are taken, making a new file when somebody removed the old
one. Free slots are last in, first out, so few pages are touched. Files are made at full size before they are
mapped; where that fails a smaller one is tried, then anonymous memory, which no reader can see.

The lock on the first segment's descriptor says that somebody may still write for this ledger: workers inherit it.
It is never unlocked, only closed.
"""

import os
import secrets
from contextlib import suppress
from mmap import MAP_SHARED, PROT_READ, PROT_WRITE, mmap
from pathlib import Path

import msgspec
from filelock import lock_descriptor

from . import places, slots
from .log import log
from .settings import PipelineSettings, ServerIdentity
from .slots import Slot

SEGMENT_SLOTS = (4096, 512, 64)
"""First the size that carries 4,096 calls at once in 1 MiB; then what fits on an almost full file system."""
SLOTS_MAX = 1 << 17
"""Beyond 131,072 calls at once (32 MiB) a call is captured all the same, and counted `unslotted`."""
_POPULATE = getattr(__import__("mmap"), "MAP_POPULATE", 0)


class Segment:
    """One mapped file of a ledger, or a piece of anonymous memory."""

    def __init__(self, view: mmap, size: int, path: Path | None, descriptor: int | None) -> None:
        self.view = view
        self.slots = size
        self.path = path
        self.descriptor = descriptor
        self.all = [Slot(view, index, size) for index in range(size)]

    def gone(self) -> bool:
        """Whether somebody removed or replaced the file under the map."""
        if self.path is None or self.descriptor is None:
            return False
        try:
            there = self.path.stat()
        except OSError:
            return True
        return there.st_ino != os.fstat(self.descriptor).st_ino

    def busy(self) -> bool:
        """Whether a call in this segment is not finished."""
        return any(slot.state != slots.FREE for slot in self.all)

    def close(self) -> None:
        """Close map and descriptor; never unlocks."""
        self.view.close()
        if self.descriptor is not None:
            os.close(self.descriptor)

    def discard(self) -> None:
        """Remove a file that was made in a place where no reader would find it."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        self.close()


def new_identity(settings: PipelineSettings) -> ServerIdentity:
    """Name this server process; the instance is new for each process and each start of a pipeline."""
    return ServerIdentity(
        name=settings.server_name, instance=secrets.token_hex(6), host=places.host_name(), pid=os.getpid()
    )


class Ledger:
    """Owner's side of one ledger. Only one thread (the pipeline's) may call what is not `open`."""

    def __init__(self, settings: PipelineSettings, identity: ServerIdentity) -> None:
        self.identity = identity
        self._settings = settings
        self._directory = Path(settings.directory)
        self._base = f"{identity.host}-{places.boot_id()}-{identity.pid}-{identity.instance}.ledger"
        self._announcement: int | None = None
        self.segments: list[Segment] = []
        self._lost: list[Segment] = []
        self._maps: set[mmap] = set()
        self.free: list[Slot] = []
        self._capacity = 0
        self.counts = dict.fromkeys(slots.COUNTERS, 0)
        self._add(self._first_segment())

    @property
    def path(self) -> Path | None:
        """The first segment's file; None for anonymous memory."""
        return self.segments[0].path

    @property
    def lock_descriptor(self) -> int | None:
        """The descriptor whose lock says that this ledger is written for; workers inherit it."""
        return self.segments[0].descriptor

    @property
    def in_use(self) -> int:
        """How many slots hold a call that is not finished and counted."""
        return self._capacity - len(self.free)

    def open(self, call_id: bytes, started_at: float, stem: bytes) -> Slot | None:
        """Take a slot for a call that starts now, or None when all are taken. The request path's one call."""
        try:
            slot = self.free.pop()
        except IndexError:
            return None
        slot.occupy(call_id, started_at, stem)
        return slot

    def finish(self, slot: Slot | None, state: int) -> None:
        """Count a call's end and give its slot back. `state` is committed, dropped, failed or skipped."""
        if slot is None:
            self.count("unslotted")
            self.count(slots.STATE_NAMES[state])
            return
        slot.mark(state)
        self.count(slots.STATE_NAMES[state])
        slot.mark(slots.FREE)
        if slot.map in self._maps:
            self.free.append(slot)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a counter, here and in the map."""
        self.publish(name, self.counts[name] + more)

    def publish(self, name: str, value: int) -> None:
        """Set a counter, here and in the map; once the map is closed, only here."""
        self.counts[name] = value
        with suppress(ValueError):
            slots.write_counter(self.segments[0].view, name, value)

    def started(self) -> int:
        """Return how many calls ever started here: every use of a slot, and the unslotted ones."""
        return self._uses() + self.counts["unslotted"] + self.counts["carried"]

    def states(self) -> dict[str, int]:
        """Return how many slots are in each state now, by name, lost files included."""
        held = [slot.state for segment in self.segments + self._lost for slot in segment.all]
        return {name: held.count(state) for state, name in enumerate(slots.STATE_NAMES)}

    def grow_if_needed(self) -> None:
        """Add a segment once three quarters of all slots are taken."""
        if len(self.free) * 4 > self._capacity or self._capacity >= SLOTS_MAX:
            return
        first = self.segments[0]
        path = first.path and first.path.with_name(f"{first.path.name}.{len(self.segments)}")
        number = len(self.segments)
        made = self._make(path, number) if path else None
        self._add(made or self._anonymous(number))

    def gone(self) -> bool:
        """Whether any of this ledger's files was removed from under it."""
        return any(segment.gone() for segment in self.segments)

    def move(self) -> None:
        """Go on in new files after somebody removed the old ones.

        Calls that are in the lost maps are finished there, unseen by readers; what started there is carried over.
        """
        self.counts["carried"] += self._uses()
        self._lost = [segment for segment in self._lost + self.segments if segment.busy()]
        self.segments, self._maps, self._capacity = [], set(), 0
        self.free = []
        self._add(self._first_segment())
        for name, value in self.counts.items():
            self.publish(name, value)

    def close(self) -> None:
        """Close everything, as the child of a fork or at the end; nothing is unlocked or unlinked."""
        for segment in self.segments + self._lost:
            segment.close()
        if self._announcement is not None:
            os.close(self._announcement)

    def unlink(self) -> None:
        """Remove the files of a ledger with nothing left to account for."""
        for segment in reversed(self.segments):
            if segment.path is not None:
                segment.path.unlink(missing_ok=True)
        places.announcement(self._directory, self._base).unlink(missing_ok=True)

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._maps.add(segment.view)
        self._capacity += segment.slots
        self.free[:0] = reversed(segment.all)

    def _uses(self) -> int:
        return sum(slot.generation for segment in self.segments for slot in segment.all)

    def _first_segment(self) -> Segment:
        """Try each folder at each size, then fall back to memory that no reader sees."""
        for folder in places.candidates(self._directory, self._settings.state_directory):
            try:
                places.make_private(folder, self._settings.directory_mode)
            except OSError as error:
                log.warning("ledger_folder_refused", folder=str(folder), error=str(error))
                continue
            made = self._make(folder / self._base, 0)
            if made is not None and self._announce(folder):
                return made
            if made is not None:
                made.discard()
        log.warning(
            "ledger_anonymous", reason="no file could be made; settle calls this server unaccountable"
        )
        self._announce(None)
        return self._anonymous(0)

    def _announce(self, folder: Path | None) -> bool:
        """Name this ledger where readers look, unless it is there already; False where that failed."""
        if folder == places.default_folder(self._directory):
            return True
        content = places.ANONYMOUS if folder is None else str(folder)
        mode = self._settings.directory_mode
        try:
            descriptor = places.announce(self._directory, self._base, content, mode)
            lock_descriptor(descriptor, blocking=False)
        except OSError as error:
            log.warning("ledger_not_announced", error=str(error))
            return False
        self._announcement = descriptor
        return True

    def _make(self, path: Path, number: int) -> Segment | None:
        """Make a segment file of the largest size that can be had; None where none can."""
        for size in SEGMENT_SLOTS:
            try:
                return self._make_sized(path, number, size)
            except OSError as error:
                log.info("ledger_size_refused", path=str(path), slots=size, error=str(error))
        return None

    def _make_sized(self, path: Path, number: int, size: int) -> Segment:
        """Allocate, map, fill, lock, then rename: what readers can see is whole and locked."""
        temporary = path.with_name(f".{path.name}.{number}.making")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, slots.file_bytes(size))
            view = mmap(
                descriptor,
                slots.file_bytes(size),
                flags=MAP_SHARED | _POPULATE,
                prot=PROT_READ | PROT_WRITE,
            )
            slots.write_header(view, size, number, msgspec.json.encode(self.identity))
            lock_descriptor(descriptor, blocking=False)
            temporary.rename(path)
        except BaseException:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            raise
        return Segment(view, size, path, descriptor)

    def _anonymous(self, number: int) -> Segment:
        view = mmap(-1, slots.file_bytes(SEGMENT_SLOTS[0]))
        slots.write_header(view, SEGMENT_SLOTS[0], number, msgspec.json.encode(self.identity))
        return Segment(view, SEGMENT_SLOTS[0], None, None)
