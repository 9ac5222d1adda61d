"""A worker's hands: the files whose turn it is are appended to, synced together, and their lines' fate told.

Nothing is answered as committed before its own file is synced. A file whose lock is not free or whose write fails is
set aside and tried again while the others go on; after `lock_timeout_ms` its lines are answered as failed, with the
fault. A fault that no waiting mends (a file system without locks, a link in the file's place) fails at once.
"""

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import frames
from .append import Appended, Busy, append, sync_directory
from .batch import Batch, Line
from .frames import Answer
from .log import Repeated
from .settings import PipelineSettings

SYNC_THREADS = 8
"""Files of one batch are synced side by side: 100 files at 20 ms take 0.3 s instead of 2."""
PATIENCE_S = 0.05
"""How long one file's lock is waited for while other files have their turn behind it."""
HOPELESS = frozenset(
    {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.ELOOP, errno.EISDIR, errno.ENAMETOOLONG, errno.EBADF}
)


class Writer:
    """Writes batches into one directory."""

    def __init__(self, settings: PipelineSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = Path(settings.directory)
        self._file_mode = settings.file_mode
        self._directory_mode = settings.directory_mode
        self._sync = settings.fsync == "batch"
        self._limit_s = settings.lock_timeout_ms / 1000
        self._clock = clock
        self._said = Repeated()
        self._pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="model-call-capture-sync")

    def write_due(self, batch: Batch) -> list[Answer]:
        """Write the files whose turn it is; return the fate of each line that has one now."""
        answers: list[Answer] = []
        written: list[tuple[str, Appended]] = []
        for name, lines in batch.due(self._clock()):
            try:
                written.append((name, self._append(name, lines)))
            except Busy:
                answers += self._later(batch, name, "lock_timeout", hopeless=False)
            except OSError as error:
                self._said.warning("file_not_written", file=name, error=str(error))
                answers += self._later(batch, name, _fault(error), hopeless=error.errno in HOPELESS)
        return answers + self._sync_all(batch, written)

    def _append(self, name: str, lines: list[Line]) -> Appended:
        resent = any(line.resent for line in lines)
        data = [line.data for line in lines]
        path = self._directory / name
        try:
            return append(path, data, mode=self._file_mode, patience_s=PATIENCE_S, resent=resent)
        except FileNotFoundError:
            self._directory.mkdir(mode=self._directory_mode)
            self._said.warning("directory_made_again", directory=str(self._directory))
            return append(path, data, mode=self._file_mode, patience_s=PATIENCE_S, resent=resent)

    def _later(self, batch: Batch, name: str, fault: str, *, hopeless: bool) -> list[Answer]:
        """Set a file aside, or give its lines up."""
        now = self._clock()
        if not hopeless and not batch.expired(name, now, self._limit_s):
            batch.set_aside(name, now)
            return []
        return [Answer(line.ticket, frames.FAILED, fault) for line in batch.remove(name)]

    def _sync_all(self, batch: Batch, written: list[tuple[str, Appended]]) -> list[Answer]:
        """Sync a batch's files together, and the directory once if any is new."""
        faults = list(self._pool.map(self._close_synced, (made.descriptor for _, made in written)))
        if self._sync and any(made.created for _, made in written):
            try:
                sync_directory(self._directory)
            except OSError as error:
                self._said.warning("directory_not_synced", error=str(error))
        answers: list[Answer] = []
        for (name, _), fault in zip(written, faults, strict=True):
            fate = frames.FAILED if fault else frames.COMMITTED
            answers += [Answer(line.ticket, fate, fault) for line in batch.remove(name)]
        return answers

    def _close_synced(self, descriptor: int) -> str:
        """Sync and close; return the fault, or an empty string."""
        try:
            if self._sync:
                os.fsync(descriptor)
        except OSError as error:
            return _fault(error)
        finally:
            os.close(descriptor)
        return ""


def _fault(error: OSError) -> str:
    """Name a fault as the operating system does (`ENOSPC`), for the gap's detail."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
