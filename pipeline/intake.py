"""The bounded in-process queue: accepts or drops, and never waits.

`offer` is called on the server's event loops, once an exchange is over; the pipeline's thread takes. Bounds are in
events and in bytes, and count what is queued and what a worker has not acknowledged. An exchange is accepted while
the bound is not reached, so the bound can be overshot by one exchange, and an exchange larger than the bound is not
refused for its size alone. The thread is woken only when it has said that it sleeps.

Counters are plain additions: between reading and storing an attribute CPython (3.11 to 3.13, with its lock) does not
switch threads where no call is in between, and a lock could make a signal handler wait for itself.
"""

import os
from collections import deque
from typing import TypeAlias

from .exchange import Annotation, RawExchange
from .slots import ACCEPTED, DROPPED, FAILED, SKIPPED, Slot

CHUNK_OVERHEAD_BYTES = 100
"""What a chunk costs beside its bytes: the object's head, its place in the list, its time."""
EXCHANGE_OVERHEAD_BYTES = 1500
"""What an exchange costs beside its bodies: its fields and headers."""

RawEvent: TypeAlias = RawExchange | Annotation


class Item:
    """One event on its way: with its slot, its size and how many workers died with it."""

    __slots__ = ("deaths", "event", "offered_at", "size", "slot")

    def __init__(self, event: RawEvent, slot: Slot | None, size: int, offered_at: float) -> None:
        self.event = event
        self.slot = slot
        self.size = size
        self.offered_at = offered_at
        self.deaths = 0


class Ended:
    """A call that ends here: dropped, skipped or failed. What the gap needs is kept, the bodies are let go."""

    __slots__ = ("call_id", "slot", "started_at", "state", "stem")

    def __init__(self, slot: Slot | None, state: int, call_id: bytes, stem: str, started_at: float) -> None:
        self.slot = slot
        self.state = state
        self.call_id = call_id
        self.stem = stem
        self.started_at = started_at


def size_of(event: RawEvent) -> int:
    """Return what an event costs against `queue_max_bytes`."""
    if isinstance(event, Annotation):
        return EXCHANGE_OVERHEAD_BYTES
    chunks = len(event.response_chunks) + len(event.request_chunks)
    kept = event.request_bytes + event.response_bytes
    if event.request_sha256 or event.response_sha256:
        kept = sum(map(len, event.request_chunks)) + sum(map(len, event.response_chunks))
    return EXCHANGE_OVERHEAD_BYTES + CHUNK_OVERHEAD_BYTES * chunks + kept


class Intake:
    """The queue between the server's loops and the pipeline's thread."""

    def __init__(self, max_events: int, max_bytes: int, wake_descriptor: int) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._wake_descriptor = wake_descriptor
        self.queue: deque[Item] = deque()
        self.ended: deque[Ended] = deque()
        self.events = 0
        self.bytes = 0
        self.notes_dropped = 0
        self.asleep = False

    def offer(self, event: RawEvent, slot: Slot | None, now: float) -> bool:
        """Accept an event, or drop it at the bound; whether it was accepted. Never waits, never raises."""
        accepted = self.events < self._max_events and self.bytes < self._max_bytes
        if accepted:
            size = size_of(event)
            self.events += 1
            self.bytes += size
            if slot is not None:
                slot.mark(ACCEPTED)
            self.queue.append(Item(event, slot, size, now))
        else:
            self._drop(event, slot)
        if self.asleep:
            self.wake()
        return accepted

    def _drop(self, event: RawEvent, slot: Slot | None) -> None:
        """Let an event go; a call becomes a gap, a note is counted."""
        if isinstance(event, Annotation):
            self.notes_dropped += 1
            return
        if slot is not None:
            slot.mark(DROPPED)
        self.ended.append(Ended(slot, DROPPED, event.call_id, event.stem, event.started_at))

    def skip(self, slot: Slot | None) -> None:
        """Count a call that its handler asked not to record."""
        if slot is not None:
            slot.mark(SKIPPED)
        self.ended.append(Ended(slot, SKIPPED, b"", "", 0.0))
        if self.asleep:
            self.wake()

    def fail(self, slot: Slot | None, call_id: bytes, stem: str, started_at: float) -> None:
        """Account for a call that could not be handed over, by a fault of our own; it becomes a gap."""
        if slot is not None:
            slot.mark(FAILED)
        self.ended.append(Ended(slot, FAILED, call_id, stem, started_at))
        if self.asleep:
            self.wake()

    def release(self, item: Item) -> None:
        """Give an item's share of the bounds back, once its fate is known."""
        self.events -= 1
        self.bytes -= item.size

    def rouse(self) -> None:
        """Wake the thread if it sleeps."""
        if self.asleep:
            self.wake()

    def close(self) -> None:
        """Wake nobody any more: the descriptor's number may soon be another file's."""
        self.asleep = False
        self._wake_descriptor = -1

    def wake(self) -> None:
        """Wake the thread; a full pipe means that it is being woken already."""
        self.asleep = False
        try:
            os.write(self._wake_descriptor, b"\0")
        except OSError:
            return
