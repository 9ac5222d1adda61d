"""What a fence holds back, and who asks it."""

import json
import os
import resource
from pathlib import Path

import pytest

from pipeline.append import append
from pipeline.fences import Fences, as_text, folder_of, read_fence, stem_in
from pipeline.gaps import SUFFIXES, gap_path, record_path
from pipeline.settling import Settling
from pipeline.takeover import bury
from tests.pipeline.deadly import call_id, dead_ledger, new_ledger, view_of


def fence(directory: Path, stem: str, *numbers: int) -> None:
    """Put up a fence around these calls."""
    folder_of(directory).mkdir(parents=True, exist_ok=True)
    (folder_of(directory) / stem).write_text(as_text(call_id(number).hex() for number in numbers))


def put(path: Path, *numbers: int, resent: bool = False) -> bool:
    """Append these calls' lines; whether the file was new."""
    lines = [b'{"model_call_id":"%s"}' % call_id(number).hex().encode() for number in numbers]
    made = append(path, lines, mode=0o600, patience_s=0.2, resent=resent)
    os.close(made.descriptor)
    return made.created


def numbers_in(path: Path) -> list[int]:
    """Return the calls in a file."""
    return [int(json.loads(line)["model_call_id"], 16) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("resent", [False, True])
def test_lines_behind_a_fence_are_not_appended(tmp_path: Path, suffix: str, *, resent: bool) -> None:
    """Records, gaps and notes of fenced calls are left out, first sent or again; the others are written."""
    fence(tmp_path, "a.b", 1, 3)
    put(tmp_path / f"a.b{suffix}", 1, 2, 3, 4, resent=resent)
    assert numbers_in(tmp_path / f"a.b{suffix}") == [2, 4]


def test_no_file_is_made_for_nothing(tmp_path: Path) -> None:
    """Where all lines are held back, no file is made; one that is there stays as it is."""
    fence(tmp_path, "a", 1)
    put(record_path(tmp_path, "a"), 1)
    assert not record_path(tmp_path, "a").exists()
    put(record_path(tmp_path, "a"), 2)
    put(record_path(tmp_path, "a"), 1)
    assert numbers_in(record_path(tmp_path, "a")) == [2]


def test_a_fence_is_for_one_rollout(tmp_path: Path) -> None:
    """Another rollout's lines pass, also where the one's name is the beginning of the other's."""
    fence(tmp_path, "a", 1)
    put(record_path(tmp_path, "a-a1"), 1)
    assert numbers_in(record_path(tmp_path, "a-a1")) == [1]
    assert stem_in("x.capture.jsonl.capture.jsonl") == "x.capture.jsonl"


def test_a_settle_waits_for_no_fenced_call(tmp_path: Path) -> None:
    """Of two open calls of a rollout only the one without a fence is pending, for the rollout and for all."""
    ledger = new_ledger(tmp_path, {1: ("a", "accepted"), 2: ("a", "accepted")})
    fence(tmp_path, "a", 1)
    for stem in ("a", None):
        under_way = Settling(tmp_path, stem, lambda: 0.0)
        under_way.poll()
        assert [call.model_call_id for call in under_way.result([]).pending] == [call_id(2).hex()]
        under_way.close()
    ledger.close()


def test_a_dead_ledger_leaves_no_gap_of_a_fenced_call(tmp_path: Path) -> None:
    """Who takes a dead ledger over names only the call that no fence holds back."""
    path = dead_ledger(tmp_path, {1: ("a", "open"), 2: ("a", "accepted"), 3: ("b", "open")})
    fence(tmp_path, "a", 1)
    fence(tmp_path, "b", 3)
    view = view_of(path)
    found = bury(view, tmp_path)
    view.close()
    assert found is not None
    assert {stem: [gap.model_call_id for gap in gaps] for stem, gaps in found.items()} == {
        "a": [call_id(2).hex()]
    }
    assert numbers_in(gap_path(tmp_path, "a")) == [2]
    assert not gap_path(tmp_path, "b").exists()


def test_a_damaged_fence_holds_nothing_back(tmp_path: Path) -> None:
    """What is no list of ids stops nobody, and neither does a folder in a fence's place."""
    folder_of(tmp_path).mkdir(parents=True)
    (folder_of(tmp_path) / "a").write_bytes(b"\xff\n")
    (folder_of(tmp_path) / "b").mkdir()
    for stem in ("a", "b"):
        put(record_path(tmp_path, stem), 1)
        assert numbers_in(record_path(tmp_path, stem)) == [1]
        assert not Fences(tmp_path).hold(stem, call_id(1).hex())


def test_a_process_without_descriptors_does_not_take_a_fence_for_none(tmp_path: Path) -> None:
    """What could not be looked at raises, so that the line is tried again and does not come back."""
    fence(tmp_path, "a", 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            read_fence(tmp_path, "a")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
