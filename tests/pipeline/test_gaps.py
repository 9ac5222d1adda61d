"""What is known to be missing, as data."""

from pathlib import Path

import pytest

from pipeline import gaps
from pipeline.gaps import Gap, call_id_of, gap_line, parse_gaps

ID = "0123456789abcdef" * 2


def test_a_gap_reads_as_it_was_written() -> None:
    """Line by line a gap file gives the gaps that were put in."""
    written = [
        Gap(model_call_id=ID, code=gaps.DROPPED, started_at=1.5),
        Gap(model_call_id="f" * 32, code=gaps.FAILED, detail="ENOSPC"),
    ]
    assert parse_gaps(b"".join(gap_line(gap) + b"\n" for gap in written)) == written


def test_a_call_is_named_once() -> None:
    """The first word on a call counts, so naming it again costs nothing."""
    text = b"".join(
        gap_line(Gap(model_call_id=ID, code=code)) + b"\n" for code in ("lost", "dropped", "lost")
    )
    assert [gap.code for gap in parse_gaps(text)] == ["lost"]


@pytest.mark.parametrize(
    "text",
    [b"", b"\n", b"torn", b'{"model_call_id":"', b"\xff\n", b"[]\n", b"{}\n", b'{"x":' + b"[" * 100_000],
    ids=["empty", "a line end", "torn", "cut", "no text", "a list", "no members", "deep"],
)
def test_what_cannot_be_read_is_an_unnamed_gap(text: bytes) -> None:
    """An empty marker or a damaged line says that something is missing, and raises nothing."""
    assert parse_gaps(text) == [Gap(model_call_id=None, code=gaps.UNNAMED)]


def test_unknown_members_are_no_damage() -> None:
    """A newer writer's gap is read."""
    line = b'{"model_call_id":null,"code":"new","more":{"a":[1]}}\n'
    assert parse_gaps(line) == [Gap(model_call_id=None, code="new")]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"model_call_id":"' + ID.encode() + b'","x":1}', ID),
        (b'{"model_call_id":"' + ID.upper().encode() + b'"}', None),
        (b'{"a":1,"model_call_id":"' + ID.encode() + b'"}', None),
        (b'{"model_call_id":"' + ID.encode()[:-1] + b'"}', None),
        (b'{"model_call_id":null}', None),
        (b"", None),
    ],
)
def test_the_call_that_a_line_begins_with(line: bytes, found: str | None) -> None:
    """Only an id in our own shape, as the first member, is one."""
    assert call_id_of(line) == found


def test_a_gaps_own_line_begins_with_its_call() -> None:
    """A gap line is found by its call id as a record is, so a resent one is not written twice."""
    assert call_id_of(gap_line(Gap(model_call_id=ID, code="lost"))) == ID


def test_file_names() -> None:
    """A rollout's three files differ by their ending, and the marker's is the reference's own."""
    folder = Path("/d")
    names = [make(folder, "r").name for make in (gaps.record_path, gaps.gap_path, gaps.note_path)]
    assert names == ["r.capture.jsonl", "r.capture.incomplete", "r.capture.annotations"]
