"""Workers that die: replaced, their calls sent again, the one that kills found."""

import asyncio
import itertools
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from capture import CaptureConfig, CaptureMiddleware, CaptureStore
from pipeline import tending
from tests.flows.inprocess import Served, chat_app, conserved, scope_of, serve_calls, serve_one

SABOTAGE = """
import os, sys
import pipeline.process as decoding
decode, raw = decoding.process, decoding.process_raw
def process(exchange, *rest):
    if b"kill-me" in b"".join(exchange.request_chunks):
        os._exit(9)
    return decode(exchange, *rest)
def process_raw(exchange, *rest):
    if b"kill-me-thrice" in b"".join(exchange.request_chunks):
        os._exit(9)
    return raw(exchange, *rest)
decoding.process, decoding.process_raw = process, process_raw
"""


@pytest.fixture
def saboteur(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every worker process die of an exchange that says so, by a `sitecustomize` of its own."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SABOTAGE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(Path.cwd())]))


async def serve_bodies(served: Served, rollout_id: str, bodies: list[dict[str, object]]) -> None:
    """Serve calls with these bodies."""
    for body in bodies:
        await serve_one(served, scope_of(rollout_id), json.dumps(body).encode())


@pytest.mark.usefixtures("saboteur")
@pytest.mark.timeout(120)
def test_the_exchange_that_kills_is_found(tmp_path: Path) -> None:
    """Of 20 calls one kills each worker that decodes it: it is stored raw, the others whole, each once."""
    config = CaptureConfig(enabled=True, directory=tmp_path / "records", flush_interval_ms=50)
    bodies: list[dict[str, object]] = [{"model": "m", "n": number} for number in range(20)]
    bodies[7] = {"model": "m", "say": "kill-me"}
    with Served(CaptureMiddleware(chat_app, config)) as served:
        asyncio.run(serve_bodies(served, "r", bodies))
        assert served.pipeline.drain(60)
        counts = conserved(served.pipeline)
    records = CaptureStore(tmp_path / "records").read("r")
    raw = [record for record in records if record.error_category == "capture_parse_error"]
    assert len(records) == 20
    assert len({record.model_call_id for record in records}) == 20
    assert [json.loads(record.request_raw or "") for record in raw] == [bodies[7]]
    assert counts["worker_restarts"] == 2


@pytest.mark.usefixtures("saboteur")
@pytest.mark.timeout(120)
def test_what_kills_even_undecoded_is_a_named_gap(tmp_path: Path) -> None:
    """An exchange that kills a third worker is given up as failed, and the pipeline goes on."""
    config = CaptureConfig(enabled=True, directory=tmp_path / "records", flush_interval_ms=50)
    with Served(CaptureMiddleware(chat_app, config)) as served:
        asyncio.run(serve_bodies(served, "r", [{"say": "kill-me-thrice"}, {"n": 1}, {"n": 2}]))
        assert served.pipeline.drain(60)
        conserved(served.pipeline)
        settled = CaptureStore(tmp_path / "records").settle("r", 10)
    assert [(gap.code, gap.detail) for gap in settled.gaps] == [("failed", "worker_died")]
    assert [record.request for record in CaptureStore(tmp_path / "records").read("r")] == [
        {"n": 1},
        {"n": 2},
    ]


@pytest.mark.timeout(120)
def test_killed_workers_are_replaced(tmp_path: Path) -> None:
    """Workers killed between and during batches: every call is in the file exactly once."""
    config = CaptureConfig(enabled=True, directory=tmp_path, flush_interval_ms=5, workers=2)
    names = [f"r{number}" for number in range(6)]
    with Served(CaptureMiddleware(chat_app, config)) as served:
        for _ in range(5):
            for name in names:
                asyncio.run(serve_calls(served, name, 10))
            for pid in served.pipeline.worker_pids:
                with suppress(ProcessLookupError):  # killed in the last round, and not replaced yet
                    os.kill(pid, signal.SIGKILL)
        assert served.pipeline.drain(60)
        conserved(served.pipeline)
    records = [record for name in names for record in CaptureStore(tmp_path).read(name)]
    assert len(records) == 300
    assert len({record.model_call_id for record in records}) == 300


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_process_that_cannot_be_started_is_replaced_by_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Where the interpreter is not to be found a thread does the work, as it does when asked for."""
    if kind == "process":
        monkeypatch.setattr("sys.executable", str(tmp_path / "nowhere"))
    config = CaptureConfig(enabled=True, directory=tmp_path / "records", worker_kind=kind)
    with Served(CaptureMiddleware(chat_app, config)) as served:
        asyncio.run(serve_calls(served, "r", 10))
        assert served.pipeline.drain(30)
        counts = conserved(served.pipeline)
        assert served.pipeline.worker_pids == []
    assert counts["worker_threads"] == 1
    assert len(CaptureStore(tmp_path / "records").read("r")) == 10


def test_a_fault_of_the_pipelines_own_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the thread's own loop breaks with calls under way, it begins anew with them, and the fault is counted."""
    monkeypatch.setattr("pipeline.runner.RECOVER_AFTER_S", 0.01)
    faults = [0, 3, 40]
    steps = itertools.count()
    publish = tending.publish

    def break_sometimes(*arguments: Any) -> None:  # noqa: ANN401 - passed on
        publish(*arguments)
        if next(steps) in faults:
            raise RuntimeError("broken on purpose")

    monkeypatch.setattr(tending, "publish", break_sometimes)
    config = CaptureConfig(enabled=True, directory=tmp_path, flush_interval_ms=1)
    with Served(CaptureMiddleware(chat_app, config)) as served:
        for part in range(30):
            asyncio.run(serve_calls(served, f"r{part % 3}", 10))
        assert served.pipeline.drain(30)
        counts = conserved(served.pipeline)
    records = [record for n in range(3) for record in CaptureStore(tmp_path).read(f"r{n}")]
    assert counts["capture_errors"] >= 2
    assert len(records) == 300
    assert len({record.model_call_id for record in records}) == 300
