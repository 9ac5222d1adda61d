"""Settle: wait until every call that started before is in its file, or is named as a gap.

A snapshot of (ledger, slot, generation) is taken once; each entry is waited for until its slot has left the
unfinished states or holds another call. Times are never compared, so clocks do not matter. A ledger whose lock
becomes free meanwhile is taken over here, and its calls are then in the files or named as gaps. Calls of a run that
was cleared are nobody's any more, and are not waited for.

Sans-IO as far as waiting goes: the caller polls and sleeps as its world does.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from . import places, slots, takeover
from .account import Call, LedgerView, anonymous_servers, ledger_paths
from .fences import Fences
from .gaps import Gap
from .unreadable import unreadable_ledgers

SPAN_ALL = (slots.ACCEPTED, slots.SPILLED)
"""What a settle of the whole directory waits for: an open call may stay open for hours."""


class PendingCall(msgspec.Struct, frozen=True):
    """A call that was not settled in time: where it stands, and which server process has it."""

    model_call_id: str
    stem: str
    state: str
    started_at: float
    pid: int


class Settled(msgspec.Struct, frozen=True):
    """What a settle found.

    `complete` says that nothing is pending, missing or beyond account. `pending` are the calls that were still on
    their way at the timeout; `gaps` what is known to be missing; `unaccountable` the server processes whose ledger
    cannot be read from here (another host's or user's, or one without a file): nobody can say what they still have.
    """

    complete: bool
    waited_s: float
    pending: tuple[PendingCall, ...] = ()
    gaps: tuple[Gap, ...] = ()
    unaccountable: tuple[str, ...] = ()


class Waited(NamedTuple):
    """One call that is waited for."""

    ledger: LedgerView
    call: Call


class Settling:
    """One settle under way. `poll` until it says yes or time is over, take the `result`, and `close` it.

    A look may read files and write gaps, so it is nothing for an event loop.
    """

    def __init__(self, directory: Path, stem: str | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._directory = directory
        self._stem = stem
        self._fences = Fences(directory)
        self._states = SPAN_ALL if stem is None else slots.UNFINISHED
        self._ledgers: list[LedgerView] = []
        self._waited: list[Waited] = []
        self._lost: list[Gap] = []
        self._unaccountable: list[str] = []
        try:
            self._look_at_all()
        except OSError:
            self._unaccountable.append(str(places.default_folder(directory)))
        except BaseException:
            self.close()
            raise

    @property
    def waited_s(self) -> float:
        """Seconds since the snapshot."""
        return self._clock() - self._began

    def poll(self) -> bool:
        """Look again; whether nothing is waited for any more."""
        self._waited = [entry for entry in self._waited if self._still(entry)]
        for ledger in {id(entry.ledger): entry.ledger for entry in self._waited}.values():
            if self._bury(ledger):
                self._waited = [entry for entry in self._waited if entry.ledger is not ledger]
        return not self._waited

    def result(self, named: list[Gap]) -> Settled:
        """Return what was found, with the gaps that the files name."""
        pending = tuple(self._pending(entry) for entry in self._waited)
        known = {gap.model_call_id for gap in named}
        gaps = tuple(named + [gap for gap in self._lost if gap.model_call_id not in known])
        complete = not (pending or gaps or self._unaccountable)
        return Settled(complete, self.waited_s, pending, gaps, tuple(self._unaccountable))

    def close(self) -> None:
        """Close every ledger."""
        while self._ledgers:
            self._ledgers.pop().close()

    def _look_at_all(self) -> None:
        self._unaccountable += anonymous_servers(self._directory) + unreadable_ledgers(self._directory)
        for path in ledger_paths(self._directory):
            if (ledger := LedgerView.open(path)) is not None:
                self._ledgers.append(ledger)
                self._look(ledger)

    def _look(self, ledger: LedgerView) -> None:
        """Take one ledger's part of the snapshot."""
        calls = [
            call
            for call in ledger.calls(self._states)
            if self._stem in (None, call.view.stem) and not call.held_by(self._fences)
        ]
        if not ledger.here:
            if not self._all_present(calls):
                self._unaccountable.append(ledger.path.name)
        elif not self._bury(ledger):
            self._waited += [Waited(ledger, call) for call in calls]

    def _all_present(self, calls: list[Call]) -> bool:
        """Whether all calls are in their files, as far as those can be read."""
        try:
            return not takeover.missing_calls(calls, self._directory)
        except OSError:
            return False

    def _still(self, entry: Waited) -> bool:
        return entry.ledger.still(entry.call, self._states) is not None

    def _bury(self, ledger: LedgerView) -> bool:
        """Take a ledger over if it is dead, and keep what it lost of this settle's calls; whether it is dead."""
        lost = takeover.bury(ledger, self._directory)
        for stem, gaps in (lost or {}).items():
            self._lost += gaps if self._stem in (None, stem) else []
        return lost is not None

    def _pending(self, entry: Waited) -> PendingCall:
        view = entry.ledger.still(entry.call, self._states) or entry.call.view
        return PendingCall(
            view.call_id.hex(),
            view.stem,
            slots.STATE_NAMES[view.state],
            view.started_at,
            entry.ledger.identity.pid,
        )
