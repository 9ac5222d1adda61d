"""Records one by one from a file: the same as reading it whole, but for the order and the memory."""

import json
from pathlib import Path

from capture import CaptureStore
from capture.streaming import RecordStream
from pipeline.gaps import note_path, record_path
from tests.capture.stored import call_id, line_of, write


def test_a_stream_gives_what_a_read_gives(tmp_path: Path) -> None:
    """The same records, ids and late notes."""
    write(tmp_path, 1, 2, 3)
    note = {"model_call_id": call_id(2), "annotations": {"n": 1}, "events": [{"name": "x"}]}
    note_path(tmp_path, "r").write_bytes(json.dumps(note).encode() + b"\ntorn")
    stream = CaptureStore(tmp_path).stream("r")
    records = list(stream)
    assert records == CaptureStore(tmp_path).read("r")
    assert (stream.found.ids, stream.found.damaged) == ({call_id(n) for n in (1, 2, 3)}, 0)
    assert (records[1].annotations or {})["n"] == 1


def test_damaged_lines_and_a_torn_tail_are_counted_and_passed_over(tmp_path: Path) -> None:
    """What is no record is damage; an empty line is nothing."""
    path = write(tmp_path, 1)
    with path.open("ab") as file:
        file.write(b"{}\n\nnonsense\n" + line_of(2) + b"\n" + line_of(3)[:40])
    stream = RecordStream(tmp_path, "r")
    assert [record.model_call_id for record in stream] == [call_id(1), call_id(2)]
    assert stream.found.damaged == 3


def test_a_file_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    """Nothing to read is no error."""
    stream = RecordStream(tmp_path, "r")
    assert (list(stream), stream.found.damaged) == ([], 0)


def test_records_come_before_the_file_was_read_to_its_end(tmp_path: Path) -> None:
    """One line is held at a time: what is appended while the stream is read comes as well."""
    write(tmp_path, 1)
    stream = iter(RecordStream(tmp_path, "r"))
    first = next(stream)
    with record_path(tmp_path, "r").open("ab") as file:
        file.write(line_of(2) + b"\n")
    assert [first.model_call_id, *(record.model_call_id for record in stream)] == [call_id(1), call_id(2)]
