"""The tables that the commands print. What is in them is decided here; rich only draws them.

A `Sheet` is text in columns, already escaped, and needs nothing installed. `draw` needs rich: in a terminal it fits
the window as far as cells that must stay whole allow, and marks rows in trouble red; anywhere else there is no colour
and a row is one line, however long, so that it can be searched and cut.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TextIO

from .config import Setting
from .overview import Overview
from .reading import StoredRecord
from .status import DEAD, FOREIGN, InFlight, ServerStatus, Status
from .wording import UNKNOWN, age, known, milliseconds, moment, plain, size, span

IN_FLIGHT_SHOWN = 20
LINE_WIDTH = 100_000
"""Of a page that is no terminal: no row is ever folded."""


FOLDED_WIDTH = 12
"""The least that a column which gives way is left."""
GAP_WIDTH = 2
"""Between two columns."""


class Row(NamedTuple):
    """One line of a sheet; `trouble` marks what somebody should look at."""

    cells: Sequence[str]
    trouble: bool = False


class Sheet(NamedTuple):
    """A table as text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]


NUMBERS = frozenset(
    (
        *("#", "calls", "in", "out", "errors", "gaps", "damaged", "size", "ms", "ttft ms"),
        *("pid", "started", "committed", "open", "accepted", "since"),
    )
)
"""Columns that are set to the right."""
FOLDED = frozenset(("rollout", "models", "model", "tools", "flags", "notes", "value", "source", "reason"))
"""Columns that give way where the window is too narrow; all others keep their cells whole."""


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
    return Sheet("Rollouts", (*columns, "size"), rows)


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
    "ttft ms",
    "error",
    "flags",
)


def calls_sheet(records: Sequence[StoredRecord]) -> Sheet:
    """Lay out `capture show`: one row a call, numbered from 1."""
    rows = [
        Row([str(number), *call_cells(record)], record.error_category is not None)
        for number, record in enumerate(records, 1)
    ]
    return Sheet("Calls", ("#", *CALL_COLUMNS), rows)


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


SERVER_COUNTS = ("started", "committed", "open", "accepted")


def _servers_sheet(servers: Iterable[ServerStatus], now: float) -> Sheet:
    columns = (
        "server",
        "pid",
        "state",
        *SERVER_COUNTS,
        "queue",
        "last commit",
        "backlog",
        "notes",
    )
    rows = [
        Row(_server_cells(each, now), each.state == DEAD or bool(each.counts.dropped or each.counts.failed))
        for each in servers
    ]
    return Sheet("Server processes", columns, rows)


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
        _notes(each),
    ]


NOTED = (
    "dropped",
    "failed",
    "skipped",
    "spilled",
    "unslotted",
    "uncorrelated_skipped",
    "annotations_dropped",
    "capture_errors",
    "gaps_unwritten",
    "worker_restarts",
    "worker_threads",
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
    return Sheet(title, ("rollout", "state", "since", "pid", "id"), rows)


def settings_sheet(settings: Iterable[Setting]) -> Sheet:
    """Lay out `capture config`: one row a setting."""
    rows = [Row([each.name, plain(each.text), plain(each.source), each.reason]) for each in settings]
    return Sheet("Settings", ("setting", "value", "source", "reason"), rows)


def draw(sheet: Sheet, stream: TextIO) -> str:
    """Return a sheet as the text to write to `stream`. Needs rich."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - an extra: all else here works without it
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(
        title=sheet.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name in sheet.columns:
        justify: Literal["left", "right"] = "right" if name in NUMBERS else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name not in FOLDED)
    for row in sheet.rows:
        table.add_row(*map(Text, row.cells), style="red" if row.trouble else None)
    console = Console(file=stream, highlight=False)
    console.width = max(console.width, _narrowest(sheet)) if stream.isatty() else LINE_WIDTH
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _narrowest(sheet: Sheet) -> int:
    """Return the width below which rich would cut cells; a window that has less folds the rows itself."""
    texts = [[name, *(row.cells[at] for row in sheet.rows)] for at, name in enumerate(sheet.columns)]
    widths = [max(map(len, cells)) for cells in texts]
    held = [
        min(width, max(len(name), FOLDED_WIDTH)) if name in FOLDED else width
        for name, width in zip(sheet.columns, widths, strict=True)
    ]
    return sum(held) + GAP_WIDTH * (len(held) + 1)
