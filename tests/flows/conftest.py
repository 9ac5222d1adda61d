"""What the flow tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.driving import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Give a test a directory to record into, and end its pipeline afterwards."""
    made = Site(tmp_path / "records")
    yield made
    made.close()
