"""The worker's main: a plain blocking loop from frames on one descriptor to durable lines and answers on another.

It runs as a process of its own, niced, or, where no process can be had, as a thread of the server. It owns no state
that matters: whatever it has not answered is sent again by the server, or looked up in the files once this process
is gone. It ends at the end of its input, never by a signal that was meant for the server.
"""

import os
import signal
import sys
import time
from collections.abc import Callable

from . import frames
from .batch import Batch, Line
from .exchange import Annotation, RawExchange
from .frames import Answer, Frame, GapNote, Introduction
from .gaps import GAP_SUFFIX, NOTE_SUFFIX, RECORD_SUFFIX, gap_line
from .inlet import Inlet
from .notes import note_line
from .process import encode, process, process_raw
from .writer import Writer

IGNORED = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals to the server's process group: the server decides how it ends, and we end after it."""
LULL_S = 0.02
"""A batch may pause on its way: a server waits 5 ms for its interpreter's lock. After longer ones it is written."""


class Worker:
    """One worker's loop state: what it was introduced to, and the lines on their way."""

    def __init__(self, read_descriptor: int, write_descriptor: int) -> None:
        self._in = Inlet(read_descriptor)
        self._out = write_descriptor
        self._batch = Batch()
        self._heard = True

    def run(self) -> None:
        """Work until the input ends, then write what is left, bounded by the shutdown time."""
        self._answer([Answer(0, frames.HELLO)])
        first = frames.read_frame(self._in.read)
        if first is None or not isinstance(first.cargo, Introduction):
            return
        self._settings, self._server = first.cargo.settings, first.cargo.server
        self._writer = Writer(self._settings)
        while (frame := self._next()) is not None:
            self._take(frame)
        self._finish()

    def _next(self) -> Frame | None:
        """Wait for a frame; in a lull, the files whose turn it is are written."""
        while (due := self._batch.next_at()) is not None:
            if self._in.wait(max(LULL_S, due - time.monotonic())):
                break
            self._flush()
        return frames.read_frame(self._in.read)

    def _take(self, frame: Frame) -> None:
        """Make the line of a frame. With what was sent before, say where we are: it may end this process, too."""
        resent = bool(frame.flags & frames.RESENT)
        if resent:
            self._answer([Answer(frame.ticket, frames.BEGUN)])
        try:
            name, data = self._line(frame)
        except Exception as error:  # noqa: BLE001 - one bad exchange must not end the worker; it is answered as failed
            self._answer([Answer(frame.ticket, frames.FAILED, f"{type(error).__name__}: {error}")])
        else:
            self._batch.add(name, Line(frame.ticket, data, resent), time.monotonic())
        full = self._batch.bytes >= self._settings.batch_max_bytes
        if frame.flags & frames.LAST_OF_BATCH or full:
            if resent:
                self._answer([Answer(0, frames.BEGUN)])
            self._flush()

    def _line(self, frame: Frame) -> tuple[str, bytes]:
        """Return the file's name and the line of what a frame carries."""
        cargo = frame.cargo
        if isinstance(cargo, RawExchange):
            if frame.flags & frames.RAW_ONLY:
                record = process_raw(cargo, self._server, self._settings.labels, "worker_died_twice")
            else:
                record = process(cargo, self._server, self._settings.labels)
            return cargo.stem + RECORD_SUFFIX, encode(record)
        if isinstance(cargo, GapNote):
            return cargo.stem + GAP_SUFFIX, gap_line(cargo.gap)
        if isinstance(cargo, Annotation):
            return cargo.stem + NOTE_SUFFIX, note_line(cargo)
        raise frames.FrameError(f"a {type(cargo).__name__} after the first frame")

    def _flush(self) -> None:
        self._answer(self._writer.write_due(self._batch))

    def _finish(self) -> None:
        """Give what is left its chances, bounded: the server is gone or waits for us to end."""
        until = time.monotonic() + self._settings.shutdown_timeout_ms / 1000
        self._flush()
        while (due := self._batch.next_at()) is not None and time.monotonic() < until:
            time.sleep(max(0.0, due - time.monotonic()))
            self._flush()

    def _answer(self, answers: list[Answer]) -> None:
        """Tell the server; once nobody listens, write on all the same."""
        data = memoryview(b"".join(map(frames.pack_answer, answers)))
        try:
            while data and self._heard:
                data = data[os.write(self._out, data) :]
        except BrokenPipeError:
            self._heard = False


def main(arguments: list[str]) -> None:
    """Run as a process: `arguments` are the two descriptors and the niceness."""
    read_descriptor, write_descriptor, nice = map(int, arguments)
    for name in IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    lower_priority(nice, os.setpriority)
    Worker(read_descriptor, write_descriptor).run()


def lower_priority(nice: int, setpriority: Callable[[int, int, int], None]) -> None:
    """Set this process's niceness; a host that forbids it (already nicer) keeps what it has."""
    try:
        setpriority(os.PRIO_PROCESS, 0, nice)
    except OSError as error:
        sys.stderr.write(f"model-call-capture worker: priority stays as it is: {error}\n")
