"""One mapped file of a ledger: made whole and locked before a reader can see it.

Files are made at full size before they are mapped, for a page that the disk cannot back is a SIGBUS in the user's
server; where that fails a smaller one is tried. The map holds the lock too, through a descriptor of its own.
"""

import os
from collections.abc import Iterable
from mmap import MAP_SHARED, PROT_READ, PROT_WRITE, mmap
from pathlib import Path

import msgspec
from filelock import lock_descriptor

from . import slots
from .log import log
from .settings import ServerIdentity
from .slots import Slot

SEGMENT_SLOTS = (4096, 512, 64)
"""First the size that carries 4,096 calls at once in 1 MiB; then what fits on an almost full file system."""
_POPULATE = getattr(__import__("mmap"), "MAP_POPULATE", 0)


class Segment:
    """One mapped file of a ledger, or a piece of anonymous memory."""

    def __init__(self, view: mmap, size: int, path: Path | None, descriptor: int | None) -> None:
        self.view = view
        self.slots = size
        self.path = path
        self.descriptor = descriptor
        self._at_rest = -1
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

    def in_motion(self) -> bool:
        """Whether a call is in this segment, or one was taken since the last time this was asked."""
        before, self._at_rest = self._at_rest, uses([self])
        return self.busy() or self._at_rest != before

    def forsake(self) -> None:
        """Remove what is left of files that are given up, so that no reader takes them for the new one's."""
        try:
            if self.path is not None:
                self.path.unlink(missing_ok=True)
        except OSError as error:
            log.info("ledger_not_removed", path=str(self.path), error=str(error))

    def let_go(self) -> None:
        """Close the descriptor; the map goes with the last slot that somebody holds."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close map and descriptor, once; never unlocks."""
        self.view.close()
        self.let_go()

    def discard(self) -> None:
        """Remove a file that was made in a place where no reader would find it."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        self.close()


def uses(segments: Iterable[Segment]) -> int:
    """Return how often slots of these segments were taken."""
    return sum(slot.generation for segment in segments for slot in segment.all)


def make(path: Path, number: int, identity: ServerIdentity) -> Segment | None:
    """Make a segment file of the largest size that can be had; None where none can."""
    for size in SEGMENT_SLOTS:
        try:
            return _make_sized(path, number, size, identity)
        except OSError as error:
            log.info("ledger_size_refused", path=str(path), slots=size, error=str(error))
    return None


def anonymous(number: int, identity: ServerIdentity) -> Segment:
    """Make a segment in memory that no reader sees."""
    size = SEGMENT_SLOTS[0]
    view = mmap(-1, slots.file_bytes(size))
    slots.write_header(view, size, number, msgspec.json.encode(identity))
    return Segment(view, size, None, None)


def _make_sized(path: Path, number: int, size: int, identity: ServerIdentity) -> Segment:
    """Allocate, map, fill, lock, then rename: what readers can see is whole and locked."""
    temporary = path.with_name(f".{path.name}.{number}.making")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _allocate(descriptor, slots.file_bytes(size))
        view = mmap(
            descriptor, slots.file_bytes(size), flags=MAP_SHARED | _POPULATE, prot=PROT_READ | PROT_WRITE
        )
        slots.write_header(view, size, number, msgspec.json.encode(identity))
        lock_descriptor(descriptor, blocking=False)
        temporary.rename(path)
    except BaseException:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        raise
    return Segment(view, size, path, descriptor)


def _allocate(descriptor: int, size: int) -> None:
    """Have the disk promise every page. Raises OSError; where the system has no such call, zeros are written."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.pwrite(descriptor, bytes(size), 0)
