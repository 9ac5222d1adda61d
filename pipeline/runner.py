"""Pipeline: owns the thread, the pool and the drain; the one file that knows every stage.

An exchange comes in by `offer`, on whatever loop or thread ended it. The pipeline's thread runs one anyio task group
that is tied to no loop of the server's: a ticker that takes what was offered and hands it to the worker that its
rollout's hash names, and a supervisor per worker. A worker's answer moves the exchange's slot in the ledger; what
did not reach its file becomes a gap line, and its slot is given back only when that line is durable.

The order of the end: take what is queued; send it; hear every answer; close the workers' input; wait for them, all
within the time given; then, if nothing is left to account for, retire the ledger. What is left stays in the ledger
file for whoever comes next.
"""

import atexit
import os
import threading
import time
import weakref
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import anyio

from . import frames, takeover
from .exchange import Annotation, RawExchange
from .frames import Answer, GapNote
from .gaps import DROPPED, FAILED, Gap
from .intake import Ended, Intake, Item, RawEvent
from .ledger import Ledger, new_identity
from .log import Repeated
from .settings import PipelineSettings
from .slots import COMMITTED, SKIPPED, Slot
from .slots import FAILED as FAILED_STATE
from .supervisor import Parcel, Supervisor

LEDGER_CHECK_S = 1.0
"""How often the thread looks whether somebody removed the ledger's file."""
HURRY_TICK_S = 0.002
HURRY_WAIT_S = 1.0
"""How long a signal handler waits for the queue to be in the pipes; milliseconds unless a worker is stuck."""
GAP_RETRY_S = 0.5
GAPS_WAITING_MAX = 1 << 16
"""Beyond this a gap without a slot is only counted; those with one stay in the ledger file anyway."""
_living: "weakref.WeakSet[Pipeline]" = weakref.WeakSet()
_fork_hooked = False


class Waiter(NamedTuple):
    """Somebody who waits, on another thread, for a condition that the pipeline's thread looks at."""

    condition: Callable[[], bool]
    done: threading.Event
    until: float


class Pipeline:
    """One process's pipeline into one directory. Made running; ends by `close`, or is abandoned after a fork."""

    def __init__(self, settings: PipelineSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.identity = new_identity(settings)
        self.ledger = Ledger(settings, self.identity)
        self.closed = False
        self._stopping = False
        self._clock = clock
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self.intake = Intake(settings.queue_max_events, settings.queue_max_bytes, self._wake_out)
        self.open = self.ledger.open
        self._said = Repeated(clock)
        self._supervisors: list[Supervisor] = []
        self._gaps: list[tuple[float, Parcel]] = []
        self._asked: deque[Waiter] = deque()
        self._waiters: list[Waiter] = []
        self._hurry_until = 0.0
        self._checked_at = clock()
        self._thread = threading.Thread(target=self._main, name="model-call-capture", daemon=True)
        self._thread.start()
        _remember(self)

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
        atexit.unregister(self._close_at_exit)
        deadline = self._clock() + timeout_s
        self._wait_for(self._all_done, timeout_s)
        self._stopping = True
        self.intake.wake()
        self._thread.join(max(0.0, deadline - self._clock()))
        ended = not self._thread.is_alive()
        if ended:
            takeover.retire_own(self.ledger, Path(self.settings.directory))
            self._close_descriptors()
        _living.discard(self)
        return ended

    def abandon(self) -> None:
        """Forget everything in the child of a fork: close what was inherited, unlock and send nothing."""
        self.closed = True
        atexit.unregister(self._close_at_exit)
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

    @property
    def _hurrying(self) -> bool:
        return self._clock() < self._hurry_until

    def _close_at_exit(self) -> None:
        self.close(self.settings.shutdown_timeout_ms / 1000)

    def _close_descriptors(self) -> None:
        for descriptor in (self._wake_in, self._wake_out):
            os.close(descriptor)
        self.ledger.close()

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Have the thread look at `condition` after each step until it holds, and wait for that."""
        if not self._thread.is_alive():
            return False
        done = threading.Event()
        self._asked.append(Waiter(condition, done, self._clock() + timeout_s))
        self.intake.wake()
        return done.wait(max(0.0, timeout_s))

    def _all_sent(self) -> bool:
        return not self.intake.queue and all(each.all_sent for each in self._supervisors)

    def _all_done(self) -> bool:
        intake = self.intake
        if intake.queue or intake.ended or self._gaps:
            return False
        return all(each.idle for each in self._supervisors)

    # The thread.

    def _main(self) -> None:
        anyio.run(self._run)

    async def _run(self) -> None:
        settings = self.settings
        self._supervisors = [
            Supervisor(settings, self.ledger, self._take_verdict) for _ in range(settings.workers)
        ]
        async with anyio.create_task_group() as group:
            for supervisor in self._supervisors:
                group.start_soon(supervisor.run)
            while not self._stopping:
                self._step()
                await self._pause()
            self._step()
            for supervisor in self._supervisors:
                supervisor.stop()

    def _step(self) -> None:
        """Take what was offered, name what was lost, look after the ledger, tell who waits."""
        self._dispatch()
        self._take_ended()
        self._send_gaps()
        for supervisor in self._supervisors:
            supervisor.nudge()
        self._tend_ledger()
        while self._asked:
            self._waiters.append(self._asked.popleft())
        self._waiters = [waiter for waiter in self._waiters if not self._told(waiter)]

    def _told(self, waiter: Waiter) -> bool:
        """Tell a waiter that its condition holds; whether it waits no longer."""
        if waiter.condition():
            waiter.done.set()
        return waiter.done.is_set() or self._clock() >= waiter.until

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
        return bool(self._asked or self._waiters) or self._stopping or self._hurrying

    async def _woken(self, timeout_s: float | None) -> None:
        with anyio.move_on_after(timeout_s):
            await anyio.wait_readable(self._wake_in)
            os.read(self._wake_in, 1 << 12)
        self.intake.asleep = False

    def _dispatch(self) -> None:
        queue = self.intake.queue
        pool = self._supervisors
        while queue:
            item = queue.popleft()
            pool[zlib.crc32(item.event.stem.encode()) % len(pool)].give(item)

    def _take_ended(self) -> None:
        """Count what was skipped, and send out a gap for what was dropped or could not be handed over."""
        ended = self.intake.ended
        while ended:
            call = ended.popleft()
            if call.state == SKIPPED:
                self.ledger.finish(call.slot, SKIPPED)
            elif call.state == FAILED_STATE:
                self._name_gap(call, FAILED, "capture_error")
            else:
                self._said.warning("exchange_dropped", reason="queue_full", stem=call.stem)
                self._name_gap(call, DROPPED, None)

    def _name_gap(self, call: Ended, code: str, detail: str | None) -> None:
        gap = Gap(
            model_call_id=call.call_id.hex(), code=code, started_at=round(call.started_at, 6), detail=detail
        )
        if call.slot is None and len(self._gaps) >= GAPS_WAITING_MAX:
            self.ledger.finish(None, call.state)
            self.ledger.count("gaps_unwritten")
            return
        self._gaps.append((0.0, Parcel(GapNote(call.stem, gap), call)))

    def _send_gaps(self) -> None:
        """Send the gap lines whose turn it is to the worker of their rollout."""
        now = self._clock()
        due = [parcel for at, parcel in self._gaps if at <= now]
        self._gaps = [entry for entry in self._gaps if entry[0] > now]
        for parcel in due:
            self._supervisors[zlib.crc32(parcel.event.stem.encode()) % len(self._supervisors)].give(parcel)

    def _take_verdict(self, item: Item | Parcel, answer: Answer) -> None:
        """Move a slot by a worker's answer: committed, or on its way to being a gap."""
        committed = answer.fate == frames.COMMITTED
        if isinstance(item, Parcel):
            self._end_parcel(item, committed=committed)
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
        if self._waiters:
            self.intake.wake()

    def _fail(self, item: Item, event: RawExchange, detail: str) -> None:
        self._said.warning("exchange_failed", reason=detail, stem=event.stem)
        if item.slot is not None:
            item.slot.mark(FAILED_STATE)
        call = Ended(item.slot, FAILED_STATE, event.call_id, event.stem, event.started_at)
        self._name_gap(call, FAILED, detail)

    def _end_parcel(self, parcel: Parcel, *, committed: bool) -> None:
        """Count a call whose gap line is durable; else try again, and the slot holds it meanwhile."""
        if committed:
            self.ledger.finish(parcel.call.slot, parcel.call.state)
        else:
            self._gaps.append((self._clock() + GAP_RETRY_S, Parcel(parcel.event, parcel.call)))

    def _tend_ledger(self) -> None:
        """Publish what readers want to know, grow, and move when somebody removed the file."""
        ledger, intake = self.ledger, self.intake
        ledger.grow_if_needed()
        oldest = min((at for each in self._supervisors if (at := each.oldest())), default=None)
        late_us = 0 if oldest is None else int((self._clock() - oldest) * 1e6)
        ledger.publish("queued_events", intake.events)
        ledger.publish("queued_bytes", intake.bytes)
        ledger.publish("oldest_backlog_us", late_us)
        ledger.publish("worker_restarts", sum(each.restarts for each in self._supervisors))
        ledger.publish("worker_threads", sum(each.kind == "thread" for each in self._supervisors))
        if intake.notes_dropped:
            dropped, intake.notes_dropped = intake.notes_dropped, 0
            ledger.count("annotations_dropped", dropped)
        if self._clock() - self._checked_at >= LEDGER_CHECK_S:
            self._checked_at = self._clock()
            if ledger.gone():
                self._said.warning("ledger_removed", path=str(ledger.path))
                ledger.move()


def _remember(pipeline: Pipeline) -> None:
    """Close it at the interpreter's end, and abandon it in the child of a fork."""
    global _fork_hooked  # noqa: PLW0603 - one hook per process, made when the first pipeline is
    _living.add(pipeline)
    atexit.register(pipeline._close_at_exit)  # noqa: SLF001 - the pipeline's own last resort
    if not _fork_hooked:
        _fork_hooked = True
        os.register_at_fork(after_in_child=_abandon_all)


def _abandon_all() -> None:
    for pipeline in list(_living):
        pipeline.abandon()
    _living.clear()
