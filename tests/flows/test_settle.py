"""Read-your-writes from another process, without holding a response back."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from capture import CaptureStore
from tests.clients.servers import captured
from tests.flows.traffic import call, children


@pytest.mark.timeout(120)
def test_settling_right_after_the_end_never_misses(tmp_path: Path) -> None:
    """200 calls over 3 server processes, each settled as soon as its client has read it: all are readable."""
    store = CaptureStore(tmp_path / "records")
    environ = {"CAPTURE_FLUSH_INTERVAL_MS": "10"}
    with captured(tmp_path, store.directory, workers=3, environ=environ) as server:

        async def one(number: int) -> bool:
            rollout_id = f"r{number}"
            dialect = ("chat", "responses", "messages")[number % 3]
            made = await call(server.url, rollout_id, f"m{number}", dialect=dialect, stream=number % 4 > 0)
            settled = await store.asettle(rollout_id, 20)
            return made.answered and settled.complete and len(await store.aread(rollout_id)) == 1

        async def every() -> list[bool]:
            found: list[bool] = []
            for start in range(0, 200, 10):
                found += await asyncio.gather(*(one(start + index) for index in range(10)))
            return found

        assert asyncio.run(every()).count(True) == 200
        assert len({record.server.pid for n in range(200) for record in store.read(f"r{n}")}) > 1


@pytest.mark.timeout(60)
def test_a_stopped_worker_is_waited_for_and_named(tmp_path: Path) -> None:
    """With its worker stopped, settle names exactly the pending call at its timeout, and ends once it goes on."""
    store = CaptureStore(tmp_path / "records")
    with captured(tmp_path, store.directory, workers=1) as server:
        asyncio.run(call(server.url, "warm", "w"))
        assert store.settle("warm", 20).complete
        workers = children(server.process.pid)
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            asyncio.run(call(server.url, "held", "h"))
            asyncio.run(call(server.url, "other", "o"))
            early = store.settle("held", 0.5)
        finally:
            time.sleep(1.5)  # the case: two seconds without a worker
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        late = store.settle("held", 20)
        record = store.read("held")[0]
    assert not early.complete
    assert [(each.stem, each.state) for each in early.pending] == [("held", "accepted")]
    assert early.pending[0].model_call_id == record.model_call_id
    assert 0.5 <= early.waited_s < 2
    assert late.complete
