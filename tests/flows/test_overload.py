"""More than the pipeline can take: bounded, counted, named, and never the client's trouble."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from capture import CaptureConfig, CaptureMiddleware, CaptureStore
from pipeline import sharing
from pipeline.runner import Pipeline
from tests.flows.inprocess import Served, chat_app, conserved, serve_calls

PADDING = "x" * 200_000


def hold(pipeline: Pipeline) -> list[int]:
    """Stop the workers once they are there."""
    assert pipeline.drain(20)
    for pid in pipeline.worker_pids:
        os.kill(pid, signal.SIGSTOP)
    return pipeline.worker_pids


def release(pids: list[int]) -> None:
    """Let stopped workers go on."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "bounds",
    [{"queue_max_events": 100}, {"queue_max_bytes": 5_000_000, "batch_max_bytes": 1_000_000}],
    ids=["events", "bytes"],
)
def test_the_bound_holds_and_every_drop_is_a_gap(tmp_path: Path, bounds: dict[str, Any]) -> None:
    """With a stopped worker the queue stays in its bound; each call is then a record or a gap, none twice."""
    config = CaptureConfig(
        enabled=True, directory=tmp_path, batch_max_records=50, flush_interval_ms=5, **bounds
    )
    with Served(CaptureMiddleware(chat_app, config)) as served:
        asyncio.run(serve_calls(served, "warm", 1))
        pids = hold(served.pipeline)
        try:
            asyncio.run(serve_calls(served, "many", 400, padding=PADDING))
            events, size = served.pipeline.intake.events, served.pipeline.intake.bytes
        finally:
            release(pids)
        settled = CaptureStore(tmp_path).settle("many", 30)
        assert served.pipeline.drain(20)
        counts = conserved(served.pipeline)
    records = CaptureStore(tmp_path).read("many")
    assert events <= bounds.get("queue_max_events", 401)
    assert size <= bounds.get("queue_max_bytes", 1 << 40) + 300_000
    assert 0 < len(records) < 400
    assert len(records) + len(settled.gaps) == 400
    assert {gap.code for gap in settled.gaps} == {"dropped"}
    assert counts["dropped"] == len(settled.gaps)
    assert not {record.model_call_id for record in records} & {gap.model_call_id for gap in settled.gaps}


def test_gaps_are_durable(tmp_path: Path) -> None:
    """The gaps of dropped calls are in their file by the time their slots are given back."""
    config = CaptureConfig(enabled=True, directory=tmp_path, queue_max_events=10, batch_max_records=10)
    with Served(CaptureMiddleware(chat_app, config)) as served:
        asyncio.run(serve_calls(served, "warm", 1))
        pids = hold(served.pipeline)
        asyncio.run(serve_calls(served, "many", 50))
        early = CaptureStore(tmp_path).settle("many", 0.2)
        release(pids)
        assert served.pipeline.drain(20)
    lines = (tmp_path / "many.capture.incomplete").read_bytes().splitlines()
    assert len(lines) == 40
    assert len(early.gaps) == 40
    assert len(early.pending) == 10


def test_calls_beyond_all_slots_are_captured_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that finds no slot in the ledger is recorded, and counted as unslotted."""
    monkeypatch.setattr("pipeline.segment.SEGMENT_SLOTS", (4,))
    monkeypatch.setattr("pipeline.ledger.SLOTS_MAX", 4)
    config = CaptureConfig(enabled=True, directory=tmp_path, flush_interval_ms=50)
    with Served(CaptureMiddleware(chat_app, config)) as served:
        asyncio.run(serve_calls(served, "many", 20))
        assert served.pipeline.drain(20)
        counts = conserved(served.pipeline)
    assert len(CaptureStore(tmp_path).read("many")) == 20
    assert counts["unslotted"] >= 1


def test_an_idle_pipeline_sleeps(tmp_path: Path) -> None:
    """With nothing open or queued the thread waits without a timeout, and the next call wakes it."""
    config = CaptureConfig(enabled=True, directory=tmp_path, flush_interval_ms=1)
    with Served(CaptureMiddleware(chat_app, config)) as served:
        asyncio.run(serve_calls(served, "one", 1))
        assert served.pipeline.drain(20)
        before = _until_asleep(served.pipeline)
        assert CaptureStore(tmp_path).settle("one", 0.3).complete
        assert _switches(served.pipeline) == before
        asyncio.run(serve_calls(served, "two", 1))
        assert CaptureStore(tmp_path).settle("two", 20).complete


def _until_asleep(pipeline: Pipeline) -> int:
    while not pipeline.intake.asleep:
        continue
    before = -1
    while before != (now := _switches(pipeline)):
        before = now
        CaptureStore(pipeline.settings.directory).settle(timeout=0.05)
    return before


def _switches(pipeline: Pipeline) -> int:
    """Return how often the kernel switched away from the pipeline's thread (Linux)."""
    status = Path(f"/proc/self/task/{pipeline.thread_id}/status").read_text()
    return int(status.split("voluntary_ctxt_switches:")[1].split()[0])


def test_two_middlewares_share_a_pipeline(tmp_path: Path) -> None:
    """Middlewares with the same settings share one pipeline; other settings for the directory are refused."""
    config = CaptureConfig(enabled=True, directory=tmp_path)
    with (
        Served(CaptureMiddleware(chat_app, config)) as one,
        Served(CaptureMiddleware(chat_app, config)) as two,
    ):
        asyncio.run(serve_calls(one, "a", 1))
        asyncio.run(serve_calls(two, "b", 1))
        assert one.pipeline is two.pipeline
        other = CaptureConfig(enabled=True, directory=tmp_path, workers=2).pipeline_settings()
        with pytest.raises(ValueError, match="other settings"):
            sharing.join(other, in_main_thread=False)
