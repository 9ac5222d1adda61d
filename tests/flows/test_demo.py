"""The demonstration as a user runs it: real server processes, real HTTP, files on disk."""

import io
from pathlib import Path

from rich.console import Console

from capture import CaptureStore
from capture.demo.drive import ROLLOUTS
from capture.demo.run import run_demo


def test_the_demonstration_agrees_with_its_clients(tmp_path: Path) -> None:
    """Twice into one directory: each run records its dozen rollouts, all as the clients saw them, and says so."""
    for run in (1, 2):
        console = Console(file=io.StringIO(), width=140)
        assert run_demo(tmp_path / "records", console=console) == 0
        printed = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
        assert "Every record agrees with what its client saw." in printed
        assert "27 calls made by 12 clients, 27 recorded" in printed
        assert len(CaptureStore(tmp_path / "records").rollouts()) == run * len(ROLLOUTS)
