"""What tests of the pipeline's parts share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import supervisor
from pipeline.ledger import Ledger, new_identity
from pipeline.settings import PipelineSettings


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Give a ledger."""
    settings = PipelineSettings(directory=str(tmp_path))
    made = Ledger(settings, new_identity(settings))
    yield made
    made.close()


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the next worker at once."""
    monkeypatch.setattr(supervisor, "RESTART_WAIT_S", (0.0,))
