"""One worker's life, as a thread over pipes and as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from pipeline import frames, worker
from pipeline.exchange import Annotation
from pipeline.frames import Answer, GapNote, Introduction
from pipeline.gaps import Gap
from pipeline.link import ProcessLink, WorkerGone
from pipeline.settings import PipelineSettings, ServerIdentity
from pipeline.worker import Worker, lower_priority
from tests.pipeline.test_frames import exchange

HELLO = Answer(0, frames.HELLO)
SERVER = ServerIdentity("name", "instance", "host", 1)


class Bench:
    """A worker in a thread, and the test's ends of its pipes."""

    def __init__(self, directory: Path, **changes: object) -> None:
        self.settings = PipelineSettings(directory=str(directory), **changes)  # type: ignore[arg-type]
        frames_in, self.to = os.pipe()
        self.answers, answers_out = os.pipe()
        self._theirs = frames_in, answers_out
        self._buffer = bytearray()
        self.fault: BaseException | None = None
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        try:
            Worker(*self._theirs).run()
        except frames.FrameError as error:
            self.fault = error
        for descriptor in self._theirs:
            os.close(descriptor)

    def send(self, cargo: frames.Cargo, ticket: int, flags: int = 0) -> None:
        """Write one frame."""
        os.write(self.to, b"".join(frames.pack(cargo, ticket, flags)))

    def introduce(self) -> None:
        """Write the first frame."""
        self.send(Introduction(self.settings, SERVER), 0)

    def hear(self, number: int) -> list[Answer]:
        """Read so many answers, or those that come before the end."""
        found: list[Answer] = []
        while len(found) < number and (data := os.read(self.answers, 1000)):
            self._buffer += data
            found += frames.take_answers(self._buffer)
        return found

    def end(self) -> None:
        """Close the input and wait for the end."""
        if self.to >= 0:
            os.close(self.to)
            self.to = -1
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Give a worker that waits for its introduction."""
    made = Bench(tmp_path)
    yield made
    made.end()
    if made.answers >= 0:
        os.close(made.answers)


def test_from_hello_to_the_end(bench: Bench, tmp_path: Path) -> None:
    """A worker says hello, is introduced, answers once the line is durable, and ends with its input."""
    assert bench.hear(1) == [HELLO]
    bench.introduce()
    bench.send(exchange(), 7, frames.LAST_OF_BATCH)
    assert bench.hear(1) == [Answer(7, frames.COMMITTED)]
    record = json.loads((tmp_path / "s.capture.jsonl").read_bytes())
    assert record["model_call_id"] == (b"i" * 16).hex()
    assert record["server"] == {"name": "name", "instance": "instance", "host": "host", "pid": 1}
    bench.end()
    assert bench.hear(1) == []


def test_every_cargo_has_its_file(bench: Bench, tmp_path: Path) -> None:
    """Exchanges, notes and gaps of a rollout go to three files; each is answered."""
    bench.introduce()
    bench.send(exchange(), 1)
    bench.send(Annotation(call_id=b"i" * 16, stem="s", annotations={"a": 1}), 2)
    bench.send(GapNote("s", Gap(model_call_id="f" * 32, code="dropped")), 3, frames.LAST_OF_BATCH)
    assert sorted(answer.ticket for answer in bench.hear(4)) == [0, 1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "s.capture.annotations",
        "s.capture.incomplete",
        "s.capture.jsonl",
    ]


def test_a_batch_whose_end_does_not_come_is_written(bench: Bench, tmp_path: Path) -> None:
    """Exchanges behind which nothing comes are written and answered, though no frame ended their batch."""
    bench.introduce()
    for number in range(3):
        bench.send(exchange(call_id=bytes([number]) * 16), number + 1)
    assert [answer.ticket for answer in bench.hear(4)] == [0, 1, 2, 3]
    assert len((tmp_path / "s.capture.jsonl").read_bytes().splitlines()) == 3


def test_what_is_left_at_the_end_is_written(bench: Bench, tmp_path: Path) -> None:
    """Exchanges whose batch was never closed are written when the input ends: the server may have died."""
    bench.introduce()
    for number in range(5):
        bench.send(exchange(call_id=bytes([number]) * 16), number + 1)
    bench.end()
    assert len((tmp_path / "s.capture.jsonl").read_bytes().splitlines()) == 5


def test_a_frame_that_was_cut_off_is_left_out(bench: Bench, tmp_path: Path) -> None:
    """A server that dies in the middle of a frame leaves the whole ones written."""
    bench.introduce()
    bench.send(exchange(), 1)
    os.write(bench.to, b"".join(frames.pack(exchange(call_id=b"j" * 16), 2, 0))[:-3])
    bench.end()
    assert len((tmp_path / "s.capture.jsonl").read_bytes().splitlines()) == 1


def test_another_format_ends_it(bench: Bench) -> None:
    """Frames of another installation are refused, not misread."""
    bench.introduce()
    os.write(bench.to, b"\xff" * 64)
    bench.thread.join(10)
    assert not bench.thread.is_alive()
    assert isinstance(bench.fault, frames.FrameError)


def test_no_introduction_ends_it(bench: Bench) -> None:
    """A worker that is told nothing, or something else first, ends without a word."""
    bench.send(exchange(), 1)
    bench.thread.join(10)
    assert not bench.thread.is_alive()
    assert bench.hear(2) == [HELLO]


def test_nobody_listens_any_more(bench: Bench, tmp_path: Path) -> None:
    """With the server's end of the answers closed a worker writes on to the end of its input."""
    bench.hear(1)
    bench.introduce()
    os.close(bench.answers)
    bench.answers = -1
    for number in range(3):
        bench.send(exchange(call_id=bytes([number]) * 16), number + 1, frames.LAST_OF_BATCH)
    bench.end()
    assert len((tmp_path / "s.capture.jsonl").read_bytes().splitlines()) == 3


def test_a_fault_of_one_exchange_is_its_own(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be made a record is answered as failed, and the next is committed."""

    def broken(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(worker, "process", broken)
    bench.introduce()
    bench.send(exchange(), 1, frames.LAST_OF_BATCH)
    bench.send(exchange(call_id=b"r" * 16), 2, frames.LAST_OF_BATCH | frames.RAW_ONLY)
    assert bench.hear(3) == [
        HELLO,
        Answer(1, frames.FAILED, "RuntimeError: odd"),
        Answer(2, frames.COMMITTED),
    ]
    record = json.loads((tmp_path / "s.capture.jsonl").read_bytes())
    assert record["error_category"] == "capture_parse_error"


def test_a_resend_is_written_once(bench: Bench, tmp_path: Path) -> None:
    """What is in its file already is committed and not written again; what is begun with is said before."""
    bench.introduce()
    bench.send(exchange(), 1, frames.LAST_OF_BATCH)
    bench.send(exchange(), 2, frames.LAST_OF_BATCH | frames.RESENT)
    answers = [(answer.ticket, answer.fate) for answer in bench.hear(5)]
    assert answers == [
        (0, frames.HELLO),
        (1, frames.COMMITTED),
        (2, frames.BEGUN),
        (0, frames.BEGUN),
        (2, frames.COMMITTED),
    ]
    assert len((tmp_path / "s.capture.jsonl").read_bytes().splitlines()) == 1


def test_descriptors_above_a_thousand(tmp_path: Path) -> None:
    """A worker of a server with thousands of connections waits on descriptors of any number."""
    code = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
from tests.pipeline.test_worker import Bench, exchange
from pathlib import Path
bench = Bench(Path({str(tmp_path)!r}))
bench.introduce()
bench.send(exchange(), 1)
assert len(bench.hear(2)) == 2, bench.fault
bench.end()
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, timeout=30, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


def test_priority_that_cannot_be_lowered(capfd: pytest.CaptureFixture[str]) -> None:
    """A host that forbids a new priority is told so on standard error, and the worker goes on."""

    def forbid(*_: int) -> None:
        raise PermissionError("no")

    lower_priority(10, forbid)
    assert "priority" in capfd.readouterr().err


async def worker_process(directory: Path) -> None:
    """Live through a process's life: hello, niceness, ignored signals, a record, the end."""
    link = ProcessLink(10, None)
    try:
        assert await link.read() == [HELLO]
        assert link.pid is not None
        assert os.getpriority(os.PRIO_PROCESS, link.pid) == 10
        assert os.getpgid(link.pid) == link.pid
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(link.pid, number)
        await link.write(Introduction(PipelineSettings(directory=str(directory)), SERVER), 0, 0)
        await link.write(exchange(), 1, frames.LAST_OF_BATCH)
        assert await link.read() == [Answer(1, frames.COMMITTED)]
        link.end_input()
        with pytest.raises(WorkerGone):
            await link.read()
    finally:
        link.close()
        await link.reap()
    assert link.exit_code == 0


def test_a_process_of_its_own(tmp_path: Path) -> None:
    """A worker process is nice, in a group of its own, deaf to the server's signals, and ends with its input."""
    anyio.run(worker_process, tmp_path)


@pytest.mark.parametrize("variable", ["", "PYTHONPATH"])
def test_a_users_own_files_do_not_take_our_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Started in a folder that holds pipeline.py, msgspec.py and the like, a worker is still ours."""
    for name in ("pipeline", "capture", "worker", *(["sitecustomize", "msgspec"] if not variable else [])):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong file')\n")
    monkeypatch.chdir(tmp_path)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "records").mkdir()
    anyio.run(worker_process, tmp_path / "records")


async def reap_stopped() -> None:
    """Close the pipes of a process that is stopped, and collect it."""
    link = ProcessLink(0, None)
    await link.read()
    assert link.pid is not None
    os.kill(link.pid, signal.SIGSTOP)
    link.close()
    await link.reap()
    assert link.exit_code == -signal.SIGKILL


def test_a_process_that_does_not_end_is_killed() -> None:
    """A stopped worker is collected within seconds, and no zombie stays."""
    anyio.run(reap_stopped)
