"""Servers of every make that are told to end right after their answers: what they answered is recorded."""

from pathlib import Path

import pytest

from capture import CaptureStore
from tests.clients.hosts import HOSTS, connected, hosted, post, read_whole
from tests.clients.sites import Site, environ

BODY = b'{"model":"scripted","messages":[]}'
LATE = {"CAPTURE_FLUSH_INTERVAL_MS": "60000"}
"""Nothing is written before the end, unless the end writes it."""


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", HOSTS)
async def test_what_was_queued_is_written_at_the_end(kind: str, tmp_path: Path) -> None:
    """SIGTERM right after the answers loses none of them."""
    with hosted(kind, tmp_path, environ(tmp_path) | LATE) as server:
        for number in range(5):
            async with connected(server.url) as stream:
                await stream.send(post("/ng-rollout/r/v1/chat/completions", BODY, number))
                await read_whole(stream)
    site = Site(server.url, CaptureStore(tmp_path / "records"))
    assert all(record.complete for record in site.records("r", 5))
