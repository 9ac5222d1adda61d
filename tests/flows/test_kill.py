"""SIGKILL, at any moment: every answered call is in the files once, or named as a gap."""

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from capture import CaptureStore
from pipeline.takeover import read_totals
from tests.clients.servers import captured
from tests.flows.traffic import Call, calls, children, tally

KILLS = 20


@pytest.mark.timeout(180)
def test_kills_of_servers_and_workers_lose_nothing_unnamed(tmp_path: Path) -> None:
    """Over 20 kills of servers and workers under load: no call unaccounted for, no double, no false gap."""
    directory = tmp_path / "records"
    made: list[Call] = []
    done = 0
    while done < KILLS:
        with captured(tmp_path, directory, workers=1, environ={"CAPTURE_FLUSH_INTERVAL_MS": "20"}) as server:
            while done < KILLS:
                server_dies = random.random() < 0.5
                made += asyncio.run(
                    load_and_kill(server.url, server.process.pid, done, server_dies=server_dies)
                )
                done += 1
                if server_dies:
                    break
    store = CaptureStore(directory)
    settled = [store.settle(rollout_id, 30) for rollout_id in sorted({each.rollout_id for each in made})]
    found = tally(directory, made)
    assert not any(each.pending or each.unaccountable for each in settled)
    assert (found.missing, found.duplicates, found.false_gaps) == ([], [], [])
    assert found.recorded
    totals = read_totals(directory).counts
    assert totals["started"] == sum(totals[name] for name in ("committed", "dropped", "failed", "skipped"))


async def load_and_kill(url: str, pid: int, number: int, *, server_dies: bool) -> list[Call]:
    """Send a burst, and kill the server or its workers at a random moment in it."""
    rollouts = [f"k{number}r{index}" for index in range(12)]
    load = asyncio.create_task(calls(url, rollouts, 6, str(number)))
    await asyncio.sleep(random.uniform(0.0, 0.25))
    for victim in [pid] if server_dies else children(pid):
        os.kill(victim, signal.SIGKILL)
    return await load


@pytest.mark.timeout(60)
def test_what_was_settled_survives_the_kill_of_everything(tmp_path: Path) -> None:
    """Records that settle reported are in the files after the server and its workers are killed."""
    directory = tmp_path / "records"
    store = CaptureStore(directory)
    with captured(tmp_path, directory, workers=1) as server:
        made = asyncio.run(calls(server.url, ["s1", "s2"], 20, "settled"))
        assert [store.settle(name, 20).complete for name in ("s1", "s2")] == [True, True]
        for victim in [*children(server.process.pid), server.process.pid]:
            os.kill(victim, signal.SIGKILL)
    assert all(each.answered for each in made)
    assert {name: len(store.read(name)) for name in ("s1", "s2")} == {"s1": 20, "s2": 20}
    assert store.settle("s1", 5).complete
