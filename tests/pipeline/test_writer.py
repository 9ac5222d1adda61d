"""A worker's hands: nothing is answered before it is durable, and one bad file holds up no other."""

import errno
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import lock_descriptor, unlock_descriptor

from pipeline import append as append_module
from pipeline import frames, writer
from pipeline.batch import Batch, Line
from pipeline.frames import Answer
from pipeline.settings import PipelineSettings
from pipeline.writer import Writer


class Time:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def new_writer(directory: Path, clock: Time | None = None, **changes: object) -> Writer:
    """Make a writer."""
    settings = PipelineSettings(directory=str(directory), **changes)  # type: ignore[arg-type]
    return Writer(settings, clock or Time())


def line_of(number: int) -> bytes:
    """Make a short record line."""
    return json.dumps({"model_call_id": f"{number:032x}"}, separators=(",", ":")).encode()


def batch_of(*names: str, now: float = 100.0) -> Batch:
    """Make a batch of one line for each name; tickets count from 1."""
    batch = Batch()
    for ticket, name in enumerate(names, 1):
        batch.add(name, Line(ticket, line_of(ticket), resent=False), now)
    return batch


def fates(answers: list[Answer]) -> dict[int, tuple[int, str]]:
    """Return fate and fault by ticket."""
    return {answer.ticket: (answer.fate, answer.detail) for answer in answers}


OK = (frames.COMMITTED, "")


def test_lines_of_a_file_keep_their_order(tmp_path: Path) -> None:
    """Lines that came in turn for two files are in each in the order in which they came."""
    batch = batch_of(*"abbaab" * 20)
    answers = new_writer(tmp_path).write_due(batch)
    assert fates(answers) == dict.fromkeys(range(1, 121), OK)
    for name in "ab":
        numbers = [
            int(json.loads(line)["model_call_id"], 16) for line in (tmp_path / name).read_text().splitlines()
        ]
        assert numbers == sorted(numbers)
        assert len(numbers) == 60
    assert not batch


def test_nothing_is_answered_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the answers are there every file was synced after its write, and the directory of new files once."""
    synced: dict[str, int] = {}
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        synced[path] = synced.get(path, 0) + 1
        if path != str(tmp_path):
            assert os.fstat(descriptor).st_size > 0
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    hands = new_writer(tmp_path)
    names = [f"r{number}" for number in range(150)]
    hands.write_due(batch_of("a", "b", *names))
    assert synced == {str(tmp_path / name): 1 for name in ("a", "b", *names)} | {str(tmp_path): 1}
    synced.clear()
    hands.write_due(batch_of("a", "b"))
    assert synced == {str(tmp_path / name): 1 for name in "ab"}


def test_a_sync_that_fails_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose sync fails is answered as failed with the fault; its neighbours are committed."""
    fsync = os.fsync

    def broken(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "b":
            raise OSError(errno.EIO, "broken disk")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    answers = new_writer(tmp_path).write_due(batch_of("a", "b", "c"))
    assert fates(answers) == {1: OK, 2: (frames.FAILED, "EIO"), 3: OK}


def test_fsync_never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fsync=never nothing is synced and everything is committed."""

    def refuse(_: int) -> None:
        raise AssertionError

    monkeypatch.setattr(os, "fsync", refuse)
    assert fates(new_writer(tmp_path, fsync="never").write_due(batch_of("a", "b"))) == {1: OK, 2: OK}


def test_a_held_file_is_set_aside(tmp_path: Path) -> None:
    """While one file's lock is held the others are committed; once it is free its lines are, in order."""
    clock = Time()
    hands, batch = new_writer(tmp_path, clock), batch_of("a", "held", "b", "held")
    with (tmp_path / "held").open("wb") as file:
        assert lock_descriptor(file.fileno(), blocking=False)
        assert fates(hands.write_due(batch)) == {1: OK, 3: OK}
        assert hands.write_due(batch) == []
        unlock_descriptor(file.fileno())
    clock.now += 1
    assert [answer.ticket for answer in hands.write_due(batch)] == [2, 4]
    assert (tmp_path / "held").read_bytes() == line_of(2) + b"\n" + line_of(4) + b"\n"


def test_many_held_files_cost_one_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred held files one is waited for in a round, the others are only tried."""
    patience: list[float] = []

    def busy(*_: object, patience_s: float, **__: object) -> None:
        patience.append(patience_s)
        raise append_module.Busy

    monkeypatch.setattr(writer, "append", busy)
    clock = Time()
    hands, batch = new_writer(tmp_path, clock), batch_of(*(f"r{number}" for number in range(100)))
    hands.write_due(batch)
    assert patience == [writer.PATIENCE_S] + [0.0] * 99
    clock.now += 1
    hands.write_due(batch)
    assert patience[100] == writer.PATIENCE_S


def test_a_lock_that_stays_held_is_given_up(tmp_path: Path) -> None:
    """After lock_timeout_ms the lines are answered as failed, and the file may be tried again by later ones."""
    clock = Time()
    hands, batch = new_writer(tmp_path, clock, lock_timeout_ms=2000), batch_of("held")
    with (tmp_path / "held").open("wb") as file:
        assert lock_descriptor(file.fileno(), blocking=False)
        rounds = 0
        while not (answers := hands.write_due(batch)):
            rounds += 1
            clock.now += 0.5
        assert fates(answers) == {1: (frames.FAILED, "lock_timeout")}
        assert rounds == 4
    assert fates(hands.write_due(batch_of("held", now=clock.now))) == {1: OK}


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EACCES])
def test_a_fault_that_may_pass_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    """A full disk or too many open files is waited for; in time the line is committed, else the fault is named."""
    clock = Time()
    hands, batch = new_writer(tmp_path, clock, lock_timeout_ms=1000), batch_of("a")

    def broken(*_: object, **__: object) -> None:
        raise OSError(fault, "broken")

    with monkeypatch.context() as disk:
        disk.setattr(writer, "append", broken)
        assert hands.write_due(batch) == []
    clock.now += 0.5
    assert fates(hands.write_due(batch)) == {1: OK}
    monkeypatch.setattr(writer, "append", broken)
    batch = batch_of("a", now=clock.now)
    assert hands.write_due(batch) == []
    clock.now += 1.0
    assert fates(hands.write_due(batch)) == {1: (frames.FAILED, errno.errorcode[fault])}


@pytest.mark.parametrize("fault", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    """Where no lock can ever be had nobody waits for one."""

    def none(*_: object, **__: object) -> bool:
        raise OSError(fault, "no locks here")

    monkeypatch.setattr(append_module, "lock_descriptor", none)
    answers = new_writer(tmp_path).write_due(batch_of("a"))
    assert fates(answers) == {1: (frames.FAILED, errno.errorcode[fault])}


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_something_else_in_a_files_place_fails_at_once(tmp_path: Path, kind: str) -> None:
    """A folder or a link under the file's name is neither followed nor waited for."""
    if kind == "folder":
        (tmp_path / "a").mkdir()
    else:
        (tmp_path / "a").symlink_to(tmp_path / "b")
    answers = fates(new_writer(tmp_path).write_due(batch_of("a", "c")))
    assert answers[1][0] == frames.FAILED
    assert answers[1][1] in {"EISDIR", "ELOOP"}
    assert answers[2] == OK


def test_a_directory_that_vanished_is_made_again(tmp_path: Path) -> None:
    """Records go on in a new directory with the mode that was asked for."""
    directory = tmp_path / "records"
    hands = new_writer(directory, directory_mode=0o750)
    for _ in range(2):
        assert fates(hands.write_due(batch_of("a", "b"))) == {1: OK, 2: OK}
        assert directory.stat().st_mode & 0o777 == 0o750
        shutil.rmtree(directory)


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch for a thousand rollouts needs no more descriptors than one for 64."""
    most = 0
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        nonlocal most
        most = max(most, len(list(Path("/proc/self/fd").iterdir())))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    before = len(list(Path("/proc/self/fd").iterdir()))
    hands, batch = new_writer(tmp_path), batch_of(*(f"r{number}" for number in range(1000)))
    assert set(fates(hands.write_due(batch)).values()) == {OK}
    assert len(list(tmp_path.iterdir())) == 1000
    assert most - before <= writer.SYNCED_TOGETHER + writer.SYNC_THREADS + 2


def test_an_ending_interpreter_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no more threads can be started files are synced in turn."""
    hands = new_writer(tmp_path)

    def refuse(*_: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    assert fates(hands.write_due(batch_of("a", "b"))) == {1: OK, 2: OK}
