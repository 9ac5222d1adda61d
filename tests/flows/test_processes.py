"""Many processes on one rollout, and processes that come from a fork (field cases 49, 54, 55)."""

import asyncio
import multiprocessing
import os
import pickle
from collections import Counter
from pathlib import Path

import pytest

from capture import CaptureConfig, CaptureMiddleware, CaptureStore
from tests.clients.servers import captured
from tests.flows.inprocess import Served, chat_app, conserved, serve_calls
from tests.flows.traffic import calls


@pytest.mark.timeout(120)
def test_four_server_processes_write_one_rollout(tmp_path: Path) -> None:
    """400 calls of one rollout over 4 server processes: every line whole, every call once, nobody starved."""
    store = CaptureStore(tmp_path / "records")
    environ = {"CAPTURE_FLUSH_INTERVAL_MS": "5"}
    with captured(tmp_path, store.directory, workers=4, environ=environ) as server:
        made = []
        for part in range(8):
            made += asyncio.run(calls(server.url, ["one"], 50, f"p{part}"))
        settled = store.settle("one", 30)
        backlog = [each.oldest_backlog_s for each in store.status().servers]
    reading = store.read_available("one")
    marks = Counter(record.request["metadata"]["mark"] for record in reading.records)
    writers = Counter(record.server.pid for record in reading.records)
    assert settled.complete
    assert reading.damaged == 0
    assert marks == Counter(each.mark for each in made)
    assert len(writers) == 4
    assert all(each is None or each < 5 for each in backlog)
    for pid in writers:
        numbers = [record.seq for record in reading.records if record.server.pid == pid]
        assert len(set(numbers)) == len(numbers)


def serve_in_child(served: Served, rollout_id: str, count: int) -> None:
    """Serve in the child of a fork, and end it without any clean-up but capture's own."""
    try:
        asyncio.run(serve_calls(served, rollout_id, count))
        drained = served.pipeline.drain(5)
        os._exit(0 if drained and served.pipeline.close(5) else 3)
    except BaseException:  # noqa: BLE001 - the child of a test must not return into the test
        os._exit(4)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_children_of_a_fork_start_anew(tmp_path: Path) -> None:
    """The parent serves, with calls still queued; two forked children serve 50 each: 103 records, none twice."""
    config = CaptureConfig(enabled=True, directory=tmp_path, flush_interval_ms=2000)
    with Served(CaptureMiddleware(chat_app, config)) as served:
        asyncio.run(serve_calls(served, "parent", 3))
        children = []
        for number in range(2):
            pid = os.fork()
            if pid == 0:
                serve_in_child(served, f"child{number}", 50)
            children.append(pid)
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0]
        asyncio.run(serve_calls(served, "parent", 1))
        assert served.pipeline.drain(10)
        assert conserved(served.pipeline)["committed"] == 4
    store = CaptureStore(tmp_path)
    counts = {name: len(store.read(name)) for name in ("parent", "child0", "child1")}
    ids = [record.model_call_id for name in counts for record in store.read(name)]
    assert counts == {"parent": 4, "child0": 50, "child1": 50}
    assert len(set(ids)) == 104
    assert store.settle(timeout=5).complete


def serve_spawned(pickled: bytes, rollout_id: str) -> None:
    """Serve in a spawned process from a pickled middleware."""
    with Served(pickle.loads(pickled)) as served:  # noqa: S301 - made by the test itself
        asyncio.run(serve_calls(served, rollout_id, 5))


def test_a_middleware_can_be_pickled_before_it_runs(tmp_path: Path) -> None:
    """A server that spawns its processes pickles the application: capture starts in the child."""
    config = CaptureConfig(enabled=True, directory=tmp_path, labels={"a": "b"})
    pickled = pickle.dumps(CaptureMiddleware(chat_app, config))
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=serve_spawned, args=(pickled, "spawned"))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert [record.labels for record in CaptureStore(tmp_path).read("spawned")] == [{"a": "b"}] * 5
