"""Pipeline: owns the thread, the pool and the drain; the one file that knows every stage.

An exchange comes in by `offer`, on whatever loop or thread ended it. The pipeline's thread runs one anyio task group
that is tied to no loop of the server's: a ticker that takes what was offered and hands it to the worker that its
rollout's hash names, and a supervisor per worker. A worker's answer moves the exchange's slot in the ledger; what
did not reach its file becomes a gap line, and its slot is given back only when that line is durable.

The order of the end: take what is queued; send it; hear every answer; close the workers' input; wait for them, all
within the time given; then, if nothing is left to account for, retire the ledger. What is left stays in the ledger
file for whoever comes next.
"""

import os
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import anyio

from . import frames, living, takeover, tending
from .exchange import Annotation, RawExchange
from .frames import Answer
from .gaps import DROPPED, FAILED
from .intake import Ended, Intake, Item, RawEvent
from .ledger import Ledger, new_identity
from .log import Repeated
from .outbox import Outbox
from .settings import PipelineSettings
from .slots import COMMITTED, SKIPPED, Slot
from .slots import FAILED as FAILED_STATE
from .supervisor import Parcel, Supervisor
from .waiting import Waiting

RECOVER_AFTER_S = 1.0
"""A fault of our own that comes back at once must not keep a processor busy."""
LEDGER_CHECK_S = 1.0
"""How often the thread looks whether somebody removed the ledger's file."""
HURRY_TICK_S = 0.002
HURRY_WAIT_S = 1.0
"""How long a signal handler waits for the queue to be in the pipes; milliseconds unless a worker is stuck."""


class Pipeline:
    """One process's pipeline into one directory. Made running; ends by `close`, or is abandoned after a fork."""

    def __init__(self, settings: PipelineSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.identity = new_identity(settings)
        self.ledger = Ledger(settings, self.identity)
        self.closed = False
        self._stopping = False
        self._clock = clock
        self._said = Repeated(clock)
        self._supervisors: list[Supervisor] = []
        self._outbox = Outbox(self.ledger)
        self._waiting = Waiting(clock)
        self._hurry_until = 0.0
        self._checked_at = clock()
        self._pipe: tuple[int, ...] = ()
        try:
            self._begin()
        except BaseException:
            self.ledger.unlink()
            self._close_descriptors()
            raise
        living.remember(self)

    def _begin(self) -> None:
        """Make the wake-up pipe and start the thread. Raises OSError or RuntimeError where the host is at its end."""
        settings = self.settings
        self._pipe = self._wake_in, wake_out = os.pipe()
        self.intake = Intake(settings.queue_max_events, settings.queue_max_bytes, wake_out)
        self.ledger.when_low = self.intake.rouse
        os.set_blocking(self._wake_in, False)
        os.set_blocking(wake_out, False)
        self._thread = threading.Thread(target=self._main, name="model-call-capture", daemon=True)
        self._thread.start()

    def offer(self, event: RawEvent, slot: Slot | None) -> None:
        """Hand an event over. One plain call that waits for nothing, but for a process that is being ended."""
        now = self._clock()
        accepted = self.intake.offer(event, slot, now)
        if accepted and now < self._hurry_until:
            self._wait_for(self._all_sent, self._hurry_until - now)

    def hurry(self) -> None:
        """Write through what is queued, and from now on each hand-over at once: the process was told to end.

        For signal handlers. Waits, bounded, until the queue is in the workers' pipes: from there it reaches the
        disk whatever becomes of this process, and a server may end before the thread has had its turn.
        """
        timeout_s = self.settings.shutdown_timeout_ms / 1000
        self._hurry_until = self._clock() + timeout_s
        self._wait_for(self._all_sent, min(timeout_s, HURRY_WAIT_S))

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything offered is durable or a durable gap; False where time ended first."""
        return self._wait_for(self._all_done, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Drain, end the workers and retire the ledger; whether all that was done in time. Once."""
        if self.closed:
            return True
        self.closed = True
        deadline = self._clock() + timeout_s
        self._wait_for(self._all_done, timeout_s)
        self._stopping = True
        self.intake.wake()
        self._thread.join(max(0.0, deadline - self._clock()))
        ended = not self._thread.is_alive()
        if ended:
            takeover.retire_own(self.ledger, Path(self.settings.directory))
            self._close_descriptors()
            living.forget(self)
        return ended

    def abandon(self) -> None:
        """Forget everything in the child of a fork: close what was inherited, unlock and send nothing."""
        self.closed = True
        for supervisor in self._supervisors:
            if supervisor.link is not None:
                supervisor.link.forget()
        self._close_descriptors()

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of the workers that run now."""
        links = [supervisor.link for supervisor in self._supervisors]
        return [link.pid for link in links if link is not None and link.pid is not None]

    @property
    def thread_id(self) -> int | None:
        """The system's id of the pipeline's thread."""
        return self._thread.native_id

    def close_at_exit(self) -> None:
        """Close within the shutdown time: the last resort."""
        self.close(self.settings.shutdown_timeout_ms / 1000)

    def _close_descriptors(self) -> None:
        if self._pipe:
            self.intake.close()
        pipe, self._pipe = self._pipe, ()
        for descriptor in pipe:
            os.close(descriptor)
        self.ledger.close()

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Have the thread look at `condition` after each step until it holds, and wait for that."""
        if not self._thread.is_alive():
            return False
        done = self._waiting.ask(condition, timeout_s)
        self.intake.wake()
        return done.wait(max(0.0, timeout_s))

    def _all_sent(self) -> bool:
        return not self.intake.queue and all(each.all_sent for each in self._supervisors)

    def _all_done(self) -> bool:
        left = self.intake.queue or self.intake.ended or self._outbox
        return not left and all(each.idle for each in self._supervisors)

    def _main(self) -> None:
        """Run the thread's loop; a fault of our own costs the workers their pipes, but no exchange its record."""
        while True:
            try:
                anyio.run(self._run)
            except Exception as error:  # noqa: BLE001 - a dead thread would leave every later call pending: counted
                self.ledger.count("capture_errors")
                self._said.warning("pipeline_restarted", error=repr(error))
                time.sleep(RECOVER_AFTER_S)
            else:
                return

    async def _run(self) -> None:
        self._supervisors = self._new_supervisors()
        async with anyio.create_task_group() as group:
            for supervisor in self._supervisors:
                group.start_soon(supervisor.run)
            while not self._stopping:
                self._step()
                await self._pause()
            self._step()
            for supervisor in self._supervisors:
                supervisor.stop()

    def _new_supervisors(self) -> list[Supervisor]:
        """Make the pool; after a fault of our own each goes on with what its forerunner had."""
        settings, ledger = self.settings, self.ledger
        pool = [Supervisor(settings, ledger, self._take_verdict) for _ in range(settings.workers)]
        for new, broken in zip(pool, self._supervisors, strict=False):
            new.go_on_from(broken)
        return pool

    def _step(self) -> None:
        """Take what was offered, name what was lost, look after the ledger, tell who waits."""
        self._dispatch()
        self._take_ended()
        self._send_gaps()
        for supervisor in self._supervisors:
            supervisor.nudge()
        self._tend_ledger()
        self._waiting.tell()

    async def _pause(self) -> None:
        """Sleep for a tick, which only urgent things cut short; first without end, where nothing is under way.

        `asleep` is said before the last look, so whoever offers after that look sees it and wakes.
        """
        intake = self.intake
        if self._urgent:
            intake.asleep = True
            await self._woken(HURRY_TICK_S)
            return
        if self._all_done() and not self.ledger.in_use:
            intake.asleep = True
            if not (intake.queue or intake.ended or self._urgent):
                await self._woken(None)
            intake.asleep = False
        if not self._urgent:
            await self._woken(self.settings.flush_interval_ms / 1000)

    @property
    def _urgent(self) -> bool:
        return bool(self._waiting) or self._stopping or self._clock() < self._hurry_until

    async def _woken(self, timeout_s: float | None) -> None:
        with anyio.move_on_after(timeout_s):
            await anyio.wait_readable(self._wake_in)
            os.read(self._wake_in, 1 << 12)
        self.intake.asleep = False

    def _dispatch(self) -> None:
        queue = self.intake.queue
        while queue:
            item = queue.popleft()
            self._worker_of(item.event.stem).give(item)

    def _worker_of(self, stem: str) -> Supervisor:
        """Return the one worker of a rollout's."""
        return self._supervisors[zlib.crc32(stem.encode()) % len(self._supervisors)]

    def _take_ended(self) -> None:
        """Count what was skipped, and send out a gap for what was dropped or could not be handed over."""
        ended = self.intake.ended
        while ended:
            call = ended.popleft()
            if call.state == SKIPPED:
                self.ledger.finish(call.slot, SKIPPED)
            elif call.state == FAILED_STATE:
                self._outbox.name(call, FAILED, "capture_error")
            else:
                self._said.warning("exchange_dropped", reason="queue_full", stem=call.stem)
                self._outbox.name(call, DROPPED, None)

    def _send_gaps(self) -> None:
        """Send the gap lines whose turn it is to the worker of their rollout."""
        for parcel in self._outbox.due(self._clock()):
            self._worker_of(parcel.event.stem).give(parcel)

    def _take_verdict(self, item: Item | Parcel, answer: Answer) -> None:
        """Move a slot by a worker's answer: committed, or on its way to being a gap."""
        committed = answer.fate == frames.COMMITTED
        if isinstance(item, Parcel):
            self._outbox.end(item, self._clock(), committed=committed)
            return
        self.intake.release(item)
        event = item.event
        if isinstance(event, Annotation):
            self.ledger.count("annotations" if committed else "annotations_dropped")
        elif committed:
            self.ledger.finish(item.slot, COMMITTED)
            self.ledger.count("captured_bytes", event.request_bytes + event.response_bytes)
            self.ledger.publish("last_commit_us", int(time.time() * 1e6))
        else:
            self._fail(item, event, answer.detail)
        if self._waiting:
            self.intake.wake()

    def _fail(self, item: Item, event: RawExchange, detail: str) -> None:
        self._said.warning("exchange_failed", reason=detail, stem=event.stem)
        if item.slot is not None:
            item.slot.mark(FAILED_STATE)
        call = Ended(item.slot, FAILED_STATE, event.call_id, event.stem, event.started_at)
        self._outbox.name(call, FAILED, detail)

    def _tend_ledger(self) -> None:
        """Publish what readers want to know, grow, and move when somebody removed the file."""
        ledger, intake = self.ledger, self.intake
        ledger.grow_if_needed()
        tending.publish(ledger, intake, self._supervisors, self._clock())
        if self._clock() - self._checked_at >= LEDGER_CHECK_S:
            self._checked_at = self._clock()
            ledger.tend_lost()
            if ledger.gone():
                self._said.warning("ledger_removed", path=str(ledger.path))
                ledger.move()
