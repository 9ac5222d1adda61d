"""What a collector attaches to its row, and what it is told of what is missing."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from capture import CaptureStore
from capture.merge import (
    FORMS,
    MODEL_CALL_KEY,
    TRAJECTORY_KEY,
    AttachedCall,
    amerge_capture_into_record,
    merge_capture_into_record,
)
from capture.metrics import RolloutMetrics
from capture.steps import StepRecord
from pipeline.gaps import Gap, gap_line, gap_path, note_path, record_path
from pipeline.process import encode
from tests.capture.conversing import DIALECTS, Rollout, bash, model, tool, user
from tests.capture.recorded import Call, serving
from tests.capture.stored import call_id

ROW = {"_ng_task_index": 3, "_ng_rollout_index": 1, "reward": 0.5, "response": {"output": []}}


def scripted(dialect: str = "chat") -> Rollout:
    """Make a rollout of two calls, of which the second fails."""
    rollout = Rollout(dialect)
    rollout.call([user("go")], model("", bash("c1")))
    rollout.call([user("go"), model("", bash("c1")), tool("c1", "out")], None)
    return rollout


def stored(directory: Path, rollout: Rollout, rollout_id: str = "3-1") -> CaptureStore:
    """Write a rollout's records into its file."""
    lines = [_line(encode(record)) for record in rollout.records]
    record_path(directory, rollout_id).write_bytes(b"".join(lines))
    return CaptureStore(directory)


def _line(encoded: bytes) -> bytes:
    members = json.loads(encoded)
    members.pop("unknown")
    return json.dumps(members).encode() + b"\n"


def merged(store: CaptureStore, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - see merge_capture_into_record
    """Merge into a row of rollout 3-1."""
    attached = merge_capture_into_record(dict(ROW), store, **options)
    assert attached is not None
    return attached


def test_metrics_and_calls_are_attached_and_nothing_else_is_touched(tmp_path: Path) -> None:
    """The row gains one member; the harness's output and reward stay as they are."""
    row = json.loads(json.dumps(ROW))
    attached = merge_capture_into_record(row, stored(tmp_path, scripted()))
    assert row.pop(MODEL_CALL_KEY) is attached
    assert row == ROW
    assert attached is not None
    assert list(attached) == ["rollout_id", "metrics", "calls"]
    assert (attached["rollout_id"], attached["metrics"]["num_calls"]) == ("3-1", 2)
    assert [call["call_index"] for call in attached["calls"]] == [0, 1]
    assert json.loads(json.dumps(attached)) == attached


def test_both_of_gyms_forms_are_presets_by_their_key(tmp_path: Path) -> None:
    """The seed's key has `steps` by `step_index`, the later one `calls` by `call_index`; other keys are like that."""
    store = stored(tmp_path, scripted())
    steps = merged(store, key=TRAJECTORY_KEY)
    assert list(steps) == ["rollout_id", "metrics", "steps"]
    assert set(steps["steps"][0]) == set(StepRecord.__struct_fields__)
    assert list(merged(store, key="mine")) == ["rollout_id", "metrics", "calls"]


def test_payloads_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    """With them each call holds its request and response, and the raw bodies where they were kept."""
    store = stored(tmp_path, scripted())
    assert "request" not in merged(store)["calls"][0]
    calls = merged(store, include_payloads=True)["calls"]
    assert calls[0]["request"]["messages"] == [{"role": "user", "content": "go"}]
    assert calls[0]["response"]["choices"][0]["finish_reason"] == "tool_calls"
    assert calls[1]["response_raw"] is None


@pytest.mark.parametrize("include_payloads", [False, True])
@pytest.mark.parametrize("key", FORMS)
def test_key_sets_are_the_same_for_every_dialect_and_outcome(
    tmp_path: Path, key: str, *, include_payloads: bool
) -> None:
    """Whatever was called and however it ended, metrics and calls have the same members."""
    shapes = set()
    for dialect in DIALECTS:
        store = stored(tmp_path, scripted(dialect))
        attached = merged(store, key=key, include_payloads=include_payloads)
        shapes |= {tuple(call) for call in attached[FORMS[key].calls]}
        shapes.add(tuple(attached["metrics"]))
    assert len(shapes) == 2
    assert tuple(RolloutMetrics.__struct_fields__) in shapes


def test_the_type_of_an_attached_call_is_what_is_attached(tmp_path: Path) -> None:
    """What the schema is made from reads what the merge wrote, member by member."""
    attached = merged(stored(tmp_path, scripted()), include_payloads=True)
    calls = msgspec.convert(attached["calls"], list[AttachedCall])
    assert [msgspec.to_builtins(call).keys() for call in calls] == [call.keys() for call in attached["calls"]]


def test_a_failed_rollout_gets_its_calls_too(tmp_path: Path) -> None:
    """A row without a result is merged by the same rules as any other."""
    row: dict[str, Any] = {"_ng_task_index": 3, "_ng_rollout_index": 1, "error": "agent_run_error"}
    merge_capture_into_record(row, stored(tmp_path, scripted()))
    assert (row[MODEL_CALL_KEY]["metrics"]["num_calls"], row["error"]) == (2, "agent_run_error")


def test_a_row_without_an_id_is_left_alone(tmp_path: Path) -> None:
    """There is nothing to attach to a row that names no rollout."""
    row: dict[str, Any] = {"reward": 1.0}
    assert merge_capture_into_record(row, CaptureStore(tmp_path)) is None
    assert row == {"reward": 1.0}


def test_an_explicit_id_wins_over_the_rows(tmp_path: Path) -> None:
    """A collector that knows better says so."""
    store = stored(tmp_path, scripted(), "other")
    assert len(merged(store, rollout_id="other")["calls"]) == 2


def test_a_rollout_without_records_says_so(tmp_path: Path) -> None:
    """Loudly: an empty list of calls, the full null shape of metrics, and a gap."""
    attached = merged(CaptureStore(tmp_path))
    assert (attached["calls"], attached["metrics"]["tokens_in"]) == ([], None)
    assert attached["gaps"] == [{"code": "model_call_capture_no_records", "count": 1, "detail": None}]


def test_damaged_lines_are_counted_and_the_others_attached(tmp_path: Path) -> None:
    """What can be read is; how many lines cannot is a gap."""
    store = stored(tmp_path, scripted())
    with record_path(tmp_path, "3-1").open("ab") as file:
        file.write(b'{"torn\n\n{}\n{"model_call_id":"unfinished')
    attached = merged(store)
    assert len(attached["calls"]) == 2
    assert attached["gaps"] == [{"code": "model_call_capture_records_unreadable", "count": 3, "detail": None}]


def test_missing_calls_are_counted_by_their_code(tmp_path: Path) -> None:
    """Calls that were dropped or lost make the capture incomplete; one whose record is there after all does not."""
    store = stored(tmp_path, scripted())
    codes = {0: "lost", 7: "dropped", 8: "dropped", 9: "lost"}
    lines = [gap_line(Gap(model_call_id=call_id(number), code=code)) for number, code in codes.items()]
    gap_path(tmp_path, "3-1").write_bytes(b"\n".join([*lines, b""]))
    gap = {"code": "model_call_capture_incomplete", "count": 3, "detail": "dropped: 2, lost: 1"}
    assert merged(store)["gaps"] == [gap]


def test_gyms_own_empty_marker_is_a_gap(tmp_path: Path) -> None:
    """An empty marker says that something is missing, not what."""
    store = stored(tmp_path, scripted())
    gap_path(tmp_path, "3-1").touch()
    assert [gap["code"] for gap in merged(store)["gaps"]] == ["model_call_capture_incomplete"]


def test_a_file_that_cannot_be_read_is_a_gap(tmp_path: Path) -> None:
    """A folder in the file's place stands for any error of the disk; nothing raises."""
    record_path(tmp_path, "3-1").mkdir()
    attached = merged(CaptureStore(tmp_path))
    assert attached["calls"] == []
    assert [gap["code"] for gap in attached["gaps"]] == ["model_call_capture_unreadable"]


def test_late_notes_are_joined(tmp_path: Path) -> None:
    """What a handler noted after its record was on its way is in the attached call."""
    store = stored(tmp_path, scripted())
    note = {"model_call_id": call_id(0), "annotations": {"judged": "good"}}
    note_path(tmp_path, "3-1").write_bytes(json.dumps(note).encode() + b"\n")
    assert [call["annotations"] for call in merged(store)["calls"]] == [{"judged": "good"}, None]


def test_calls_that_are_still_on_their_way_are_a_gap(tmp_path: Path) -> None:
    """Who merges before the rollout is settled is told how many calls there will be more."""
    seen: list[Any] = []

    async def run() -> None:
        async with serving(tmp_path, worker_kind="thread") as server, anyio.create_task_group() as group:
            group.start_soon(partial(server.call, Call("3-1"), hold=True))
            await anyio.wait_all_tasks_blocked()
            seen.append(merged(CaptureStore(tmp_path)))
            server.release.set()

    anyio.run(run)
    gap = {"code": "model_call_capture_unsettled", "count": 1, "detail": None}
    assert seen[0]["gaps"] == [{"code": "model_call_capture_no_records", "count": 1, "detail": None}, gap]
    assert "gaps" not in merged(CaptureStore(tmp_path))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_asynchronous_merge_attaches_the_same(tmp_path: Path, backend: str) -> None:
    """On either event loop, several at once, with the options of the blocking one."""
    store = stored(tmp_path, scripted())
    rows = [json.loads(json.dumps(ROW)) for _ in range(3)]

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for row in rows:
                group.start_soon(amerge, row)
        assert await amerge_capture_into_record({}, store) is None

    async def amerge(row: dict[str, Any]) -> None:
        await amerge_capture_into_record(row, store, key=TRAJECTORY_KEY, include_payloads=True)

    anyio.run(run, backend=backend)
    assert rows == [{**ROW, TRAJECTORY_KEY: merged(store, key=TRAJECTORY_KEY, include_payloads=True)}] * 3


@pytest.mark.parametrize(("attempt", "expected"), [({}, 2), ({"_ng_attempt_index": 1}, 0)])
def test_attempts_do_not_mix(tmp_path: Path, attempt: dict[str, int], expected: int) -> None:
    """A row of the second attempt is not given the calls of the first."""
    row: dict[str, Any] = {**ROW, **attempt}
    merge_capture_into_record(row, stored(tmp_path, scripted()))
    assert len(row[MODEL_CALL_KEY]["calls"]) == expected


def test_a_row_with_an_unfit_id_is_refused(tmp_path: Path) -> None:
    """An id of the caller's own that could not have been served is a fault of the caller's, and raises."""
    with pytest.raises(ValueError, match="rollout id"):
        merge_capture_into_record({"_ng_rollout_id": "../x"}, CaptureStore(tmp_path))
