"""A minute of everything at once: load in all dialects, clients that hang up, workers that are killed."""

import asyncio
import contextlib
import os
import random
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from capture import CaptureStore
from capture.status import Status
from tests.clients.servers import captured
from tests.flows.traffic import PATHS, Call, body_of, call, children, tally

SOAK_S = 60.0
CLIENTS = 12


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_minute_of_load_and_faults(tmp_path: Path) -> None:
    """Whatever happens, each answered call is recorded once or named, memory stays bounded, and the sums agree."""
    store = CaptureStore(tmp_path / "records")
    environ = {"CAPTURE_FLUSH_INTERVAL_MS": "20"}
    with captured(tmp_path, store.directory, workers=2, environ=environ) as server:
        pids = children(server.process.pid)
        asyncio.run(_load(server.url, 2.0, [], "w"))
        before = _memory_kib(pids)
        made: list[Call] = []
        asyncio.run(_load_and_kill(server.url, pids, made))
        settled = [store.settle(name, 30) for name in sorted({each.rollout_id for each in made})]
        after = _memory_kib(pids)
        status = store.status()
        assert server.process.poll() is None
    found = tally(store.directory, made)
    assert not any(each.pending for each in settled)
    assert (found.missing, found.duplicates, found.false_gaps) == ([], [], [])
    assert sum(each.answered for each in made) > 500
    assert balanced(status)
    assert all(late - early < 100_000 for early, late in zip(before, after, strict=True))


def balanced(status: Status) -> bool:
    """Whether every server's calls add up, and none was lost to a fault of our own."""
    return all(each.unbalanced == 0 and each.counts.capture_errors == 0 for each in status.servers)


async def _load_and_kill(url: str, pids: list[int], made: list[Call]) -> None:
    killer = asyncio.create_task(_kill_workers(pids))
    await _load(url, SOAK_S, made)
    killer.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await killer


async def _kill_workers(pids: list[int]) -> None:
    """Every few seconds kill the workers of one server process."""
    while True:
        await asyncio.sleep(random.uniform(2.0, 6.0))
        for worker in children(random.choice(pids)):
            os.kill(worker, signal.SIGKILL)


async def _load(url: str, seconds: float, made: list[Call], name: str = "c") -> None:
    until = time.monotonic() + seconds

    async def client(number: int) -> None:
        turn = 0
        while time.monotonic() < until:
            turn += 1
            rollout_id, mark = f"{name}{number}-{turn // 20}", f"{number}-{turn}"
            dialect = random.choice(list(PATHS))
            if random.random() < 0.1:
                await _hang_up(url, rollout_id, dialect)
            else:
                stream = random.random() < 0.7
                made.append(await call(url, rollout_id, mark, dialect=dialect, stream=stream))

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))


async def _hang_up(url: str, rollout_id: str, dialect: str) -> None:
    """Begin a slow stream and leave it."""
    parts = urlsplit(url)
    body = body_of(dialect, "left", stream=True, model="scripted-slow")
    path = f"/ng-rollout/{rollout_id}-left{PATHS[dialect]}"
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(head.encode() + body)
    await reader.read(200)
    writer.close()


def _memory_kib(pids: list[int]) -> list[int]:
    """Return the resident memory of processes (Linux)."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return [int(text.split("VmRSS:")[1].split()[0]) for text in texts]
