"""The pipeline as one object: begun whole or not at all, awake when it must be, and ended once."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline import places
from pipeline.runner import Pipeline
from pipeline.settings import PipelineSettings
from pipeline.takeover import read_totals
from tests.pipeline.deadly import call_id, descriptors
from tests.pipeline.test_frames import exchange


def settings(directory: Path, **changes: object) -> PipelineSettings:
    """Make settings with a worker thread."""
    members = {"directory": str(directory), "worker_kind": "thread", **changes}
    return PipelineSettings(**members)  # type: ignore[arg-type]


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    """Give a running pipeline that batches for very long."""
    made = Pipeline(settings(tmp_path, flush_interval_ms=600_000))
    yield made
    made.close(5)


def offer(pipeline: Pipeline, number: int) -> None:
    """Open a call and hand it over."""
    slot = pipeline.ledger.open(call_id(number), 1.0, b"s")
    pipeline.offer(exchange(call_id=call_id(number), failure=None), slot)


def until(condition: Callable[[], bool]) -> None:
    """Look until something is so, for ten seconds at most."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline


def test_a_drain_does_not_wait_for_the_tick(pipeline: Pipeline, tmp_path: Path) -> None:
    """However long batches are gathered, a drain writes them now, asleep or in the middle of gathering."""
    for number in range(3):
        offer(pipeline, number)
        assert pipeline.drain(10)
        assert len((tmp_path / "s.capture.jsonl").read_bytes().splitlines()) == number + 1
    assert pipeline.ledger.in_use == 0


def test_a_sleeping_pipeline_grows(tmp_path: Path) -> None:
    """Thousands of calls that start while nothing ends wake the thread, which adds room for more."""
    made = Pipeline(settings(tmp_path))
    until(lambda: made.intake.asleep)
    for number in range(3500):
        made.ledger.open(call_id(number), 1.0, b"s")
    until(lambda: len(made.ledger.segments) == 2)
    assert made.close(5)


@pytest.mark.parametrize("lacking", ["pipe", "thread"])
def test_what_cannot_begin_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """Where no pipe or no thread can be had the fault is raised, and neither file nor descriptor stays."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "no more") if lacking == "pipe" else RuntimeError("no more")

    before = descriptors()
    with monkeypatch.context() as host:
        host.setattr("os.pipe" if lacking == "pipe" else "threading.Thread.start", refuse)
        for _ in range(3):
            with pytest.raises((OSError, RuntimeError), match="no more"):
                Pipeline(settings(tmp_path))
    assert descriptors() == before
    assert list(places.default_folder(tmp_path).iterdir()) == []


def test_an_end_leaves_nothing(tmp_path: Path) -> None:
    """After a close thread, worker and descriptors are gone, the ledger is retired, and once is enough."""
    before, threads = descriptors(), threading.active_count()
    made = Pipeline(settings(tmp_path))
    offer(made, 1)
    assert made.close(10)
    assert made.close(10)
    assert descriptors() == before
    until(lambda: threading.active_count() <= threads)
    assert read_totals(tmp_path).counts["committed"] == 1
    assert list(places.default_folder(tmp_path).glob("*.ledger")) == []


def test_hand_overs_after_the_end_harm_nobody(tmp_path: Path) -> None:
    """An exchange that ends after the pipeline did is no error, and its byte wakes no stranger's descriptor."""
    made = Pipeline(settings(tmp_path))
    slot = made.ledger.open(call_id(1), 1.0, b"s")
    assert made.close(10)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    made.offer(exchange(failure=None), slot)
    made.intake.skip(slot)
    made.hurry()
    made.intake.wake()
    with pytest.raises(BlockingIOError):
        os.read(reading, 10)
    os.close(reading)
    os.close(writing)


def test_a_call_that_is_open_at_the_end_is_left_in_the_ledger(tmp_path: Path) -> None:
    """The ledger stays, unlocked, for whoever settles next, and the call is named."""
    made = Pipeline(settings(tmp_path))
    made.ledger.open(call_id(1), 1.0, b"s")
    assert made.close(10)
    assert len(list(places.default_folder(tmp_path).glob("*.ledger"))) == 1


def test_a_removed_ledger_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While calls pass, a ledger that somebody removes is made again, and the worker that follows holds its lock."""
    monkeypatch.setattr("pipeline.runner.LEDGER_CHECK_S", 0.0)
    made = Pipeline(settings(tmp_path, flush_interval_ms=1))
    offer(made, 1)
    assert made.drain(10)
    path = made.ledger.path
    assert path is not None
    path.unlink()
    offer(made, 2)
    assert made.drain(10)
    until(path.exists)
    offer(made, 3)
    assert made.drain(10)
    assert made.ledger.started() == made.ledger.counts["committed"] == 3
    assert made.close(10)
    assert read_totals(tmp_path).counts["started"] == 3


CHILD = """
import os, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from pipeline.runner import Pipeline
from pipeline.settings import PipelineSettings
from tests.pipeline.test_runner import offer
def opened():
    links = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{entry}"))
        except OSError:
            pass
    return sorted(link for link in links if "ledger" in link or "pipe:" in link)
before = opened()
made = Pipeline(PipelineSettings(directory=sys.argv[1], worker_kind=sys.argv[2]))
offer(made, 1)
assert made.drain(10)
pid = os.fork()
if pid == 0:
    offer(made, 2)
    made.hurry()
    os._exit(0 if made.closed and opened() == before else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
offer(made, 3)
assert made.drain(10)
assert made.close(10)
assert opened() == before
"""


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_the_child_of_a_fork_holds_nothing(tmp_path: Path, kind: str) -> None:
    """A child keeps no pipe, map or lock of its parent's open, offers there do no harm, and the parent goes on."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), kind],
        cwd=root,
        check=False,
        capture_output=True,
        timeout=40,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert len((tmp_path / "s.capture.jsonl").read_bytes().splitlines()) == 2
