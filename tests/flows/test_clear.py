"""Clear under load: nothing of the calls that had started comes back, and nothing of the new run is lost."""

import asyncio
import os
import signal
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from capture import CaptureStore
from pipeline.clearing import unfinished
from pipeline.fences import folder_of
from tests.clients.servers import captured
from tests.flows.traffic import PATHS, body_of, calls, children

ROLLOUTS = [f"c{index}" for index in range(8)]
SLOW = "scripted?tokens=30&tokens_per_s=60"
"""An answer of half a second."""
ENDLESS = "scripted?tokens=1000&tokens_per_s=20"
POLL_S = 0.02
LATE = {"CAPTURE_FLUSH_INTERVAL_MS": "300"}
"""Answered calls stay in the queue for a while."""


@asynccontextmanager
async def begun(
    url: str, rollouts: Iterable[str], mark: str, model: str
) -> AsyncIterator[list[StreamReader]]:
    """Begin a streamed call of each rollout: its first byte has come. Connections are closed at the end."""
    peers: list[tuple[StreamReader, StreamWriter]] = []
    parts = urlsplit(url)
    for rollout_id in rollouts:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        peers.append((reader, writer))
        body = body_of("chat", mark, stream=True, model=model)
        writer.write(
            f"POST /ng-rollout/{rollout_id}{PATHS['chat']} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
    try:
        for reader, _ in peers:
            assert await reader.readexactly(1) == b"H"
        yield [reader for reader, _ in peers]
    finally:
        for _, writer in peers:
            writer.close()


def marks(store: CaptureStore, rollout_id: str) -> set[str]:
    """Return which runs the calls of a rollout are of."""
    return {record.request["metadata"]["mark"].split("-")[0] for record in store.read(rollout_id)}


def all_ended(store: CaptureStore) -> None:
    """Return once no server process has a call of any run."""
    while unfinished(store.directory):
        time.sleep(POLL_S)


@pytest.mark.timeout(120)
def test_nothing_that_had_started_comes_back(tmp_path: Path) -> None:
    """Four runs over the same ids, each cleared in full flight: streams, queue and workers hold old calls."""
    store = CaptureStore(tmp_path / "records")

    async def rerun(url: str, run: int) -> None:
        made = await calls(url, ROLLOUTS, 6, f"old{run}")
        async with begun(url, ROLLOUTS, f"slow{run}", SLOW) as slow:
            cleared = await store.aclear(ROLLOUTS, 0.0)
            assert not any((store.directory / f"{name}.capture.jsonl").exists() for name in ROLLOUTS)
            fresh = await calls(url, ROLLOUTS, 6, f"new{run}")
            await asyncio.gather(*(reader.read() for reader in slow))
        assert all(each.answered for each in made + fresh)
        assert (set(cleared.removed), cleared.unaccountable) == (set(ROLLOUTS), ())
        assert len(cleared.fenced) >= len(ROLLOUTS)
        await asyncio.to_thread(all_ended, store)
        for name in ROLLOUTS:
            settled = await store.asettle(name, 20)
            assert settled.complete, settled
            assert marks(store, name) == {f"new{run}"}
            assert len(store.read(name)) == 6

    with captured(tmp_path, store.directory, workers=2, environ=LATE) as server:
        for run in range(4):
            asyncio.run(rerun(server.url, run))


@pytest.mark.timeout(60)
def test_a_worker_that_was_stopped_with_lines_writes_none_of_them(tmp_path: Path) -> None:
    """Frames that a stopped worker holds are fenced off; it goes on, and only the new run's calls are there."""
    store = CaptureStore(tmp_path / "records")
    with captured(tmp_path, store.directory, workers=1, environ={"CAPTURE_FLUSH_INTERVAL_MS": "5"}) as server:
        asyncio.run(calls(server.url, ["c0"], 1, "old"))
        assert store.settle("c0", 20).complete
        workers = children(server.process.pid)
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            asyncio.run(calls(server.url, ["c0"], 12, "old"))
            cleared = store.clear(["c0"], 0.2)
            asyncio.run(calls(server.url, ["c0"], 3, "new"))
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        assert len(cleared.fenced) == 12
        assert store.settle("c0", 20).complete
        assert (marks(store, "c0"), len(store.read("c0"))) == ({"new"}, 3)


@pytest.mark.timeout(60)
def test_what_a_killed_server_held_of_a_cleared_run_is_no_gap(tmp_path: Path) -> None:
    """Calls that are open while their rollout is cleared and their server then killed: neither records nor gaps."""
    store = CaptureStore(tmp_path / "records")

    async def open_and_kill(url: str, victims: list[int]) -> None:
        async with begun(url, ["c0", "c1"], "old", ENDLESS):
            assert len((await store.aclear(["c0"], 0.0)).fenced) == 1
            for pid in victims:
                os.kill(pid, signal.SIGKILL)

    with captured(tmp_path, store.directory, workers=1) as server:
        pid = server.process.pid
        asyncio.run(open_and_kill(server.url, [*children(pid), pid]))
        server.process.wait()
        assert store.settle("c0", 20).complete
        assert [gap.code for gap in store.settle("c1", 20).gaps] == ["lost"]
    assert store.gaps("c0") == []
    assert store.rollouts() == ["c1"]


@pytest.mark.timeout(60)
def test_calls_that_end_in_time_need_no_fence(tmp_path: Path) -> None:
    """Clear waits for calls on their way; those that end are removed with the others, and other rollouts stay."""
    store = CaptureStore(tmp_path / "records")

    async def clear_while_open(url: str) -> None:
        await calls(url, ["kept"], 2, "old")
        async with begun(url, ["c0"], "slow", SLOW) as slow:
            reading = asyncio.create_task(slow[0].read())
            cleared = await store.aclear(["c0", "never"], 20.0)
            await reading
        assert (cleared.removed, cleared.fenced) == (("c0",), ())

    with captured(tmp_path, store.directory, workers=1) as server:
        asyncio.run(clear_while_open(server.url))
        assert store.settle("kept", 20).complete
        assert store.rollouts() == ["kept"]
        assert len(store.read("kept")) == 2


@pytest.mark.timeout(60)
def test_fences_go_with_the_calls_that_they_hold_back(tmp_path: Path) -> None:
    """A settle does not wait for a fenced call; once it has ended, the next clear takes its fence down."""
    store = CaptureStore(tmp_path / "records")

    async def fence(url: str) -> None:
        async with begun(url, ["c0"], "old", SLOW) as slow:
            store.clear(["c0"], 0.0)
            assert [path.name for path in folder_of(store.directory).iterdir()] == ["c0"]
            assert store.settle("c0", 0.0).complete
            await slow[0].read()

    with captured(tmp_path, store.directory, workers=1) as server:
        asyncio.run(fence(server.url))
        asyncio.run(calls(server.url, ["c1"], 1, "new"))
        assert store.settle("c1", 20).complete
        all_ended(store)
        store.clear(["c1"])
        assert list(folder_of(store.directory).iterdir()) == []
        assert store.stems() == []
