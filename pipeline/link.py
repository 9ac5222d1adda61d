"""One worker's pipes, as the server holds them: start, write frames, read answers, end.

Everything is non-blocking and waits through anyio, so a stuck worker stops nobody but its own sender. A process is
started so that the user's own files cannot take our place: `-P` keeps the working folder off `sys.path`, and the
worker imports `pipeline` from the very folder this process did. Not through `multiprocessing`, which would import
the host's `__main__` again. `process_group=0` keeps the terminal's Ctrl-C away; a session of its own would undo the
niceness where the kernel schedules by session.
"""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import filelock
import msgspec
import structlog

from . import frames
from .buffers import Buffers
from .frames import Answer, Cargo
from .worker import Worker

BOOT = (
    "import sys; folder, *others = sys.argv[4:]; sys.path.insert(0, folder);"
    "import pipeline; sys.path.pop(0); sys.path.extend(p for p in others if p not in sys.path);"
    "from pipeline.worker import main; main(sys.argv[1:4])"
)
HOME = str(Path(__file__).resolve().parent.parent)
DEPENDENCIES = (filelock, msgspec, structlog)
PIPE_BYTES = 1 << 20
"""The most that an unprivileged Linux process may ask for by default; fewer wake-ups for a batch of megabytes."""
REAP_POLLS, REAP_POLL_S = 100, 0.01
"""A worker that closed its pipes is gone within a second, or is killed."""


class WorkerGone(Exception):  # noqa: N818 - an event of a worker's life, not a mistake
    """The worker's end of the pipe is closed."""


class Link:
    """The server's ends of one worker's pipes."""

    def __init__(self, to_worker: int, from_worker: int) -> None:
        self._to = to_worker
        self._from = from_worker
        self._buffer = bytearray()
        os.set_blocking(to_worker, False)
        os.set_blocking(from_worker, False)

    @property
    def pid(self) -> int | None:
        """The worker's process id; None for a thread."""
        return None

    async def write(self, cargo: Cargo, ticket: int, flags: int) -> None:
        """Write one frame whole. Raises WorkerGone."""
        left = Buffers(frames.pack(cargo, ticket, flags))
        while left:
            try:
                left.wrote(os.writev(self._to, left.run()))
            except BlockingIOError:
                await anyio.wait_writable(self._to)
            except OSError as error:
                raise WorkerGone from error

    async def read(self) -> list[Answer]:
        """Wait for answers. Raises WorkerGone at the end of the worker's output."""
        while True:
            try:
                data = os.read(self._from, 1 << 16)
            except BlockingIOError:
                await anyio.wait_readable(self._from)
                continue
            if not data:
                raise WorkerGone
            self._buffer += data
            if answers := frames.take_answers(self._buffer):
                return answers

    def end_input(self) -> None:
        """Close the frames' pipe: the worker finishes what it has and ends."""
        if self._to >= 0:
            os.close(self._to)
            self._to = -1

    def close(self) -> None:
        """Close both pipes."""
        self.end_input()
        if self._from >= 0:
            os.close(self._from)
            self._from = -1

    async def reap(self) -> None:
        """Wait for the end of whatever ran the worker."""

    def forget(self) -> None:
        """Close the pipes in the child of a fork, which owns no worker."""
        self.close()


class ProcessLink(Link):
    """A worker process."""

    def __init__(self, nice: int, lock_descriptor: int | None) -> None:
        frames_in, frames_out, answers_in, answers_out = _pipes()
        try:
            self._process = _start(frames_in, answers_out, nice, lock_descriptor)
        except BaseException:
            os.close(frames_out)
            os.close(answers_in)
            raise
        finally:
            os.close(frames_in)
            os.close(answers_out)
        super().__init__(frames_out, answers_in)

    @property
    def pid(self) -> int | None:
        """The worker's process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process ended, negative for a signal; None while it lives."""
        return self._process.returncode

    async def reap(self) -> None:
        """Collect the ended process; one that closed its pipe and does not end is killed."""
        if not await self._ended():
            self._process.kill()
            await self._ended()

    async def _ended(self) -> bool:
        for _ in range(REAP_POLLS):
            if self._process.poll() is not None:
                return True
            await anyio.sleep(REAP_POLL_S)
        return False

    def forget(self) -> None:
        """Close the pipes; the process is the parent's to wait for."""
        super().forget()
        self._process.returncode = 0


class ThreadLink(Link):
    """A worker thread of this process, behind the same pipes and frames."""

    def __init__(self) -> None:
        frames_in, frames_out, answers_in, answers_out = _pipes()
        super().__init__(frames_out, answers_in)
        self._ends = [frames_in, answers_out]
        self._thread = threading.Thread(target=self._work, name="model-call-capture-worker", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self.forget()
            raise

    def _work(self) -> None:
        frames_in, answers_out = self._ends
        try:
            Worker(frames_in, answers_out).run()
        finally:
            self._close_ends()

    def _close_ends(self) -> None:
        while self._ends:
            os.close(self._ends.pop())

    def forget(self) -> None:
        """Close all four ends: the child of a fork has no such thread."""
        super().forget()
        self._close_ends()


def _pipes() -> tuple[int, int, int, int]:
    """Make a worker's two pipes: frames in and out, answers in and out; both or none. Raises OSError."""
    frames_in, frames_out = _pipe()
    try:
        answers_in, answers_out = _pipe()
    except OSError:
        os.close(frames_in)
        os.close(frames_out)
        raise
    return frames_in, frames_out, answers_in, answers_out


def _pipe() -> tuple[int, int]:
    """Make a pipe, large where the kernel allows it."""
    reading, writing = os.pipe()
    widen: Callable[..., object] = fcntl.fcntl
    try:
        widen(writing, getattr(fcntl, "F_SETPIPE_SZ", 0), PIPE_BYTES)
    except OSError:
        return reading, writing
    return reading, writing


def _start(
    frames_in: int, answers_out: int, nice: int, lock_descriptor: int | None
) -> subprocess.Popen[bytes]:
    """Start the interpreter this process runs on as a worker. Raises OSError."""
    others = dict.fromkeys(str(Path(module.__file__ or "").parent.parent) for module in DEPENDENCIES)
    inherited = [frames_in, answers_out]
    if lock_descriptor is not None:
        inherited.append(lock_descriptor)
    numbers = [str(frames_in), str(answers_out), str(nice)]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", BOOT, *numbers, HOME, *others],
        stdin=subprocess.DEVNULL,
        stdout=_standard_error(),
        pass_fds=inherited,
        process_group=0,
    )


def _standard_error() -> int:
    """Return the descriptor of standard error, or of nothing where a host closed it."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2
