"""A worker's hands: the files whose turn it is are appended to, synced together, and their lines' fate told.

Nothing is answered as committed before its own file is synced. A file whose lock is not free or whose write fails is
set aside and tried again while the others go on; after `lock_timeout_ms` its lines are answered as failed, with the
fault. A fault that no waiting mends (a file system without locks, a link in the file's place) fails at once.
"""

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from . import frames
from .append import Appended, Busy, append, sync_directory
from .batch import Batch, Line
from .frames import Answer
from .log import Repeated
from .settings import PipelineSettings

SYNC_THREADS = 8
"""Files of one batch are synced side by side: 100 files at 20 ms take 0.3 s instead of 2."""
SYNCED_TOGETHER = 64
"""Files that are open at once: a process may have 256 descriptors, and a rollout is a file."""
PATIENCE_S = 0.05
"""How long locks are waited for in one round, while other files have their turn behind them."""
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
        self._patience_s = PATIENCE_S
        self._said = Repeated()
        self._pool = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="model-call-capture-sync")

    def write_due(self, batch: Batch) -> list[Answer]:
        """Write the files whose turn it is; return the fate of each line that has one now."""
        answers: list[Answer] = []
        due = batch.due(self._clock())
        self._patience_s = PATIENCE_S
        created = False
        for start in range(0, len(due), SYNCED_TOGETHER):
            written: list[tuple[str, Appended]] = []
            for name, lines in due[start : start + SYNCED_TOGETHER]:
                try:
                    written.append((name, self._append(name, lines)))
                except Busy:
                    self._patience_s = 0.0
                    answers += self._later(batch, name, "lock_timeout", hopeless=False)
                except OSError as error:
                    self._said.warning("file_not_written", file=name, error=str(error))
                    answers += self._later(batch, name, _fault(error), hopeless=error.errno in HOPELESS)
            answers += self._sync_all(batch, written)
            created = created or any(made.created for _, made in written)
        if created and self._sync:
            self._sync_directory()
        return answers

    def _append(self, name: str, lines: list[Line]) -> Appended:
        try:
            return self._append_once(name, lines)
        except FileNotFoundError:
            self._directory.mkdir(mode=self._directory_mode, exist_ok=True)
            self._said.warning("directory_made_again", directory=str(self._directory))
            return self._append_once(name, lines)

    def _append_once(self, name: str, lines: list[Line]) -> Appended:
        return append(
            self._directory / name,
            [line.data for line in lines],
            mode=self._file_mode,
            patience_s=self._patience_s,
            resent=any(line.resent for line in lines),
        )

    def _later(self, batch: Batch, name: str, fault: str, *, hopeless: bool) -> list[Answer]:
        """Set a file aside, or give its lines up."""
        now = self._clock()
        if not hopeless and not batch.expired(name, now, self._limit_s):
            batch.set_aside(name, now)
            return []
        return [Answer(line.ticket, frames.FAILED, fault) for line in batch.remove(name)]

    def _sync_all(self, batch: Batch, written: list[tuple[str, Appended]]) -> list[Answer]:
        """Sync files together, and tell their lines' fate."""
        faults = self._close_all_synced([made.descriptor for _, made in written])
        answers: list[Answer] = []
        for (name, _), fault in zip(written, faults, strict=True):
            fate = frames.FAILED if fault else frames.COMMITTED
            answers += [Answer(line.ticket, fate, fault) for line in batch.remove(name)]
        return answers

    def _sync_directory(self) -> None:
        try:
            sync_directory(self._directory)
        except OSError as error:
            self._said.warning("directory_not_synced", error=str(error))

    def _close_all_synced(self, descriptors: list[int]) -> list[str]:
        """Sync and close side by side; in turn for a single one, and where the interpreter starts no more threads."""
        if len(descriptors) == 1:
            return [self._close_synced(descriptors[0])]
        waiting: list[Future[str]] = []
        with suppress(RuntimeError):
            waiting.extend(self._pool.submit(self._close_synced, each) for each in descriptors)
        rest = [self._close_synced(each) for each in descriptors[len(waiting) :]]
        return [future.result() for future in waiting] + rest

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
