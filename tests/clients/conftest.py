"""What the tests of real clients share: the scripted model under capture, in two processes or on every server."""

import itertools
from collections.abc import Iterator

import pytest

from capture import CaptureStore
from tests.clients.hosts import HOSTS, hosted
from tests.clients.sdks import Served
from tests.clients.servers import captured
from tests.clients.sites import Site, environ

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


@pytest.fixture(scope="session", params=HOSTS)
def every_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run the scripted model under capture on each make of server in turn."""
    folder = tmp_path_factory.mktemp(request.param)
    with hosted(request.param, folder, environ(folder)) as server:
        yield Site(server.url, CaptureStore(folder / "records"))
