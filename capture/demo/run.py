"""The demonstration: a scripted model behind two server processes with capture on, driven, settled, compared.

It starts the server as a user would, lets the agents of `drive` loose on it, asks the store for each rollout once
it is settled, and holds every record against what its client saw. It ends with 0 only if all of them agree and
nothing is missing.
"""

import secrets
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
from rich.console import Console
from rich.table import Table

from capture.demo.compare import disagreements
from capture.demo.drive import Report, drive
from capture.demo.processes import serve
from capture.demo.wire import Json
from capture.store import CaptureStore

SERVER_PROCESSES = 2
SETTLE_TIMEOUT_S = 30.0
TARGET = "capture.asgi:app"
APP = "capture.demo.served:app"
AGREE, DISAGREE = 0, 1

COLUMNS = ("rollout", "calls", "dialect", "stream", "status", "in", "out", "tools", "errors", "gaps")
RIGHT = {"calls", "in", "out", "tools", "gaps"}
UNKNOWN = "-"
WIDTH = 120
"""Of the table where nobody said how wide the terminal is (a log, say)."""


class Result(msgspec.Struct, frozen=True):
    """One rollout: what its client saw, what is recorded, what is missing, and where they disagree."""

    report: Report
    records: list[Json]
    gaps: list[Json]
    problems: list[str]


def run_demo(directory: Path | None = None, *, console: Console | None = None) -> int:
    """Run the demonstration into `directory` (made if absent; without one, a new temporary one that is kept).

    Prints what was recorded and where. Returns 0 if every record agrees with what its client saw, else 1.
    """
    out = console or _console()
    folder = Path(directory or tempfile.mkdtemp(prefix="capture-demo-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    results, seconds = _record(folder)
    out.print(_table(results))
    _conclude(out, folder, results, seconds)
    return DISAGREE if any(result.problems for result in results) else AGREE


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def _record(folder: Path) -> tuple[list[Result], float]:
    """Serve, drive and settle; return each rollout's result, and how long settling took, s."""
    environ = {"CAPTURE_ENABLED": "1", "CAPTURE_DIRECTORY": str(folder), "CAPTURE_APP": APP}
    with serve(TARGET, log=folder / "demo-server.log", workers=SERVER_PROCESSES, environ=environ) as server:
        reports = anyio.run(drive, server.url, f"demo-{secrets.token_hex(3)}")
        started = time.monotonic()
        results = [_settled(folder, report) for report in reports]
        return results, time.monotonic() - started


def _settled(folder: Path, report: Report) -> Result:
    store = CaptureStore(folder)
    settled = store.settle(report.rollout_id, timeout=SETTLE_TIMEOUT_S)
    records = _plain(store.read(report.rollout_id))
    gaps = _plain(store.gaps(report.rollout_id))
    problems = disagreements(report, records, gaps)
    if not settled.complete:
        problems.append(
            f"not settled after {settled.waited_s:.1f} s: {len(settled.pending)} calls are pending"
        )
    return Result(report, records, gaps, problems)


def _plain(values: Sequence[Any]) -> list[Json]:
    return [msgspec.to_builtins(value) for value in values]


def _table(results: Sequence[Result]) -> Table:
    """Lay the results out; `in` and `out` are tokens, `tools` tool calls, a rollout in red disagrees."""
    table = Table(title="Recorded model calls", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in RIGHT else "left", no_wrap=column == "rollout")
    for result in results:
        table.add_row(*_row(result), style="red" if result.problems else None)
    return table


def _row(result: Result) -> list[str]:
    """One rollout's cells, all of them taken from its records."""
    records = result.records
    return [
        result.report.rollout_id,
        str(len(records)),
        _each(records, "dialect"),
        "yes" if any(record["stream"] for record in records) else "no",
        _each(records, "status_code"),
        _tokens(records, "input_tokens"),
        _tokens(records, "output_tokens"),
        str(sum(len(record["tool_calls"] or ()) for record in records)),
        _each(records, "error_category"),
        str(len(result.gaps)),
    ]


def _each(records: Sequence[Json], name: str) -> str:
    """Every value once, in order of first appearance; null is none of them."""
    return " ".join(dict.fromkeys(str(record[name]) for record in records if record[name] is not None))


def _tokens(records: Sequence[Json], name: str) -> str:
    """Add up what is known."""
    counts = [(record["usage"] or {}).get(name) for record in records]
    known = [count for count in counts if count is not None]
    return str(sum(known)) if known else UNKNOWN


def _conclude(out: Console, folder: Path, results: Sequence[Result], seconds: float) -> None:
    calls = sum(len(result.report.calls) for result in results)
    records = sum(len(result.records) for result in results)
    writers = {record["server"]["pid"] for result in results for record in result.records}
    out.print(
        f"{calls} calls made by {len(results)} clients, {records} recorded "
        f"by {len(writers)} of {SERVER_PROCESSES} server processes, "
        f"settled in {seconds * 1000:.0f} ms."
    )
    out.print(f"Files: {folder}/<rollout>.capture.jsonl", soft_wrap=True)
    for result in results:
        for problem in result.problems:
            out.print(f"{result.report.rollout_id}: {problem}", style="red", soft_wrap=True, markup=False)
    if not any(result.problems for result in results):
        out.print("Every record agrees with what its client saw.", style="green")
