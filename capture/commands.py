"""What each command of the command line does: ask the library, print the answer, say how it went by an exit code.

Every function takes the parsed options and the environment, writes its answer to stdout and returns an exit code.
What keeps it from answering is a `CommandError`, whose lines the caller writes to stderr. With `--json` one JSON
document is all that stdout gets, and nothing needs an extra but the demonstration itself.
"""

import os
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import anyio

from pipeline.gaps import Gap, record_path
from pipeline.settling import Settled
from pipeline.stems import is_uncorrelated, stem_of
from pipeline.takeover import Totals

from . import overview, tables
from .config import CaptureConfig, Setting
from .errors import CaptureError
from .following import Following
from .readable import as_stored, document, lines
from .status import Status
from .store import CaptureStore
from .wording import known, moment, plain

OK: Final = 0
MISSING: Final = 1
"""Gaps, disagreements, or no such rollout or call."""
USAGE: Final = 2
"""Wrong arguments or settings, or no directory; also argparse's own."""
NO_EXTRA: Final = 3
PENDING: Final = 4
INTERRUPTED: Final = 130
"""What a shell makes of SIGINT."""
PIPE_CLOSED: Final = 141
"""What a shell makes of SIGPIPE."""

EXTRAS: Final = {"cli": ("rich",), "demo": ("httpx", "rich", "uvicorn")}
"""What each optional part of the distribution brings."""
CLEAR_SCREEN = "\x1b[H\x1b[2J"


class CommandError(CaptureError):
    """Why a command cannot answer, one sentence a line, and the exit code that says so."""

    def __init__(self, code: int, *said: str) -> None:
        self.code = code
        self.said = said
        super().__init__("\n".join(said))


def demo(options: Namespace, _environ: Mapping[str, str]) -> int:
    """Run the demonstration; with `--json` its own table goes to stderr."""
    _require("demo", "the demonstration")
    from rich.console import Console  # noqa: PLC0415 - an extra, checked just before

    from .demo.processes import ServerStartError  # noqa: PLC0415 - as above
    from .demo.run import WIDTH, run_demo  # noqa: PLC0415 - as above

    folder = Path(options.directory or tempfile.mkdtemp(prefix="capture-demo-")).absolute()
    beside = Console(stderr=True, width=None if sys.stderr.isatty() else WIDTH) if options.json else None
    try:
        code = run_demo(folder, console=beside)
    except ServerStartError as error:
        raise CommandError(MISSING, *str(error).splitlines()) from error
    except OSError as error:
        raise CommandError(USAGE, f"cannot record into {folder}: {error.strerror}") from error
    if options.json:
        rollouts = _overviews(CaptureStore(folder))
        _say(document({"directory": str(folder), "agrees": code == OK, "rollouts": rollouts}))
    return code


def ls(options: Namespace, environ: Mapping[str, str]) -> int:
    """List the rollouts of a directory."""
    _require_tables(options)
    store = _store(options, environ)
    found = _overviews(store)
    if options.json:
        _say(document(found))
    elif found:
        _print_sheets([tables.rollouts_sheet(found)])
    else:
        _say(f"no calls are recorded in {plain(store.directory)}")
    return OK


def show(options: Namespace, environ: Mapping[str, str]) -> int:
    """Show the calls of one rollout, or one of them in full."""
    store = _store(options, environ)
    rollout = overview.load(store, _known_stem(store, options.rollout))
    if options.call is not None:
        return _show_call(rollout, options)
    _require_tables(options)
    records, gaps, damaged = rollout.reading.records, rollout.gaps, rollout.reading.damaged
    if options.json:
        stored = [as_stored(record) for record in records]
        answer = {"rollout_id": rollout.rollout_id, "records": stored, "gaps": gaps, "damaged": damaged}
        _say(document(answer))
        return OK
    _print_sheets([tables.calls_sheet(records)])
    _print_gaps(gaps)
    if damaged:
        _say(f"{damaged} lines cannot be read")
    return OK


def follow(options: Namespace, environ: Mapping[str, str]) -> int:
    """Print each record of a rollout as it comes, from the first one, until interrupted."""
    store = _store(options, environ)
    stem = overview.find_stem(store, options.rollout)
    if stem is None:
        stem = stem_of(options.rollout)
        sys.stderr.write(f"waiting for the first call of {plain(options.rollout)}\n")
    anyio.run(_print_records, record_path(store.directory, stem), options.json)
    return OK


def status(options: Namespace, environ: Mapping[str, str]) -> int:
    """Show the server processes and what is in flight, once or every so many seconds."""
    _require_tables(options)
    store = _store(options, environ)
    while True:
        found = store.status()
        if options.json:
            _say(document(found))
        else:
            _print_status(found, clear=options.watch is not None and sys.stdout.isatty())
        sys.stdout.flush()
        if options.watch is None:
            return OK
        time.sleep(options.watch)


def settle(options: Namespace, environ: Mapping[str, str]) -> int:
    """Wait for a rollout, or for the whole directory, and say by the exit code how it stands."""
    store = _store(options, environ)
    name = options.rollout
    if name is not None and is_uncorrelated(name):
        raise CommandError(USAGE, "calls without a rollout are settled with all the others: give no ROLLOUT")
    settled = store.settle(name, timeout=options.timeout)
    unsettled = bool(settled.pending or settled.unaccountable)
    if name is not None and not unsettled:
        _known_stem(store, name)
    if options.json:
        _say(document(settled))
    else:
        _print_settled(settled, "all rollouts" if name is None else f"rollout {plain(name)}")
    if unsettled:
        return PENDING
    return OK if settled.complete else MISSING


def config(options: Namespace, environ: Mapping[str, str]) -> int:
    """Show every setting with its effective value, where it comes from, and why its default is what it is."""
    _require_tables(options)
    settings = CaptureConfig.load(environ).explain()
    if options.json:
        _say(document([_setting(each) for each in settings]))
    else:
        _print_sheets([tables.settings_sheet(settings)])
    return OK


# What they share.


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _require(extra: str, what: str) -> None:
    """Raise where a package that an extra brings is not installed."""
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        need = " and ".join(missing)
        raise CommandError(
            NO_EXTRA, f"{what} needs {need}; install with: pip install 'model-call-capture[{extra}]'"
        )


def _require_tables(options: Namespace) -> None:
    if not options.json:
        _require("cli", "without --json this command prints a table, which")


def _store(options: Namespace, environ: Mapping[str, str]) -> CaptureStore:
    """Open the directory that is given, or that the settings name."""
    directory = options.directory or CaptureConfig.load(environ).directory
    if directory is None:
        raise CommandError(USAGE, "no directory: give --directory DIR, or set CAPTURE_DIRECTORY")
    if not Path(directory).is_dir():
        raise CommandError(USAGE, f"there is no directory {directory}")
    if not os.access(directory, os.R_OK | os.X_OK):
        raise CommandError(USAGE, f"directory {directory} may not be read by this user")
    return CaptureStore(Path(directory))


def _known_stem(store: CaptureStore, name: str) -> str:
    stem = overview.find_stem(store, name)
    if stem is None:
        raise CommandError(MISSING, f"no call of rollout {name} is recorded in {store.directory}")
    return stem


def _overviews(store: CaptureStore) -> list[overview.Overview]:
    return [overview.overview(store, stem) for stem in store.stems()]


def _show_call(rollout: overview.Rollout, options: Namespace) -> int:
    found = overview.find_calls(rollout.reading.records, options.call)
    if len(found) != 1:
        several = f"{len(found)} calls match" if found else "no call matches"
        raise CommandError(MISSING, f"{several} {options.call} in rollout {options.rollout}")
    members = as_stored(found[0])
    if options.json:
        _say(document(members))
        return OK
    bodies = {name: members.pop(name) for name in ("request", "response")}
    for line in lines({**_known(members), **bodies}):
        _say(line)
    return OK


def _known(members: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is null or empty, however deep."""
    said = {
        name: _known(value) if isinstance(value, dict) else value
        for name, value in members.items()
        if value not in (None, [], {})
    }
    return {name: value for name, value in said.items() if value != {}}


async def _print_records(path: Path, as_json: bool) -> None:  # noqa: FBT001 - anyio.run passes by position
    async for record in Following(path):
        cells = (*tables.call_cells(record), record.model_call_id)
        _say(document(as_stored(record)) if as_json else "  ".join(cells))
        sys.stdout.flush()


def _print_sheets(sheets: Iterable[tables.Sheet]) -> None:
    for sheet in sheets:
        sys.stdout.write(tables.draw(sheet, sys.stdout))


def _print_gaps(gaps: Iterable[Gap]) -> None:
    for gap in gaps:
        detail = f"  {plain(gap.detail)}" if gap.detail else ""
        _say(f"gap  {known(gap.model_call_id)}  {plain(gap.code)}  {moment(gap.started_at)}{detail}")


def _print_status(found: Status, *, clear: bool) -> None:
    if clear:
        sys.stdout.write(CLEAR_SCREEN)
    _print_sheets(tables.status_sheets(found, time.time()))
    for name in found.anonymous:
        _say(f"server {plain(name)} keeps its account where nobody else can read it")
    for name in found.unreadable:
        _say(f"{plain(name)} may not be read by this user")
    if not found.servers:
        _say("no server process writes here now")
    _say(_ended(found.retired))


def _ended(retired: Totals) -> str:
    counts = {**retired.counts, "lost": retired.lost}
    counted = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items() if count)
    return f"ended server processes: {retired.processes}" + (f" ({counted})" if counted else "")


def _print_settled(settled: Settled, what: str) -> None:
    word = "complete" if settled.complete else "not complete"
    _say(f"{what}: {word} after {settled.waited_s:.3f} s")
    _print_gaps(settled.gaps)
    for call in settled.pending:
        _say(f"pending  {call.model_call_id}  {call.state} in process {call.pid}  {moment(call.started_at)}")
    for name in settled.unaccountable:
        _say(f"unaccountable  {plain(name)}")


def _setting(setting: Setting) -> dict[str, Any]:
    value = setting.value
    return {**setting._asdict(), "value": dict(value) if isinstance(value, Mapping) else value}
