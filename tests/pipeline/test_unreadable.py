"""Ledgers that a user may not read are named, never taken for nothing."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import places
from pipeline.unreadable import unreadable_ledgers

ROOT = Path(__file__).parents[2]
NOBODY = 65534
AS_ANOTHER = f"""
import json, os, sys
sys.path.insert(0, {str(ROOT)!r})
from capture import CaptureStore
import capture.store, msgspec
if os.getuid() == 0:
    os.setgid({NOBODY})
    os.setuid({NOBODY})
store = CaptureStore(sys.argv[1])
print(json.dumps(msgspec.to_builtins([store.settle("a", timeout=0), store.status()])))
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Give a directory that every user may read, its folder of ledgers too."""
    with tempfile.TemporaryDirectory() as name:
        folder = places.default_folder(Path(name))
        folder.mkdir()
        Path(name).chmod(0o755)
        folder.chmod(0o755)
        yield Path(name)
        folder.chmod(0o755)


def as_another(directory: Path) -> Any:  # noqa: ANN401 - what the program printed
    """Settle and look as a user who is not root: `[settled, status]`."""
    command = [sys.executable, "-c", AS_ANOTHER, str(directory)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=30)
    return json.loads(done.stdout)


def test_a_closed_ledger_makes_a_settle_unaccountable(directory: Path) -> None:
    """A file that may not be read is named by settle, which is not complete, and by status; a readable one is not."""
    folder = places.default_folder(directory)
    for name, mode in (("closed.ledger", 0), ("open.ledger", 0o644)):
        (folder / name).touch()
        (folder / name).chmod(mode)
    settled, status = as_another(directory)
    assert (settled["complete"], settled["unaccountable"]) == (False, ["closed.ledger"])
    assert (status["servers"], status["unreadable"]) == ([], ["closed.ledger"])


def test_a_closed_folder_is_named_itself(directory: Path) -> None:
    """Where the ledgers cannot even be listed, the folder stands for them."""
    folder = places.default_folder(directory)
    folder.chmod(0o300 if os.getuid() else 0o700)
    settled, status = as_another(directory)
    assert (settled["complete"], settled["unaccountable"]) == (False, [str(folder)])
    assert status["unreadable"] == [str(folder)]


def test_nothing_there_is_nothing_unreadable(directory: Path) -> None:
    """Neither an empty folder nor a missing one is in anybody's way."""
    assert unreadable_ledgers(directory) == []
    assert unreadable_ledgers(directory / "missing") == []
    assert as_another(directory)[0]["complete"]
