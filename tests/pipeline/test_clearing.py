"""Clear, file by file: what goes, what is fenced, and appends that race it."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from filelock import lock_descriptor

from pipeline import clearing, slots
from pipeline.append import append
from pipeline.clearing import clear, end_clear, present, unfinished
from pipeline.fences import folder_of, read_fence
from pipeline.gaps import RECORD_SUFFIX, SUFFIXES, record_path
from tests.pipeline.deadly import call_id, new_ledger, record, rename_as


def test_what_a_rollout_has_goes(tmp_path: Path) -> None:
    """Records, gaps and notes are removed; another rollout's are not."""
    for stem in ("a", "b"):
        for suffix in SUFFIXES:
            (tmp_path / f"{stem}{suffix}").write_text("x\n")
    assert present(tmp_path, ["a", "c"]) == ["a"]
    assert clear(tmp_path, "a") == set()
    end_clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(
        f"b{suffix}" for suffix in SUFFIXES
    )


def test_calls_on_their_way_are_fenced(tmp_path: Path) -> None:
    """Every state that may still lead to a line is fenced; a call that is finished, or another rollout's, is not."""
    states = ("open", "accepted", "spilled", "dropped", "failed", "committed", "skipped")
    calls = {number: ("a", state) for number, state in enumerate(states, 1)}
    ledger = new_ledger(tmp_path, {**calls, 8: ("b", "open")})
    assert present(tmp_path, ["a", "b", "c"]) == ["a", "b"]
    ids = {call_id(number).hex() for number in range(1, 6)}
    assert clear(tmp_path, "a") == ids
    assert read_fence(tmp_path, "a") == ids
    assert not record_path(tmp_path, "a").exists()
    ledger.close()


def test_a_second_clear_keeps_the_first_ones_fence(tmp_path: Path) -> None:
    """A call that is still on its way stays fenced, beside those of the later clear."""
    ledger = new_ledger(tmp_path, {1: ("a", "open")})
    clear(tmp_path, "a")
    end_clear(tmp_path)
    slot = ledger.open(call_id(2), 2.0, b"a")
    assert slot is not None
    clear(tmp_path, "a")
    assert read_fence(tmp_path, "a") == {call_id(1).hex(), call_id(2).hex()}
    ledger.close()


def test_a_fence_stands_while_any_ledger_has_its_call(tmp_path: Path) -> None:
    """It is taken down by the clear that finds its calls finished, and not where a server cannot be seen."""
    ledger = new_ledger(tmp_path, {2: ("b", "open")})
    slot = ledger.open(call_id(1), 1.0, b"a")
    assert slot is not None
    clear(tmp_path, "a")
    clear(tmp_path, "b")
    ledger.finish(slot, slots.COMMITTED)
    hidden = tmp_path / ".pipeline" / "instances" / "other"
    hidden.parent.mkdir(exist_ok=True)
    with hidden.open("w") as held:
        held.write("anonymous")
        held.flush()
        assert lock_descriptor(held.fileno(), blocking=False)
        end_clear(tmp_path)
        assert sorted(path.name for path in folder_of(tmp_path).iterdir()) == ["a", "b"]
    end_clear(tmp_path)
    assert [path.name for path in folder_of(tmp_path).iterdir()] == ["b"]
    ledger.close()


def test_calls_of_another_host_are_fenced_where_its_ledger_can_be_read(tmp_path: Path) -> None:
    """A shared directory's ledgers count whoever wrote them."""
    ledger = new_ledger(tmp_path, {1: ("a", "open")})
    assert ledger.path is not None
    rename_as(ledger.path, "elsewhere", "12345678")
    assert clear(tmp_path, "a") == {call_id(1).hex()}
    ledger.close()


def test_a_lock_that_is_never_free_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that somebody keeps locked is not removed, and the error names it."""
    monkeypatch.setattr(clearing, "PATIENCE_S", 0.05)
    record(tmp_path, "a", 1)
    with record_path(tmp_path, "a").open("rb") as held:
        assert lock_descriptor(held.fileno(), blocking=False)
        with pytest.raises(TimeoutError, match="a file of a in"):
            clear(tmp_path, "a")
    assert record_path(tmp_path, "a").exists()


def test_appends_that_race_a_clear_are_on_its_right_side(tmp_path: Path) -> None:
    """Four writers of calls old and new, and clears between them: no old call's line is there after its clear."""
    ledger = new_ledger(tmp_path, {})
    path = tmp_path / f"a{RECORD_SUFFIX}"
    for turn in range(30):
        numbers = range(turn * 100 + 1, turn * 100 + 41)
        held = [ledger.open(call_id(number), 0.0, b"a") for number in numbers]
        ready = threading.Barrier(5)

        def write(part: range, ready: threading.Barrier = ready) -> None:
            ready.wait()
            for number in part:
                line = b'{"model_call_id":"%s"}' % call_id(number).hex().encode()
                os.close(append(path, [line], mode=0o600, patience_s=5).descriptor)

        writers = [threading.Thread(target=write, args=(numbers[start::4],)) for start in range(4)]
        for writer in writers:
            writer.start()
        ready.wait()
        clear(tmp_path, "a")
        for writer in writers:
            writer.join()
        assert not path.exists() or path.read_bytes() == b""
        for slot in held:
            assert slot is not None
            ledger.finish(slot, slots.COMMITTED)
        end_clear(tmp_path)
    assert unfinished(tmp_path) == {}
    with suppress(FileNotFoundError):
        assert not list(folder_of(tmp_path).iterdir())
    ledger.close()
