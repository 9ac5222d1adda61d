"""The tables that the commands print. What is in them is decided here; rich only draws them.

A `Sheet` is text in columns, already escaped, and needs nothing installed. `draw` needs rich: in a terminal it fits
the window and marks rows in trouble red; anywhere else there is no colour and a row is one line, however long, so
that it can be searched and cut.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TextIO

from .config import Setting
from .overview import Overview
from .reading import StoredRecord
from .status import DEAD, FOREIGN, InFlight, ServerStatus, Status
from .wording import UNKNOWN, age, known, milliseconds, moment, plain, size, span

IN_FLIGHT_SHOWN = 20
LINE_WIDTH = 100_000
"""Of a page that is no terminal: no row is ever folded."""


class Row(NamedTuple):
    """One line of a sheet; `trouble` marks what somebody should look at."""

    cells: Sequence[str]
    trouble: bool = False


class Sheet(NamedTuple):
    """A table as text. Columns whose name is in `right` hold numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    right: frozenset[str] = frozenset()


def rollouts_sheet(overviews: Iterable[Overview]) -> Sheet:
    """Lay out `capture ls`: one row a rollout."""
    columns = (
        "rollout",
        "calls",
        "dialects",
        "models",
        "in",
        "out",
        "errors",
        "gaps",
        "damaged",
        "last call",
    )
    rows = [Row(_rollout_cells(each), bool(each.gaps or each.damaged)) for each in overviews]
    right = frozenset(("calls", "in", "out", "errors", "gaps", "damaged", "size"))
    return Sheet("Rollouts", (*columns, "size"), rows, right)


def _rollout_cells(each: Overview) -> list[str]:
    return [
        plain(each.stem if each.rollout_id is None else each.rollout_id),
        str(each.calls),
        plain(" ".join(each.dialects)) or UNKNOWN,
        plain(" ".join(each.models)) or UNKNOWN,
        known(each.input_tokens),
        known(each.output_tokens),
        str(each.errors),
        str(each.gaps),
        str(each.damaged),
        moment(each.last_call_at),
        size(each.file_bytes),
    ]


CALL_COLUMNS = (
    "completed",
    "dialect",
    "model",
    "status",
    "finish",
    "in",
    "out",
    "tools",
    "ms",
    "first token",
    "error",
    "flags",
)


def calls_sheet(records: Sequence[StoredRecord]) -> Sheet:
    """Lay out `capture show`: one row a call, numbered from 1."""
    rows = [
        Row([str(number), *call_cells(record), record.model_call_id], record.error_category is not None)
        for number, record in enumerate(records, 1)
    ]
    right = frozenset(("#", "in", "out", "ms", "first token"))
    return Sheet("Calls", ("#", *CALL_COLUMNS, "id"), rows, right)


def call_cells(record: StoredRecord) -> list[str]:
    """Return one call as text, under `CALL_COLUMNS`."""
    usage = record.usage
    return [
        moment(record.completed_at),
        known(record.dialect),
        known(record.model),
        known(record.status_code),
        known(record.finish),
        known(usage and usage.input_tokens),
        known(usage and usage.output_tokens),
        " ".join(known(call.name) for call in record.tool_calls or ()) or UNKNOWN,
        milliseconds(record.latency_ms),
        milliseconds(record.timing.first_token_ms),
        known(record.error_category),
        plain(" ".join(record.flags)) or UNKNOWN,
    ]


def status_sheets(status: Status, now: float) -> list[Sheet]:
    """Lay out `capture status`: the server processes, and the oldest calls in flight. `now` is Unix seconds."""
    servers = [_servers_sheet(status.servers, now)] if status.servers else []
    return servers + ([_in_flight_sheet(status.in_flight, now)] if status.in_flight else [])


SERVER_COUNTS = ("started", "committed", "open", "accepted", "spilled", "dropped", "failed", "skipped")


def _servers_sheet(servers: Iterable[ServerStatus], now: float) -> Sheet:
    columns = (
        "server",
        "pid",
        "state",
        *SERVER_COUNTS,
        "queue",
        "last commit",
        "backlog",
        "workers",
        "notes",
    )
    rows = [
        Row(_server_cells(each, now), each.state == DEAD or bool(each.counts.dropped or each.counts.failed))
        for each in servers
    ]
    return Sheet("Server processes", columns, rows, frozenset(("pid", *SERVER_COUNTS)))


def _server_cells(each: ServerStatus, now: float) -> list[str]:
    commit = age(each.last_commit_at, now)
    return [
        plain(each.name or each.instance) + (f" on {plain(each.host)}" if each.state == FOREIGN else ""),
        str(each.pid),
        each.state,
        *(str(getattr(each.counts, name)) for name in SERVER_COUNTS),
        f"{each.queue.events} ({size(each.queue.bytes)})",
        commit if commit == UNKNOWN else f"{commit} ago",
        span(each.oldest_backlog_s),
        each.worker_kind,
        _notes(each),
    ]


NOTED = (
    "unslotted",
    "uncorrelated_skipped",
    "annotations_dropped",
    "capture_errors",
    "gaps_unwritten",
    "worker_restarts",
)
"""Counters that are worth a word only where they are not 0."""


def _notes(each: ServerStatus) -> str:
    said = [
        f"{name.replace('_', ' ')} {count}" for name in NOTED if (count := getattr(each.counts, name)) > 0
    ]
    return ", ".join(said + ([f"off by {each.unbalanced}"] if each.unbalanced else []))


def _in_flight_sheet(calls: Sequence[InFlight], now: float) -> Sheet:
    rows = [
        Row([plain(call.stem), call.state, age(call.started_at, now), str(call.pid), call.model_call_id])
        for call in calls[:IN_FLIGHT_SHOWN]
    ]
    more = len(calls) - len(rows)
    title = f"In flight ({len(calls)}" + (f", the oldest {len(rows)})" if more else ")")
    return Sheet(title, ("rollout", "state", "since", "pid", "id"), rows, frozenset(("since", "pid")))


def settings_sheet(settings: Iterable[Setting]) -> Sheet:
    """Lay out `capture config`: one row a setting."""
    rows = [Row([each.name, plain(each.text), plain(each.source), each.reason]) for each in settings]
    return Sheet("Settings", ("setting", "value", "source", "why the default is what it is"), rows)


def draw(sheet: Sheet, stream: TextIO) -> str:
    """Return a sheet as the text to write to `stream`. Needs rich."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - an extra: all else here works without it
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    in_terminal = stream.isatty()
    table = Table(title=sheet.title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, expand=False)
    for name in sheet.columns:
        table.add_column(name, justify="right" if name in sheet.right else "left", overflow="fold")
    for row in sheet.rows:
        table.add_row(*map(Text, row.cells), style="red" if row.trouble else None)
    console = Console(file=stream, width=None if in_terminal else LINE_WIDTH, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()
