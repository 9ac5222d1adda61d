"""One worker's life, seen from the server: started, fed, answered, replaced when it dies.

At most two unanswered batches are with a worker. When it dies, what it had not answered is sent to the next one,
marked as a resend; for those a worker says with which it begins, so when it dies again, the one that kills is known,
and is sent as raw bytes only; at its third death it is a failure. If it died of none (while writing, or by a signal),
they are sent one at a time. Where no process can be had, a thread does the same work behind the same pipes.

Runs as one task of the pipeline's thread; the inbox is filled there too, so nothing here needs a lock.
"""

from collections import deque
from collections.abc import Callable
from itertools import count

import anyio

from . import frames
from .frames import Answer, GapNote, Introduction
from .intake import Ended, Item
from .ledger import Ledger
from .link import Link, ProcessLink, ThreadLink, WorkerGone
from .log import log
from .settings import PipelineSettings

HELLO_TIMEOUT_S = 10.0
"""A worker says hello within 0.2 s on an idle machine; one that needs longer than this is not coming."""
BATCHES_IN_FLIGHT = 2
"""One is written while the next is decoded; more would only be memory."""
RAW_AT_DEATHS, FAILED_AT_DEATHS = 2, 3
LAST_WORDS_S = 1.0
"""How long a dead worker's answers are read: they are in the pipe already."""
START_TRIES = 3
"""A process that ends before its hello may have been killed; one that does so thrice in a row cannot run here."""
UNSTARTABLE = (OSError, RuntimeError, TypeError, ValueError)
"""What it raises when there is no process, thread or pipe to be had, or the interpreter is ending."""
RESTART_WAIT_S = (0.0, 0.1, 0.5, 2.0, 5.0)
"""Waits before a new start, by the number of deaths in a row without an answer."""
Verdict = Callable[["Item | Parcel", Answer], None]


class Parcel:
    """A gap on its way to its file: no exchange, but it travels and is answered like one."""

    __slots__ = ("call", "deaths", "event", "size")

    def __init__(self, event: GapNote, call: Ended) -> None:
        self.event = event
        self.call = call
        self.size = 200
        self.deaths = 0


class Supervisor:
    """Feeds one worker and replaces it. `verdict` is told each item's fate, once."""

    def __init__(self, settings: PipelineSettings, ledger: Ledger, verdict: Verdict) -> None:
        self._settings = settings
        self._ledger = ledger
        self._verdict = verdict
        self._tickets = count(1)
        self._inbox: deque[Item | Parcel] = deque()
        self._suspects: deque[Item | Parcel] = deque()
        self._unanswered: dict[int, Item | Parcel] = {}
        self._unanswered_bytes = 0
        self._stopping = False
        self._changed = anyio.Event()
        self._deaths_in_a_row = 0
        self._expected_end = False
        self._serving = False
        self._sending = False
        self._moves = 0
        self._failed_starts = 0
        self._begun = 0
        self._one_by_one = False
        self.kind = settings.worker_kind
        self.link: Link | None = None
        self.restarts = 0

    def go_on_from(self, broken: "Supervisor") -> None:
        """Take over what another had whose loop broke: what was sent is sent again, one by one, marked so."""
        self.restarts = broken.restarts
        sent, self._inbox = broken.left()
        self._suspects.extend(sent)

    def left(self) -> "tuple[list[Item | Parcel], deque[Item | Parcel]]":
        """Return what was sent and not answered, and what was not sent yet."""
        return [*self._suspects, *self._unanswered.values()], self._inbox

    @property
    def idle(self) -> bool:
        """Whether everything given here was answered."""
        return not (self._inbox or self._suspects or self._unanswered)

    @property
    def all_sent(self) -> bool:
        """Whether everything given here is at least in the worker's pipe."""
        left = self._inbox or self._suspects or self._sending
        return not left and (self._serving or not self._unanswered)

    def oldest(self) -> float | None:
        """Return when the oldest unanswered exchange was offered."""
        lines = (self._unanswered.values(), self._suspects, self._inbox)
        firsts = (next((item for item in line if isinstance(item, Item)), None) for line in lines)
        return min((item.offered_at for item in firsts if item is not None), default=None)

    def give(self, item: Item | Parcel) -> None:
        """Put an item into the inbox; `nudge` once all are in."""
        self._inbox.append(item)

    def nudge(self) -> None:
        """Say that something changed: new items, answers, or that it is time to stop."""
        self._changed.set()

    def stop(self) -> None:
        """Close the worker's input once everything is sent, and end with it."""
        self._stopping = True
        self.nudge()

    async def run(self) -> None:
        """Live until `stop` and the worker's end."""
        while not (self._stopping and self.idle):
            link = await self._start()
            self._serving = True
            try:
                await self._serve(link)
            finally:
                self._serving = False
                await self._end(link)
            await self._after_end()

    @staticmethod
    async def _end(link: Link | None) -> None:
        """Close a worker's pipes and collect it, also on the way out of a broken loop."""
        if link is not None:
            link.close()
            with anyio.CancelScope(shield=True):
                await link.reap()

    async def _start(self) -> Link:
        """Start a worker and wait for its hello; a process that does not come is replaced by a thread."""
        while True:
            self.link = link = None
            try:
                self.link = link = self._new_link()
                with anyio.fail_after(HELLO_TIMEOUT_S):
                    await link.read()
                await link.write(Introduction(self._settings, self._ledger.identity), 0, 0)
            except (*UNSTARTABLE, WorkerGone) as error:
                await self._end(link)
                await self._fall_back(error)
            except BaseException:
                await self._end(link)
                raise
            else:
                self._failed_starts = 0
                return link

    def _new_link(self) -> Link:
        self._moves = self._ledger.moves
        if self.kind == "thread":
            return ThreadLink()
        return ProcessLink(self._settings.worker_nice, self._ledger.lock_descriptor)

    async def _fall_back(self, error: Exception) -> None:
        """Try again, or go on with a thread; where even that has no pipe to work with, wait a while."""
        self._failed_starts += 1
        if self.kind == "thread":
            await anyio.sleep(RESTART_WAIT_S[-1])
        elif not isinstance(error, WorkerGone) or self._failed_starts >= START_TRIES:
            log.warning("worker_thread_instead", reason=f"{type(error).__name__}: {error}")
            self.kind = "thread"

    async def _serve(self, link: Link) -> None:
        """Feed a worker and hear it until it is gone, one way or the other."""
        self._expected_end = False
        async with anyio.create_task_group() as group:

            async def hear() -> None:
                try:
                    while True:
                        self._take_answers(await link.read())
                except WorkerGone:
                    group.cancel_scope.cancel()

            group.start_soon(hear)
            try:
                await self._feed(link)
            except WorkerGone:
                await anyio.sleep(
                    LAST_WORDS_S
                )  # what it said before is in the pipe; `hear` ends this at its end
                group.cancel_scope.cancel()
            else:
                self._expected_end = True
                link.end_input()

    async def _feed(self, link: Link) -> None:
        """Send until it is time to stop, or until the ledger's lock is another than the worker holds."""
        while True:
            self._changed = anyio.Event()
            if self._moves != self._ledger.moves:
                return
            if self._suspects:
                await self._send_suspects(link)
            elif self._inbox and self._has_room():
                await self._send_batch(link)
            elif self._stopping and not self._inbox:
                return
            else:
                await self._changed.wait()

    def _has_room(self) -> bool:
        settings = self._settings
        return (
            len(self._unanswered) < BATCHES_IN_FLIGHT * settings.batch_max_records
            and self._unanswered_bytes < BATCHES_IN_FLIGHT * settings.batch_max_bytes
        )

    async def _send_suspects(self, link: Link) -> None:
        """Send what a worker died with: a batch of them, or one alone where nobody knows which of them it was."""
        while self._unanswered:
            self._changed = anyio.Event()
            await self._changed.wait()
        count = 1 if self._one_by_one else min(len(self._suspects), self._settings.batch_max_records)
        for left in range(count - 1, -1, -1):
            item = self._suspects.popleft()
            raw = frames.RAW_ONLY if item.deaths >= RAW_AT_DEATHS else 0
            last = 0 if left else frames.LAST_OF_BATCH
            await self._send(link, item, frames.RESENT | raw | last)
        self._one_by_one &= bool(self._suspects)

    async def _send_batch(self, link: Link) -> None:
        """Send up to a batch from the inbox; the last frame tells the worker to append."""
        records, size = 0, 0
        last = False
        while not last:
            item = self._inbox.popleft()
            records, size = records + 1, size + item.size
            full = records >= self._settings.batch_max_records or size >= self._settings.batch_max_bytes
            last = full or not self._inbox
            await self._send(link, item, frames.LAST_OF_BATCH if last else 0)

    async def _send(self, link: Link, item: Item | Parcel, flags: int) -> None:
        ticket = next(self._tickets)
        self._unanswered[ticket] = item
        self._unanswered_bytes += item.size
        self._sending = True
        try:
            await link.write(item.event, ticket, flags)
        except (
            TypeError,
            ValueError,
            OverflowError,
        ) as error:  # no frame can be made of it; nothing was written
            self._take_answers([Answer(ticket, frames.FAILED, f"unframeable: {error}")])
        finally:
            self._sending = False

    def _take_answers(self, answers: list[Answer]) -> None:
        self._deaths_in_a_row = 0
        for answer in answers:
            if answer.fate == frames.BEGUN:
                self._begun = answer.ticket
                continue
            item = self._unanswered.pop(answer.ticket, None)
            if item is not None:
                self._unanswered_bytes -= item.size
                self._verdict(item, answer)
        self.nudge()

    async def _after_end(self) -> None:
        """Sort out what an ended worker left unanswered, and wait a little where workers keep dying."""
        left = list(self._unanswered.values())
        culprit = self._unanswered.get(self._begun)
        self._unanswered.clear()
        self._unanswered_bytes = 0
        if self._expected_end and not left:
            return
        self.restarts += 1
        log.warning("worker_died", unanswered=len(left), restarts=self.restarts)
        self._blame(left, culprit)
        given_up = [item for item in left if item.deaths >= FAILED_AT_DEATHS]
        self._suspects.extendleft(reversed([item for item in left if item.deaths < FAILED_AT_DEATHS]))
        for item in given_up:
            self._verdict(item, Answer(0, frames.FAILED, "worker_died"))
        await anyio.sleep(RESTART_WAIT_S[min(self._deaths_in_a_row, len(RESTART_WAIT_S) - 1)])
        self._deaths_in_a_row += 1

    def _blame(self, left: list[Item | Parcel], culprit: Item | Parcel | None) -> None:
        """Count a death: against all at the first, then against the one that was begun with, or the only one."""
        if culprit is None and len(left) == 1:
            culprit = left[0]
        again = any(item.deaths for item in left)
        if culprit is None and again:
            self._one_by_one = True
        for item in left:
            item.deaths = max(item.deaths, 1)
        if culprit is not None and again:
            culprit.deaths += 1
