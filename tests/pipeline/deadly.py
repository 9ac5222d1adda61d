"""Ledgers as a killed server process leaves them, made in the test's own process."""

from pathlib import Path

from pipeline.account import LedgerView
from pipeline.gaps import record_path
from pipeline.ledger import Ledger, new_identity
from pipeline.settings import PipelineSettings
from pipeline.slots import STATE_NAMES


def call_id(number: int) -> bytes:
    """Make the id of call `number`."""
    return number.to_bytes(16, "big")


def new_ledger(directory: Path, calls: dict[int, tuple[str, str]]) -> Ledger:
    """Make a ledger with calls by number: stem and name of their state."""
    settings = PipelineSettings(directory=str(directory))
    ledger = Ledger(settings, new_identity(settings))
    for number, (stem, state) in calls.items():
        slot = ledger.open(call_id(number), float(number), stem.encode())
        assert slot is not None
        slot.mark(STATE_NAMES.index(state))
    return ledger


def dead_ledger(directory: Path, calls: dict[int, tuple[str, str]]) -> Path:
    """Make a ledger that nobody writes for any more; return its path."""
    ledger = new_ledger(directory, calls)
    assert ledger.path is not None
    ledger.close()
    return ledger.path


def record(directory: Path, stem: str, *numbers: int) -> None:
    """Write the lines of these calls, as short as a record can be."""
    with record_path(directory, stem).open("ab") as file:
        for number in numbers:
            file.write(b'{"model_call_id":"%s","schema":"model-call/1"}\n' % call_id(number).hex().encode())


def view_of(path: Path) -> LedgerView:
    """Open a ledger as a reader."""
    view = LedgerView.open(path)
    assert view is not None
    return view


def rename_as(path: Path, host: str, boot: str) -> Path:
    """Make a ledger look like another host's or another boot's."""
    _, _, rest = path.name.split("-", 2)
    return path.rename(path.with_name(f"{host}-{boot}-{rest}"))


def descriptors() -> int:
    """Return how many descriptors this process has open (Linux)."""
    return len(list(Path("/proc/self/fd").iterdir())) - 1
