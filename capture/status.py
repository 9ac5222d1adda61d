"""The live view: every server process of a capture directory, what it counts, and what it has in flight.

Read from the ledgers alone, by any process of the host, while the servers run. A ledger that nobody writes for any
more is taken over first, as settle does, and shows among the retired. Counters and slots are read one after the
other and the servers do not stop for it, so the sums may be off by the calls that moved meanwhile: the difference
is shown, never asserted.
"""

from pathlib import Path

import msgspec

from pipeline import slots, takeover
from pipeline.account import LedgerView, anonymous_servers, ledger_paths
from pipeline.settings import ServerIdentity
from pipeline.takeover import Totals
from pipeline.unreadable import unreadable_ledgers

ALIVE = "alive"
"""Its lock is held: somebody may still write for it."""
DEAD = "dead"
"""Nobody writes for it, and it could not be taken over from here (the directory cannot be written, say)."""
FOREIGN = "foreign"
"""Of another host, or of this one before it was started anew: whether it lives cannot be told from here."""

_ENDS = ("committed", "dropped", "failed", "skipped", "spilled", "accepted", "open")
"""Where a call that started can be."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What one server process counted since it started; calls, unless the name says otherwise.

    `started` holds all that took a place in the account; `uncorrelated_skipped` calls never do. `unslotted` are
    calls that found no free place and were captured all the same. `worker_threads` is how many workers are threads.
    """

    started: int = 0
    committed: int = 0
    dropped: int = 0
    failed: int = 0
    skipped: int = 0
    spilled: int = 0
    accepted: int = 0
    open: int = 0
    unslotted: int = 0
    uncorrelated_skipped: int = 0
    annotations: int = 0
    annotations_dropped: int = 0
    captured_bytes: int = 0
    capture_errors: int = 0
    gaps_unwritten: int = 0
    worker_restarts: int = 0
    worker_threads: int = 0


class Queue(msgspec.Struct, frozen=True):
    """What waits for a worker or is with one, against `queue_max_events` and `queue_max_bytes`."""

    events: int
    bytes: int


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One server process. `state` is `alive`, `dead` or `foreign`; `worker_kind` is `process` or `thread`.

    `unbalanced` is `started` less every place where a call can be: 0, but for calls in motion while it was read.
    `last_commit_at` is Unix seconds, null before the first; `oldest_backlog_s` the age of the oldest exchange that
    is not durable yet, in seconds, 0 where there is none.
    """

    name: str | None
    instance: str
    host: str
    pid: int
    state: str
    ledger: str
    counts: Counts
    unbalanced: int
    queue: Queue
    last_commit_at: float | None
    oldest_backlog_s: float
    worker_kind: str


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a living server process that is not durable yet: `open`, `accepted` or `spilled`.

    `stem` is the name of its rollout's files, which is the rollout's id where that is a safe file name.
    """

    model_call_id: str
    stem: str
    state: str
    started_at: float
    pid: int
    instance: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """All of one capture directory.

    `retired` sums up the server processes that ended; `in_flight` is oldest first; `anonymous` names the living
    server processes whose account nobody else can read, `unreadable` the accounts that this user may not read.
    """

    servers: list[ServerStatus]
    retired: Totals
    in_flight: list[InFlight]
    anonymous: list[str]
    unreadable: list[str]


def read_status(directory: Path) -> Status:
    """Read every ledger once. Raises nothing for what it finds; an empty directory gives an empty status."""
    servers: list[ServerStatus] = []
    in_flight: list[InFlight] = []
    for path in ledger_paths(directory):
        ledger = LedgerView.open(path)
        if ledger is None:
            continue
        try:
            state = _state(ledger, directory)
            if state is not None:
                servers.append(_server(ledger, state))
            if state == ALIVE:
                in_flight += _calls(ledger)
        finally:
            ledger.close()
    in_flight.sort(key=_started_at)
    return Status(
        servers=servers,
        retired=takeover.read_totals(directory),
        in_flight=in_flight,
        anonymous=anonymous_servers(directory),
        unreadable=unreadable_ledgers(directory),
    )


def _state(ledger: LedgerView, directory: Path) -> str | None:
    """Tell what a ledger's server process is; None where it was dead and is now among the retired."""
    if not ledger.here:
        return FOREIGN
    if takeover.bury(ledger, directory) is None:
        return ALIVE
    return None if ledger.gone else DEAD


def _server(ledger: LedgerView, state: str) -> ServerStatus:
    identity: ServerIdentity = ledger.identity
    counters = ledger.counters()
    return ServerStatus(
        **msgspec.structs.asdict(identity),
        state=state,
        ledger=str(ledger.path),
        counts=msgspec.convert(counters, Counts),
        unbalanced=counters["started"] - sum(counters[name] for name in _ENDS),
        queue=Queue(counters["queued_events"], counters["queued_bytes"]),
        last_commit_at=counters["last_commit_us"] / 1e6 or None,
        oldest_backlog_s=counters["oldest_backlog_us"] / 1e6,
        worker_kind="thread" if counters["worker_threads"] else "process",
    )


def _calls(ledger: LedgerView) -> list[InFlight]:
    return [
        InFlight(
            model_call_id=view.call_id.hex(),
            stem=view.stem,
            state=slots.STATE_NAMES[view.state],
            started_at=view.started_at,
            pid=ledger.identity.pid,
            instance=ledger.identity.instance,
        )
        for _, view in ledger.calls(slots.UNFINISHED)
    ]


def _started_at(call: InFlight) -> float:
    return call.started_at
