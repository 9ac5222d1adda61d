"""The account of every exchange of this server process, in memory that other processes can read.

The request path calls `open` (takes a slot) and stores single bytes; everything else is the pipeline's thread:
counting, freeing, adding a segment when three quarters are taken, making a new file when somebody removed the old
one. Free slots are last in, first out, so few pages are touched. Where no file can be made it is anonymous memory,
which no reader can see.

The lock on the first segment's descriptor says that somebody may still write for this ledger: workers inherit it.
It is never unlocked, only closed.
"""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from mmap import mmap
from pathlib import Path

from . import places, slots
from .log import log
from .segment import Segment, anonymous, make, uses
from .settings import PipelineSettings, ServerIdentity
from .slots import Slot

SLOTS_MAX = 1 << 17
"""Beyond 131,072 calls at once (32 MiB) a call is captured all the same, and counted `unslotted`."""


def new_identity(settings: PipelineSettings) -> ServerIdentity:
    """Name this server process; the instance is new for each process and each start of a pipeline."""
    return ServerIdentity(
        name=settings.server_name, instance=secrets.token_hex(6), host=places.host_name(), pid=os.getpid()
    )


def _do_nothing() -> None:
    """Stand where nobody wants to know that free slots run low."""


class Ledger:
    """Owner's side of one ledger. Only one thread (the pipeline's) may call what is not `open`."""

    def __init__(self, settings: PipelineSettings, identity: ServerIdentity) -> None:
        self.identity = identity
        self._settings = settings
        self._directory = Path(settings.directory)
        self._base = f"{identity.host}-{places.boot_id()}-{identity.pid}-{identity.instance}.ledger"
        self._announcement: int | None = None
        self.segments: list[Segment] = []
        self.moves = 0
        self.when_low: Callable[[], None] = _do_nothing
        self._low = 0
        self._lost: list[Segment] = []
        self._carried = 0
        self._maps: set[mmap] = set()
        self.free: list[Slot] = []
        self._capacity = 0
        self.counts = dict.fromkeys(slots.COUNTERS, 0)
        self._add(self._first_segment())

    @property
    def path(self) -> Path | None:
        """The first segment's file; None for anonymous memory."""
        return self.segments[0].path

    @property
    def lock_descriptor(self) -> int | None:
        """The descriptor whose lock says that this ledger is written for; workers inherit it."""
        return self.segments[0].descriptor

    @property
    def in_use(self) -> int:
        """How many slots hold a call that is not finished and counted."""
        return self._capacity - len(self.free)

    def open(self, call_id: bytes, started_at: float, stem: bytes) -> Slot | None:
        """Take a slot for a call that starts now, or None when all are taken. The request path's one call."""
        try:
            slot = self.free.pop()
        except IndexError:
            return None
        slot.occupy(call_id, started_at, stem)
        if len(self.free) <= self._low:
            self.when_low()
        return slot

    def finish(self, slot: Slot | None, state: int) -> None:
        """Count a call's end and give its slot back. `state` is committed, dropped, failed or skipped."""
        if slot is None:
            self.count("unslotted")
            self.count(slots.STATE_NAMES[state])
            return
        slot.mark(state)
        self.count(slots.STATE_NAMES[state])
        slot.mark(slots.FREE)
        if slot.map in self._maps:
            self.free.append(slot)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a counter, here and in the map."""
        self.publish(name, self.counts[name] + more)

    def publish(self, name: str, value: int) -> None:
        """Set a counter, here and in the map; once the map is closed, only here."""
        self.counts[name] = value
        with suppress(ValueError):
            slots.write_counter(self.segments[0].view, name, value)

    def started(self) -> int:
        """Return how many calls ever started here: every use of a slot, and the unslotted ones."""
        return uses(self.segments) + uses(self._lost) + self._carried + self.counts["unslotted"]

    def states(self) -> dict[str, int]:
        """Return how many slots are in each state now, by name, lost files included."""
        held = [slot.state for segment in self.segments + self._lost for slot in segment.all]
        return {name: held.count(state) for state, name in enumerate(slots.STATE_NAMES)}

    def grow_if_needed(self) -> None:
        """Add a segment once three quarters of all slots are taken."""
        if len(self.free) > self._low or self._capacity >= SLOTS_MAX:
            return
        first = self.segments[0]
        path = first.path and first.path.with_name(f"{first.path.name}.{len(self.segments)}")
        number = len(self.segments)
        made = make(path, number, self.identity) if path else None
        self._add(made or anonymous(number, self.identity))

    def gone(self) -> bool:
        """Whether any of this ledger's files was removed from under it."""
        return any(segment.gone() for segment in self.segments)

    def move(self) -> None:
        """Go on in new files after somebody removed the old ones.

        Calls that are in the lost maps are finished there, unseen by readers; what started there is carried over.
        An event loop may have taken a slot of a lost map and not yet filled it in, so those are counted again
        until they have been at rest for two looks of `tend_lost`.
        """
        for segment in self.segments:
            segment.forsake()
        fresh = self._first_segment()
        self.moves += 1
        self._lost += self.segments
        self._maps, self.segments, self._capacity = {fresh.view}, [fresh], fresh.slots
        self.free = fresh.all[::-1]
        self._low = self._capacity // 4
        self.tend_lost()
        for name, value in self.counts.items():
            self.publish(name, value)

    def tend_lost(self) -> None:
        """Let go of lost maps in which nothing happens any more, and publish what started in them."""
        if not self._lost:
            return
        held = [segment for segment in self._lost if segment.in_motion()]
        for segment in self._lost:
            if segment not in held:
                self._carried += uses([segment])
                segment.let_go()
        self._lost = held
        self.publish("carried", self._carried + uses(held))

    def close(self) -> None:
        """Close everything, as the child of a fork or at the end; nothing is unlocked or unlinked.

        Whoever opens a call all the same gets no slot.
        """
        self.free = []
        for segment in self.segments + self._lost:
            segment.close()
        if self._announcement is not None:
            os.close(self._announcement)
            self._announcement = None

    def unlink(self) -> None:
        """Remove the files of a ledger with nothing left to account for."""
        for segment in reversed(self.segments):
            if segment.path is not None:
                segment.path.unlink(missing_ok=True)
        places.announcement(self._directory, self._base).unlink(missing_ok=True)

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._maps.add(segment.view)
        self._capacity += segment.slots
        self.free[:0] = reversed(segment.all)
        self._low = self._capacity // 4

    def _first_segment(self) -> Segment:
        """Try each folder at each size, then fall back to memory that no reader sees."""
        for folder in places.candidates(self._directory, self._settings.state_directory):
            try:
                places.make_private(folder, self._settings.directory_mode)
            except OSError as error:
                log.warning("ledger_folder_refused", folder=str(folder), error=str(error))
                continue
            made = make(folder / self._base, 0, self.identity)
            if made is not None and self._announce(folder):
                return made
            if made is not None:
                made.discard()
        log.warning(
            "ledger_anonymous", reason="no file could be made; settle calls this server unaccountable"
        )
        self._announce(None)
        return anonymous(0, self.identity)

    def _announce(self, folder: Path | None) -> bool:
        """Name this ledger where readers look, unless it is there already; False where that failed."""
        if folder == places.default_folder(self._directory):
            return True
        content = places.ANONYMOUS if folder is None else str(folder)
        mode = self._settings.directory_mode
        try:
            descriptor = places.announce(self._directory, self._base, content, mode)
        except OSError as error:
            log.warning("ledger_not_announced", error=str(error))
            return False
        if self._announcement is not None:
            os.close(self._announcement)
        self._announcement = descriptor
        return True
