"""How a server process ends, and what is on disk then (field case 58)."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capture import CaptureStore
from capture.demo.processes import serve
from tests.clients.servers import CAPTURED, captured
from tests.flows.traffic import call, calls, tally

SCRIPT = """
import asyncio, sys
from capture import CaptureConfig, CaptureMiddleware

async def app(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b'{"choices": []}'})

async def main():
    served = CaptureMiddleware(app, CaptureConfig(enabled=True, directory=sys.argv[1], flush_interval_ms=60000))
    async def receive():
        return {"type": "http.request", "body": b"{}"}
    async def send(message):
        pass
    for number in range(50):
        scope = {"type": "http", "method": "POST", "path": "/ng-rollout/bare/v1/chat/completions",
                 "headers": [], "query_string": b""}
        await served(scope, receive, send)
    print("served", flush=True)
    END

asyncio.run(main())
"""


WAIT = "[await asyncio.sleep(0.1) for _ in range(600)]"
"""Sixty seconds, by steps as a server takes them: an event loop that falls asleep may sleep through a signal."""


def run_script(directory: Path, end: str) -> subprocess.Popen[str]:
    """Start a bare script that uses the middleware by hand; returns once it has served its calls."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.replace("END", end), str(directory)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "served\n"
    return process


@pytest.mark.parametrize(
    ("end", "number", "status"),
    [
        (WAIT, signal.SIGTERM, -signal.SIGTERM),
        (WAIT, signal.SIGINT, None),
        ("return", None, 0),
        ("sys.exit(3)", None, 3),
        ("raise RuntimeError", None, 1),
    ],
    ids=["SIGTERM", "SIGINT", "returns", "exits", "raises"],
)
def test_a_bare_script_leaves_its_records(
    tmp_path: Path, end: str, number: int | None, status: int | None
) -> None:
    """A script without a server ends as it would have, and the calls it had queued are on disk by then."""
    process = run_script(tmp_path, end)
    if number is not None:
        process.send_signal(number)
    process.communicate(timeout=20)
    if status is not None:
        assert process.returncode == status
    assert len(CaptureStore(tmp_path).read("bare")) == 50
    assert not list(tmp_path.glob(".pipeline/*.ledger"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("lifespan", ["on", "off"])
def test_sigterm_with_streams_open_and_a_deep_queue(tmp_path: Path, lifespan: str) -> None:
    """SIGTERM with 30 streams open and 200 calls queued: the finished are stored, the open stored as cancelled.

    Without lifespan uvicorn ends the process before it has told the streams' tasks: those are named as gaps.
    """
    store = CaptureStore(tmp_path / "records")
    environ = {
        "CAPTURE_ENABLED": "1",
        "CAPTURE_DIRECTORY": str(store.directory),
        "CAPTURE_APP": "tests.flows.slow:app",
        "CAPTURE_FLUSH_INTERVAL_MS": "60000",
    }
    options = ["--lifespan", lifespan, "--timeout-graceful-shutdown", "1"]

    async def load(url: str, pid: int) -> int:
        streams = [asyncio.create_task(call(url, f"open{n % 3}", f"o{n}")) for n in range(30)]
        done = await calls(url, [f"done{n}" for n in range(10)], 20, "d")
        await until_open(store, 30)
        os.kill(pid, signal.SIGTERM)
        await asyncio.gather(*streams)
        return sum(each.answered for each in done)

    with serve(CAPTURED, log=tmp_path / "log", workers=2, environ=environ, options=options) as server:
        assert asyncio.run(load(server.url, server.process.pid)) == 200
        began = time.monotonic()
        assert server.process.wait(20) in {0, -signal.SIGTERM}
        assert time.monotonic() - began < 15
    names = [f"open{n}" for n in range(3)] + [f"done{n}" for n in range(10)]
    settled = {name: store.settle(name, 15) for name in names}
    ended = [record for n in range(3) for record in store.read(f"open{n}")]
    assert not any(each.pending for each in settled.values())
    assert sum(len(store.read(f"done{n}")) for n in range(10)) == 200
    assert [record.error_category for record in ended] == ["cancelled"] * len(ended)
    assert all(record.response["choices"][0]["message"]["content"] for record in ended)
    lost = [gap.code for each in settled.values() for gap in each.gaps]
    assert (len(ended), lost) == ((30, []) if lifespan == "on" else (0, ["lost"] * 30))


async def until_open(store: CaptureStore, count: int) -> None:
    """Wait until so many calls are open, by the ledgers."""
    deadline = time.monotonic() + 20
    while sum(each.state == "open" for each in store.status().in_flight) < count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@pytest.mark.timeout(60)
def test_a_hanging_disk_does_not_hold_the_server(tmp_path: Path) -> None:
    """With the worker stopped for good, SIGTERM still ends the server within its bound; the worker then finishes."""
    store = CaptureStore(tmp_path / "records")
    environ = {"CAPTURE_SHUTDOWN_TIMEOUT_MS": "500"}
    with captured(tmp_path, store.directory, workers=1, environ=environ) as server:
        asyncio.run(call(server.url, "warm", "w"))
        assert store.settle("warm", 20).complete
        workers = [int(word) for word in _children(server.process.pid)]
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        made = asyncio.run(calls(server.url, ["held"], 20, "h"))
        began = time.monotonic()
        server.process.terminate()
        server.process.wait(20)
        took = time.monotonic() - began
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        settled = store.settle("held", 20)
    found = tally(store.directory, made)
    assert took < 5
    assert not settled.pending
    assert (found.missing, found.duplicates, found.false_gaps) == ([], [], [])


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
