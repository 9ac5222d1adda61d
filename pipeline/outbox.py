"""Gaps on their way to their files: what was lost is named in a line that is as durable as a record.

A gap travels to the worker of its rollout as an exchange does. One that could not be written is sent again after a
while; the slot of its call holds it meanwhile, so that a reader sees it in the ledger. Calls without a slot have only
this memory: beyond `WAITING_MAX` of them they are counted, and no line is written.
"""

from .frames import GapNote
from .gaps import Gap
from .intake import Ended
from .ledger import Ledger
from .supervisor import Parcel

RETRY_S = 0.5
WAITING_MAX = 1 << 16
"""About 40 MB of gaps that no worker takes."""


class Outbox:
    """The gaps of one pipeline, until their lines are durable. Used by the pipeline's thread only."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[tuple[float, Parcel]] = []
        self._under_way = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def name(self, call: Ended, code: str, detail: str | None) -> None:
        """Name a call that will have no record; its line is due at once."""
        if call.slot is None and self._under_way >= WAITING_MAX:
            self._ledger.finish(None, call.state)
            self._ledger.count("gaps_unwritten")
            return
        gap = Gap(
            model_call_id=call.call_id.hex(), code=code, started_at=round(call.started_at, 6), detail=detail
        )
        self._under_way += 1
        self._waiting.append((0.0, Parcel(GapNote(call.stem, gap), call)))

    def due(self, now: float) -> list[Parcel]:
        """Take out the gaps whose turn it is."""
        due = [parcel for at, parcel in self._waiting if at <= now]
        self._waiting = [entry for entry in self._waiting if entry[0] > now]
        return due

    def end(self, parcel: Parcel, now: float, *, committed: bool) -> None:
        """Count a call whose gap line is durable; else the line is due again in a while."""
        if committed:
            self._under_way -= 1
            self._ledger.finish(parcel.call.slot, parcel.call.state)
        else:
            self._waiting.append((now + RETRY_S, Parcel(parcel.event, parcel.call)))
