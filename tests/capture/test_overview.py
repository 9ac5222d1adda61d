"""Which files and calls a name on the command line means."""

from pathlib import Path

import pytest

from capture import CaptureStore
from capture.overview import find_calls, find_stem
from pipeline.stems import stem_of
from tests.capture.recorded import Call, record


def test_an_id_goes_before_a_file_name(tmp_path: Path) -> None:
    """An id that needs a safe name is found, its file's name too, and an id that looks like that name wins."""
    store, stem = CaptureStore(tmp_path), stem_of("a/b")
    record(tmp_path, Call("a/b"))
    assert [find_stem(store, name) for name in ("a/b", stem, "a", "../a")] == [stem, stem, None, None]
    record(tmp_path, Call(stem))
    assert find_stem(store, stem) == stem_of(stem) != stem


@pytest.mark.parametrize(("name", "rows"), [("1", [0]), ("3", [2]), ("4", []), ("0", []), ("00000000", [])])
def test_a_short_number_is_a_row(name: str, rows: list[int], tmp_path: Path) -> None:
    """Rows count from 1; a number of eight digits or more is the beginning of an id."""
    record(tmp_path, Call("a"), Call("a"), Call("a"))
    records = CaptureStore(tmp_path).read("a")
    found = find_calls(records, name)
    assert found == [records[row] for row in rows] or all(
        each.model_call_id.startswith(name) for each in found
    )


def test_an_id_may_be_cut_and_in_any_case(tmp_path: Path) -> None:
    """The whole id means one call, its beginning every call that it fits."""
    record(tmp_path, Call("a"), Call("a"))
    records = CaptureStore(tmp_path).read("a")
    assert find_calls(records, records[1].model_call_id.upper()) == [records[1]]
    assert find_calls(records, records[0].model_call_id[:16]) == records
