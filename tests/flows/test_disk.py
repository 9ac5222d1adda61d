"""Disks that are full, gone or locked: the server serves on, and every loss has a name."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture import CaptureStore
from capture.status import ALIVE, read_status
from tests.clients.servers import captured
from tests.flows.traffic import calls
from tests.skips import SKIPS


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MB."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(SKIPS["no-mount"])
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.timeout(120)
def test_a_full_ledger_disk_harms_nobody(tmp_path: Path, small_disk: Path) -> None:
    """With the ledger on a full 1 MB file system, calls are served and recorded, by a smaller ledger or none."""
    directory = tmp_path / "records"
    (small_disk / "filler").write_bytes(bytes(900_000))
    environ = {"CAPTURE_STATE_DIRECTORY": str(small_disk / "state"), "CAPTURE_FLUSH_INTERVAL_MS": "10"}
    with captured(tmp_path, directory, workers=2, environ=environ) as server:
        made = asyncio.run(calls(server.url, [f"r{number}" for number in range(10)], 20, "full"))
        store = CaptureStore(directory)
        settled = [store.settle(f"r{number}", 10) for number in range(10)]
        alive = server.process.poll() is None
    assert alive
    assert all(each.answered for each in made)
    assert sum(len(store.read(f"r{number}")) for number in range(10)) == 200
    assert not any(each.pending or each.gaps for each in settled)


@pytest.mark.timeout(120)
def test_records_on_a_full_disk_are_counted_and_named(tmp_path: Path, small_disk: Path) -> None:
    """Calls whose record finds no space are gaps; once there is space again, later calls are recorded."""
    store = CaptureStore(small_disk / "records")
    environ = {"CAPTURE_LOCK_TIMEOUT_MS": "300", "CAPTURE_STATE_DIRECTORY": str(tmp_path / "state")}
    with captured(tmp_path, store.directory, workers=1, environ=environ) as server:
        asyncio.run(calls(server.url, ["before"], 2, "b"))
        assert store.settle("before", 10).complete
        filler = small_disk / "filler"
        with filler.open("wb") as file:
            fill(file.fileno())
        made = asyncio.run(calls(server.url, ["during"], 10, "d"))
        during = store.settle("during", 20)  # ends when the calls are given up, with the disk still full
        filler.unlink()
        asyncio.run(calls(server.url, ["after"], 10, "a"))
        after = store.settle("after", 20)
    assert all(each.answered for each in made)
    assert len(store.read("during")) + len(during.gaps) == 10
    assert not during.pending
    assert after.complete
    assert len(store.read("after")) == 10
    assert {gap.code for gap in during.gaps} == {"failed"}
    assert {gap.detail for gap in store.gaps("during")} == {"ENOSPC"}


def fill(descriptor: int) -> None:
    """Write until the disk is full."""
    for size in (1 << 16, 1 << 12, 1):
        try:
            while True:
                os.write(descriptor, bytes(size))
        except OSError:
            continue


@pytest.mark.timeout(120)
def test_directories_removed_under_load(tmp_path: Path) -> None:
    """Records directory and ledger are removed while calls pass: all are answered, and later ones recorded."""
    store = CaptureStore(tmp_path / "records")
    environ = {"CAPTURE_FLUSH_INTERVAL_MS": "10"}

    async def load_and_remove(url: str) -> int:
        load = asyncio.create_task(calls(url, [f"r{number}" for number in range(30)], 10, "x"))
        await asyncio.sleep(0.1)
        shutil.rmtree(store.directory)
        return sum(each.answered for each in await load)

    with captured(tmp_path, store.directory, workers=2, environ=environ) as server:
        assert asyncio.run(load_and_remove(server.url)) == 300
        deadline = time.monotonic() + 10
        while len([each for each in read_status(store.directory).servers if each.state == ALIVE]) < 2:
            asyncio.run(calls(server.url, ["nudge"], 4, "n"))
            assert time.monotonic() < deadline
        made = asyncio.run(calls(server.url, ["later"], 20, "l"))
        settled = store.settle("later", 20)
        alive = server.process.poll() is None
        log = server.log.read_text()
    assert alive
    assert all(each.answered for each in made)
    assert settled.complete
    assert len(store.read("later")) == 20
    assert "ledger_removed" in log


@pytest.mark.timeout(60)
def test_a_locked_rollout_stalls_no_other(tmp_path: Path) -> None:
    """While another process holds one rollout's file, others are recorded; the held calls wait or are named."""
    store = CaptureStore(tmp_path / "records")
    environ = {"CAPTURE_LOCK_TIMEOUT_MS": "60000", "CAPTURE_FLUSH_INTERVAL_MS": "10"}
    with captured(tmp_path, store.directory, workers=1, environ=environ) as server:
        asyncio.run(calls(server.url, ["held"], 1, "first"))
        assert store.settle("held", 10).complete
        with (store.directory / "held.capture.jsonl").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            asyncio.run(calls(server.url, ["held"], 5, "h"))
            asyncio.run(calls(server.url, ["free"], 40, "f"))
            free = store.settle("free", 10)
            held = store.settle("held", 0.2)
        after = store.settle("held", 10)
    assert free.complete
    assert len(held.pending) == 5
    assert after.complete
    assert len(store.read("held")) == 6
