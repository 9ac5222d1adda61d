"""The only way a file grows: open, lock, check inode and tail, write whole lines, unlock; then sync.

Blocking, one function from paths and lines to bytes on disk; a worker calls it. The lock is the file's own
descriptor, taken without blocking in a loop here: a blocking `flock` has no time limit, and the library's own
loop polls too seldom, so that writers starve behind one that syncs inside. A line that was begun and cannot be
finished is cut off again; a tail that somebody else left without its LF gets one, so the next line stands alone.
Lines of calls that a fence holds back, because their rollout was cleared, are left out.
"""

import errno
import os
import random
import time
from collections.abc import Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from filelock import lock_descriptor, unlock_descriptor

from .buffers import Buffers
from .fences import outside
from .gaps import LINE_START, LINE_START_BYTES, call_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_WAIT_S = 0.001
LONGEST_WAIT_S = 0.02
"""A writer holds a file's lock for well under a millisecond, so waits start short and stay short."""
REOPEN_TRIES = 20
"""A path replaced so often between open and lock is being fought over; the fault is reported instead."""
_READ_BYTES = 1 << 20


class Busy(Exception):  # noqa: N818 - it is not an error: the file's turn comes later
    """The file's lock was not free in time."""


class Appended(NamedTuple):
    """A descriptor that is still to be synced and closed, and whether the file was made by this."""

    descriptor: int
    created: bool


def append(
    path: Path, lines: Sequence[bytes], *, mode: int, patience_s: float, resent: bool = False
) -> Appended:
    """Append whole lines to `path` under its lock; they are durable once the answer's descriptor is synced.

    `lines` carry no LF; each begins with its call id where `resent` is set: those whose call is in the file
    already, whole, are skipped. So are always those of a run that was cleared. Raises `Busy` where the lock was not
    free within `patience_s` seconds, and OSError where the file cannot be opened or written; then it is as it was.
    """
    descriptor, created = open_locked(path, mode, patience_s)
    try:
        lines = outside(path, lines)
        if resent:
            _end_tail(descriptor)
            wanted = {call_id for line in lines if (call_id := call_id_of(line))}
            present = find_calls(descriptor, wanted)
            lines = [line for line in lines if call_id_of(line) not in present]
        _write_whole(descriptor, lines)
        if created and not lines:
            path.unlink(missing_ok=True)
    except BaseException:
        if created:
            path.unlink(missing_ok=True)  # an empty gap file would say that something is missing
        os.close(descriptor)
        raise
    unlock_descriptor(descriptor)
    return Appended(descriptor, created)


def open_locked(path: Path, mode: int, patience_s: float) -> Appended:
    """Open `path` for appending, creating it, and lock it; the path still names what was locked."""
    for _ in range(REOPEN_TRIES):
        opened = _open(path, mode)
        if opened is None:
            continue
        descriptor, created = opened
        try:
            _lock(descriptor, patience_s)
            if _is_still(path, descriptor):
                return Appended(descriptor, created)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(errno.ESTALE, "the file is replaced faster than it can be locked", str(path))


def _open(path: Path, mode: int) -> Appended | None:
    """Open a file, never through a link, making it if need be; None where it came and went meanwhile."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return Appended(os.open(path, flags), created=False)
    except FileNotFoundError:
        try:
            return Appended(os.open(path, flags | os.O_CREAT | os.O_EXCL, mode), created=True)
        except FileExistsError:
            with suppress(FileNotFoundError):
                return Appended(os.open(path, flags), created=False)
    return None


def find_calls(descriptor: int, wanted: Iterable[str]) -> set[str]:
    """Return which of these call ids have a whole, readable line in the file.

    Reads it once, from its start to the last of them.
    """
    missing = set(wanted)
    found: set[str] = set()
    starts = _line_starts(descriptor) if missing else iter(())
    for at, call_id in starts:
        if call_id in missing and _is_whole(descriptor, at):
            found.add(call_id)
            missing.discard(call_id)
            if not missing:
                break
    return found


def sync_directory(directory: Path) -> None:
    """Make new names in a directory durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, mode: int, patience_s: float) -> "Iterator[int]":
    """Hold a file's lock for a block; the descriptor is closed, and so unlocked, at its end."""
    descriptor, _ = open_locked(path, mode, patience_s)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, patience_s: float) -> None:
    """Take the lock within `patience_s`, polling by 1 ms, doubling to 20 ms, jittered. Raises Busy, OSError."""
    deadline = time.monotonic() + patience_s
    wait = FIRST_WAIT_S
    while not lock_descriptor(descriptor, blocking=False):
        if time.monotonic() >= deadline:
            raise Busy
        time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
        wait = min(wait * 2, LONGEST_WAIT_S)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (there.st_ino, there.st_dev) == (mine.st_ino, mine.st_dev)


def _end_tail(descriptor: int) -> None:
    """Give a tail its LF: a whole line that a crash left without one is then found, not written twice."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")


def _write_whole(descriptor: int, lines: Sequence[bytes]) -> None:
    """Write lines behind a tail that ends in LF, all or none."""
    if not lines:
        return
    size = os.fstat(descriptor).st_size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    ended = [part for line in lines for part in (line, b"\n")]
    left = Buffers([b"\n", *ended] if torn else ended)
    try:
        while left:
            left.wrote(os.writev(descriptor, left.run()))
    except BaseException:
        os.ftruncate(descriptor, size)
        raise


def _line_starts(descriptor: int) -> "Iterator[tuple[int, str]]":
    """Yield the offset and call id of each line that begins with one, reading by the megabyte.

    Bodies are megabytes and ids a few bytes, so the text is searched, not split: 600 MB in 0.1 s.
    """
    tail, at = b"\n", 0
    while block := os.pread(descriptor, _READ_BYTES, at):
        text = tail + block
        found = text.find(LINE_START)
        while found >= 0:
            call_id = call_id_of(text[found + 1 : found + 1 + LINE_START_BYTES])
            if call_id is not None:
                yield at - len(tail) + found + 1, call_id
            found = text.find(LINE_START, found + 1)
        tail = text[-LINE_START_BYTES:]
        at += len(block)


def _is_whole(descriptor: int, at: int) -> bool:
    """Whether the line at an offset has its LF and is JSON: a torn one may have got its LF from a later append."""
    parts: list[bytes] = []
    while block := os.pread(descriptor, _READ_BYTES, at):
        line, end, _ = block.partition(b"\n")
        parts.append(line)
        if end:
            return _is_readable(b"".join(parts))
        at += len(block)
    return False


def _is_readable(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True
