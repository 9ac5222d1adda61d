"""What handlers say of a call after its record is on its way."""

import pytest

from pipeline.exchange import Annotation
from pipeline.notes import Note, note_line, parse_notes


def test_notes_round_trip_in_order() -> None:
    """Notes come out as they were said, in order, one line each."""
    said = [
        Annotation(call_id=b"i" * 16, stem="s", annotations={"score": 0.5, "text": "a\nb\u2028c"}),
        Annotation(call_id=b"j" * 16, stem="s", events=[{"name": "tool", "started_at": 1.0}]),
    ]
    lines = [note_line(each) for each in said]
    assert not any(b"\n" in line for line in lines)
    assert list(parse_notes(b"\n".join(lines) + b"\n")) == [
        Note(model_call_id=(b"i" * 16).hex(), annotations={"score": 0.5, "text": "a\nb\u2028c"}),
        Note(model_call_id=(b"j" * 16).hex(), events=[{"name": "tool", "started_at": 1.0}]),
    ]


@pytest.mark.parametrize("damage", [b"torn", b"{}", b"\xff", b"[" * 100_000, b'{"model_call_id":1}'])
def test_damaged_lines_are_passed_over(damage: bytes) -> None:
    """A line that cannot be read costs itself only."""
    whole = note_line(Annotation(call_id=b"i" * 16, stem="s"))
    assert len(list(parse_notes(whole + b"\n" + damage + b"\n" + whole + b"\n" + whole[:-3]))) == 2
