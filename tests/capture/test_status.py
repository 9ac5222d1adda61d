"""The live view of a capture directory: living, ended, killed, foreign and unreadable server processes."""

import fcntl
import os
import shutil
from pathlib import Path

import anyio
import msgspec
from filelock import lock_descriptor

from capture import CaptureStore, Status
from pipeline import places
from pipeline.account import ledger_paths
from tests.capture.recorded import Call, open_call, record, serving
from tests.clients.servers import captured


def status_while_serving(directory: Path, *, uncorrelated: str = "capture") -> tuple[Status, Status]:
    """Answer three calls and hold two back; return the status meanwhile, and once they are answered, too."""
    store = CaptureStore(directory)

    async def run() -> tuple[Status, Status]:
        async with serving(directory, worker_kind="thread", uncorrelated=uncorrelated) as server:
            for call in (Call("a"), Call("b", error="no"), Call(None)):
                await server.call(call)
            await store.asettle()
            async with anyio.create_task_group() as group:
                for name in ("first", "second"):
                    group.start_soon(lambda call: server.call(call, hold=True), Call(name))
                    await anyio.wait_all_tasks_blocked()
                held = store.status()
                server.release.set()
            await store.asettle()
            return held, store.status()

    return anyio.run(run)


def test_a_living_server_process_shows_what_it_has_in_flight(tmp_path: Path) -> None:
    """Two calls held back are open, oldest first, under their rollouts, and the process is alive."""
    held, after = status_while_serving(tmp_path)
    server = held.servers[0]
    assert (server.state, server.pid, server.worker_kind) == ("alive", os.getpid(), "thread")
    assert (server.counts.started, server.counts.open, server.counts.worker_threads) == (5, 2, 1)
    assert [(call.stem, call.state, call.pid) for call in held.in_flight] == [
        ("first", "open", os.getpid()),
        ("second", "open", os.getpid()),
    ]
    assert held.in_flight[0].started_at <= held.in_flight[1].started_at
    assert after.in_flight == []


def test_counts_are_balanced_once_all_is_settled(tmp_path: Path) -> None:
    """Every call that started is where it belongs, the queue is empty, and the last commit has a time."""
    _, after = status_while_serving(tmp_path)
    server = after.servers[0]
    assert (server.counts.started, server.counts.committed, server.unbalanced) == (5, 5, 0)
    assert server.counts.captured_bytes > 0
    assert server.last_commit_at is not None
    assert CaptureStore(tmp_path).read("second")[0].completed_at <= server.last_commit_at


def test_skipped_uncorrelated_calls_are_seen(tmp_path: Path) -> None:
    """A call that names no rollout and is not wanted is in no account but a counter, there and when it ended."""
    held, _ = status_while_serving(tmp_path, uncorrelated="skip")
    assert (held.servers[0].counts.uncorrelated_skipped, held.servers[0].counts.started) == (1, 4)
    assert CaptureStore(tmp_path).status().retired.counts["uncorrelated_skipped"] == 1


def test_server_processes_that_ended_are_summed_up(tmp_path: Path) -> None:
    """Two runs, each ended in order, leave no server process and the sum of their counts."""
    for text in ("x", "y"):
        record(tmp_path, Call("a", text), Call("b", text))
    status = CaptureStore(tmp_path).status()
    assert (status.servers, status.in_flight, status.anonymous) == ([], [], [])
    assert (status.retired.processes, status.retired.lost) == (2, 0)
    assert (status.retired.counts["started"], status.retired.counts["committed"]) == (4, 4)


def test_an_empty_or_missing_directory_has_an_empty_status(tmp_path: Path) -> None:
    """Nothing there is nothing found, and no error."""
    for directory in (tmp_path, tmp_path / "missing"):
        status = CaptureStore(directory).status()
        assert (status.servers, status.retired.processes) == ([], 0)


def test_a_killed_server_process_is_accounted_for_by_status_alone(tmp_path: Path) -> None:
    """The call that a killed process was serving is in flight before, and a named gap and counted lost after."""
    store = CaptureStore(tmp_path / "records")
    with captured(tmp_path, store.directory, workers=1) as server:
        with open_call(server.url, "r-1"):
            before = store.status()
            ledger = ledger_paths(store.directory)[0]
            with ledger.open("rb") as file:
                server.process.kill()
                fcntl.flock(file, fcntl.LOCK_EX)
        after = store.status()
    assert [(call.stem, call.state) for call in before.in_flight] == [("r-1", "open")]
    assert before.servers[0].worker_kind == "process"
    assert (after.servers, after.in_flight) == ([], [])
    assert (after.retired.processes, after.retired.lost, after.retired.counts["failed"]) == (1, 1, 1)
    gaps = store.gaps("r-1")
    assert [(gap.model_call_id, gap.code) for gap in gaps] == [(before.in_flight[0].model_call_id, "lost")]
    assert not ledger.exists()


def test_a_dead_ledger_that_cannot_be_taken_over_stays_and_is_called_dead(tmp_path: Path) -> None:
    """Where the gap's file cannot be written, the process is neither alive nor retired, and its calls not lost."""
    copy_of_ledger_with_open_call(tmp_path, f"{places.host_name()}-{places.boot_id()}-1-dead.ledger")
    (tmp_path / "held.capture.jsonl").unlink()
    (tmp_path / "held.capture.incomplete").mkdir()
    status = CaptureStore(tmp_path).status()
    assert [(server.state, server.counts.open) for server in status.servers] == [("dead", 1)]
    assert status.in_flight == []
    assert status.retired.processes == 1


def test_a_foreign_ledger_is_only_reported(tmp_path: Path) -> None:
    """Another host's process is shown with its counts; what it has in flight is not claimed, its file stays."""
    path = copy_of_ledger_with_open_call(tmp_path, "elsewhere-01234567-1-far.ledger")
    status = CaptureStore(tmp_path).status()
    assert [(server.state, server.ledger) for server in status.servers] == [("foreign", str(path))]
    assert status.in_flight == []
    assert path.exists()


def test_a_living_server_process_without_a_readable_account_is_named(tmp_path: Path) -> None:
    """One that could make no file is named while its announcement is locked, and forgotten afterwards."""
    descriptor = places.announce(tmp_path, "host-boot-1-x.ledger", places.ANONYMOUS, 0o700)
    lock_descriptor(descriptor, blocking=False)
    store = CaptureStore(tmp_path)
    assert store.status().anonymous == ["host-boot-1-x.ledger"]
    os.close(descriptor)
    assert store.status().anonymous == []


def test_status_goes_through_json(tmp_path: Path) -> None:
    """A status encodes and decodes to itself, so that it can be sent."""
    held, _ = status_while_serving(tmp_path)
    assert msgspec.json.decode(msgspec.json.encode(held), type=Status) == held


def copy_of_ledger_with_open_call(directory: Path, name: str) -> Path:
    """Leave a ledger under another name, copied while a call of rollout `held` was open."""
    path = places.default_folder(directory) / name

    async def run() -> None:
        async with serving(directory, worker_kind="thread") as server, anyio.create_task_group() as group:
            group.start_soon(lambda: server.call(Call("held"), hold=True))
            await anyio.wait_all_tasks_blocked()
            shutil.copyfile(ledger_paths(directory)[0], path)
            group.cancel_scope.cancel()

    anyio.run(run)
    return path
