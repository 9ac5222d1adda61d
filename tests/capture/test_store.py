"""The directory of record files, for reading."""

import resource
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from filelock import lock_descriptor

from capture import CaptureStore
from pipeline import slots
from pipeline.exchange import Annotation
from pipeline.gaps import Gap, gap_line, gap_path, note_path, record_path
from pipeline.notes import note_line
from pipeline.stems import stem_of, uncorrelated_stem
from tests.capture.stored import call_id, line_of, write
from tests.pipeline.deadly import dead_ledger, descriptors, new_ledger

BACKENDS = ("asyncio", "trio")


def name_gaps(directory: Path, rollout_id: str, *numbers: int, code: str = "dropped") -> None:
    """Write gap lines."""
    lines = [gap_line(Gap(model_call_id=call_id(number), code=code)) + b"\n" for number in numbers]
    gap_path(directory, stem_of(rollout_id)).write_bytes(b"".join(lines))


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_ways_of_reading_give_the_same(tmp_path: Path, backend: str) -> None:
    """`read` and `aread` give equal records with their notes joined; nothing of a rollout that is not there."""
    write(tmp_path, 3, 1, 2)
    note = Annotation(call_id=bytes.fromhex(call_id(1)), stem="r", annotations={"late": True})
    note_path(tmp_path, "r").write_bytes(note_line(note) + b"\n")
    store = CaptureStore(str(tmp_path))
    records = anyio.run(store.aread, "r", backend=backend)
    assert records == store.read("r")
    assert [record.model_call_id for record in records] == [call_id(number) for number in (3, 1, 2)]
    assert records[1].annotations is not None
    assert records[1].annotations["late"] is True
    assert store.read("missing") == anyio.run(store.aread, "missing", backend=backend) == []


def test_a_torn_tail_is_damage_once_nobody_writes(tmp_path: Path) -> None:
    """While a writer holds the file its tail is on its way; without one it is a damaged line and a gap."""
    path = write(tmp_path, 1)
    with path.open("ab") as file:
        file.write(line_of(2)[:-9])
        file.flush()
        assert lock_descriptor(file.fileno(), blocking=False)
        assert CaptureStore(tmp_path).read_available("r").damaged == 0
    store = CaptureStore(tmp_path)
    reading = store.read_available("r")
    assert ([record.model_call_id for record in reading.records], reading.damaged) == ([call_id(1)], 1)
    assert [gap.code for gap in store.gaps("r")] == ["damaged_line"]


def test_a_gap_whose_record_is_there_is_none(tmp_path: Path) -> None:
    """Gaps are what is named and in no line; damage counts beside them."""
    path = write(tmp_path, 1, 2)
    path.write_bytes(path.read_bytes() + b"damage\n")
    name_gaps(tmp_path, "r", 2, 3, 4, code="failed")
    found = CaptureStore(tmp_path).gaps("r")
    assert [(gap.model_call_id, gap.code) for gap in found] == [
        (call_id(3), "failed"),
        (call_id(4), "failed"),
        (None, "damaged_line"),
    ]


def test_gaps_of_all_rollouts(tmp_path: Path) -> None:
    """Without a rollout the gaps of all are given, also of those with no record and those still in a ledger."""
    write(tmp_path, 1, rollout_id="a")
    name_gaps(tmp_path, "a", 2)
    name_gaps(tmp_path, "only gaps", 3)
    ledger = new_ledger(tmp_path, {4: ("c", "failed"), 5: ("c", "open")})
    store = CaptureStore(tmp_path)
    assert {gap.model_call_id for gap in store.gaps()} == {call_id(number) for number in (2, 3, 4)}
    assert [gap.model_call_id for gap in store.gaps("c")] == [call_id(4)]
    ledger.close()


@pytest.mark.parametrize("path_of", [record_path, gap_path, note_path])
def test_a_file_that_cannot_be_read_does_not_look_empty(
    tmp_path: Path, path_of: Callable[[Path, str], Path]
) -> None:
    """Whatever keeps it closed: a settle is not complete, and the gap names the file."""
    path_of(tmp_path, "r").mkdir()
    settled = CaptureStore(tmp_path).settle("r", timeout=1)
    name = path_of(tmp_path, "r").name
    assert not settled.complete
    assert [(gap.code, gap.detail) for gap in settled.gaps] == [
        ("unreadable_file", f"{name}: Is a directory")
    ]


@pytest.mark.parametrize("content", [b"", b"torn"])
def test_an_empty_marker_says_that_something_is_missing(tmp_path: Path, content: bytes) -> None:
    """The reference's own empty marker is a gap without a name."""
    gap_path(tmp_path, "r").write_bytes(content)
    assert CaptureStore(tmp_path).gaps("r") == [Gap(model_call_id=None, code="unnamed")]


IDS = [
    "plain",
    "../../x",
    "a" * 300,
    "Ünïcode",
    "UPPER/lower",
    "dot.",
    "",
    "a.capture.incomplete",
    "b.capture.jsonl",
]


def test_rollouts_are_listed_by_their_own_ids(tmp_path: Path) -> None:
    """Ids that are no file names come out as they went in, ids that look like our files' endings too."""
    for number, rollout_id in enumerate(IDS):
        write(tmp_path, number, rollout_id=rollout_id)
    name_gaps(tmp_path, "gaps-only", 99)
    store = CaptureStore(tmp_path)
    assert store.rollouts() == sorted([*IDS, "gaps-only"])
    for number, rollout_id in enumerate(IDS):
        assert [record.model_call_id for record in store.read(rollout_id)] == [call_id(number)]


def test_calls_without_a_rollout_are_no_rollout(tmp_path: Path) -> None:
    """An uncorrelated file is among the stems, not among the rollouts."""
    stem = uncorrelated_stem("instance", "20260102")
    record_path(tmp_path, stem).write_bytes(line_of(1, rollout_id=None) + b"\n")
    store = CaptureStore(tmp_path)
    assert (store.stems(), store.rollouts()) == ([stem], [])


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """Nothing was captured, so there is nothing to read, to wait for or to miss."""
    store = CaptureStore(tmp_path / "missing")
    assert (store.rollouts(), store.gaps(), store.read("r")) == ([], [], [])
    assert store.settle("r", 0).complete
    assert store.settle(None, 0).complete


@pytest.mark.parametrize("backend", ["thread", *BACKENDS])
def test_settle_returns_once_the_call_is_written(tmp_path: Path, backend: str) -> None:
    """A settle in any world ends when the last call that started before is committed, and not earlier."""
    ledger = new_ledger(tmp_path, {})
    slot = ledger.open(b"i" * 16, 1.0, b"r")
    assert slot is not None
    store = CaptureStore(tmp_path)
    early = store.settle("r", 0.02)
    assert (early.complete, [call.state for call in early.pending]) == (False, ["open"])
    assert early.waited_s >= 0.02
    timer = threading.Timer(0.05, ledger.finish, (slot, slots.COMMITTED))
    timer.start()
    late = store.settle("r") if backend == "thread" else anyio.run(store.asettle, "r", backend=backend)
    timer.join()
    assert late.complete
    ledger.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_settle_holds_up_no_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """Taking over a dead ledger reads and writes files, and is not done on the loop's thread."""
    seen: list[int] = []

    def looked(*_: object) -> None:
        seen.append(threading.get_ident())

    dead_ledger(tmp_path, {1: ("r", "open")})
    monkeypatch.setattr("pipeline.takeover.bury", looked)
    anyio.run(CaptureStore(tmp_path).asettle, "r", 0.01, backend=backend)
    assert len(seen) >= 2
    assert threading.get_ident() not in seen


def test_a_dead_servers_calls_are_named(tmp_path: Path) -> None:
    """Settle after a crash: what is in no file is a gap, at once and at every later look, and nothing is pending."""
    dead_ledger(tmp_path, {1: ("r", "accepted"), 2: ("r", "open"), 3: ("other", "open")})
    write(tmp_path, 1)
    store = CaptureStore(tmp_path)
    for _ in range(2):
        settled = store.settle("r")
        assert [(gap.model_call_id, gap.code) for gap in settled.gaps] == [(call_id(2), "lost")]
        assert (settled.complete, settled.pending) == (False, ())
    assert [gap.model_call_id for gap in store.gaps("other")] == [call_id(3)]


def test_reading_without_descriptors_is_no_empty_rollout(tmp_path: Path) -> None:
    """With no descriptor left a read raises, in both ways, rather than give less than there is."""
    write(tmp_path, 1)
    store = CaptureStore(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def read() -> None:
        with pytest.raises(OSError, match="open files"):
            store.read("r")
        with pytest.raises(OSError, match="open files"):
            await store.aread("r")

    async def run() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            await read()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    anyio.run(run)
    assert len(store.read("r")) == 1


def test_nothing_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No way of reading leaves a descriptor behind, a settle that is interrupted neither."""
    write(tmp_path, 1)
    ledger = new_ledger(tmp_path, {2: ("r", "open")})
    store = CaptureStore(tmp_path)
    before = descriptors()
    store.read("r")
    store.gaps()
    store.status()
    store.settle("r", 0.01)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("capture.store.time.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.settle("r", 1.0)
    assert descriptors() == before
    ledger.close()


def test_clear_takes_several_ids(tmp_path: Path) -> None:
    """Only the given rollouts go, whatever their names; a single id in place of a list is a wrong call."""
    store = CaptureStore(tmp_path)
    for name in ("a", "b/c", "d"):
        write(tmp_path, 1, rollout_id=name)
    with pytest.raises(TypeError, match="several"):
        store.clear("abd")
    cleared = store.clear(["a", "b/c", "never", "a"])
    assert (cleared.removed, cleared.fenced, cleared.unaccountable) == (("a", "b/c"), (), ())
    assert store.rollouts() == ["d"]
    assert anyio.run(store.aclear, ["d"]).removed == ("d",)
    assert store.stems() == []
