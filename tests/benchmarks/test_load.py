"""The open-loop client of the latency benchmark, against the scripted model."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.load import Target, block, render
from capture.demo.processes import Server
from tests.clients.servers import scripted


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run one scripted model for all tests of this file."""
    folder: Path = tmp_path_factory.mktemp("scripted")
    with scripted(folder) as running:
        yield running


def test_latency_counts_from_the_appointed_moment(server: Server) -> None:
    """60 ms of thought and 10 more tokens at 200 a second show in both times, for requests that overlap."""
    target = Target.at(server.url, "scripted?think_time_ms=60&tokens=11&tokens_per_s=200")
    timings = asyncio.run(block(target, "load", [100_000] * 4, gap_s=0.01))
    assert len(timings) == 4
    for timing in timings:
        assert timing.first_token >= 0.06
        assert timing.last_byte - timing.first_token >= 0.045


@pytest.mark.parametrize("model", ["scripted-cut", "scripted-500", "scripted-error-in-stream"])
def test_a_broken_answer_is_no_measurement(server: Server, model: str) -> None:
    """What is not a whole stream raises: its latency would be worth nothing."""
    with pytest.raises(ConnectionError, match="not whole"):
        asyncio.run(block(Target.at(server.url, model), "load", [1000], gap_s=0.0))


def test_requests_have_their_size() -> None:
    """A request of 300 kB is that within the length of one turn, and one of nothing is still a request."""
    assert 295_000 < len(render("scripted", "load", 300_000)) < 305_000
    assert b'"messages": [{' in render("scripted", "load", 0)
