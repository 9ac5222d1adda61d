"""What the tests with the official SDKs share: the scripted model under capture, in two server processes."""

import itertools
from collections.abc import Iterator

import pytest

from capture import CaptureStore
from tests.clients.sdks import Served
from tests.clients.servers import captured

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def sdk_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, CaptureStore]]:
    """Run the scripted model under capture in two server processes."""
    folder = tmp_path_factory.mktemp("sdks")
    with captured(folder, folder / "records", workers=2) as running:
        yield running.url, CaptureStore(folder / "records")


@pytest.fixture
def served(sdk_server: tuple[str, CaptureStore]) -> Served:
    """Give a test a rollout of its own on the shared server."""
    return Served(*sdk_server, f"{next(_numbers)}-0")
