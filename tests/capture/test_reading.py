"""Bytes of a record file to records, whatever the bytes are."""

import json
from pathlib import Path

import pytest
from filelock import lock_descriptor

from capture.reading import parse_line, parse_records, scan_records, tail_is_torn, with_notes
from pipeline.exchange import Annotation
from pipeline.notes import note_line
from tests.capture.stored import call_id, line_of


def ids(text: bytes) -> list[str]:
    """Return the call ids of a file's records in order."""
    return [record.model_call_id for record in parse_records(text).records]


def test_records_come_by_time_then_by_line() -> None:
    """The order is that of completion; of two that ended together the first written is first."""
    times = [(1, 3.0), (2, 1.0), (3, 2.0), (4, 1.0)]
    text = b"".join(line_of(number, completed_at=at) + b"\n" for number, at in times)
    assert ids(text) == [call_id(number) for number in (2, 4, 3, 1)]


DAMAGE = [
    b"torn",
    b'{"model_call_id":"',
    b"\0\0\0",
    b"\xff\xfe",
    b"[]",
    b"null",
    b'"text"',
    b"{}",
    b'{"schema":"model-call/1"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_line_costs_itself_only(damage: bytes) -> None:
    """Lines before and after are read, and the damage is counted, in the quick look too."""
    text = line_of(1) + b"\n" + damage + b"\n" + line_of(2) + b"\n"
    assert ids(text) == [call_id(1), call_id(2)]
    assert parse_records(text).damaged == 1
    assert scan_records(text) == ({call_id(1), call_id(2)}, 1)


TYPED = {
    "usage": {"input_tokens": "many"},
    "latency_ms": None,
    "status_code": "\ud83d",
    "timing": {"\ud83d": 1},
}


@pytest.mark.parametrize("member", TYPED)
def test_a_member_of_another_type_is_damage_to_both_looks(member: str) -> None:
    """What reading passes over must not look whole to a settle; nothing raises, half characters in names included."""
    line = json.dumps({**json.loads(line_of(1)), member: TYPED[member]}).encode()
    assert parse_line(line) is None
    assert scan_records(line + b"\n") == (set(), 1)


def test_bytes_that_are_no_text_are_damage_to_both_looks() -> None:
    """Also in a body, which the quick look passes over."""
    line = line_of(1, response={"text": "damage"}).replace(b"damage", b"\xff\xfe")
    assert parse_line(line) is None
    assert scan_records(line + b"\n") == (set(), 1)


def test_a_name_that_is_half_a_character_costs_nothing() -> None:
    """It is a member that this reader does not know, like any other."""
    record = parse_line(line_of(1).replace(b'"request":', b'"\\ud83d":1,"request":', 1))
    assert record is not None
    assert record.unknown == {"\ud83d": 1}


def test_empty_lines_and_a_tail_are_no_damage() -> None:
    """An empty line says nothing, and what has no LF yet may still be on its way."""
    text = line_of(1) + b"\n\n\n" + line_of(2)
    assert ids(text) == [call_id(1)]
    assert parse_records(text).damaged == 0
    assert scan_records(text) == ({call_id(1)}, 0)


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\r"])
def test_lines_end_at_lf_only(sign: str) -> None:
    """What other readers take for a line end may stand in a record."""
    line = line_of(1, response={"text": f"a{sign}b"})
    assert sign == "\r" or sign.encode() in line or sign < " "
    (record,) = parse_records(line + b"\n").records
    assert record.response == {"text": f"a{sign}b"}


def test_lone_surrogates_are_read() -> None:
    """An escaped half character, which a client may send and strict decoders refuse, is no damage."""
    line = line_of(1).replace(b'"request":', b'"request":"\\ud83d","was":', 1)
    record = parse_line(line)
    assert record is not None
    assert record.request == "\ud83d"
    assert scan_records(line + b"\n") == ({call_id(1)}, 0)


@pytest.mark.parametrize("number", ["1e999", "123456789012345678901234567890", "-0.0", "NaN"])
def test_numbers_of_any_size_are_read(number: str) -> None:
    """A number that no machine word holds is somebody's data all the same."""
    line = line_of(1).replace(b'"request":', b'"request":' + number.encode() + b',"was":', 1)
    assert parse_line(line) is not None


def test_members_of_a_newer_writer_are_kept() -> None:
    """What this version does not know stays with the record, under its own name."""
    record = parse_line(line_of(1, schema="model-call/1.7", newer={"a": [1]}, unknown=2))
    assert record is not None
    assert record.unknown == {"newer": {"a": [1]}, "unknown": 2}
    assert record.schema == "model-call/1.7"


@pytest.mark.parametrize("schema", ["model-call/2", "model-call/10", "model-call/1x", "other/1", "", None, 1])
def test_another_major_version_is_not_guessed_at(schema: object) -> None:
    """A line of a version that this reader does not know is damage to it, not half understood."""
    assert parse_line(line_of(1, schema=schema)) is None
    assert scan_records(line_of(1, schema=schema) + b"\n").damaged == 1


def test_notes_are_joined_by_call() -> None:
    """Late notes add to their record and win over what it said; those of no record here are passed over."""
    text = line_of(1, annotations={"a": 1, "b": 1}) + b"\n" + line_of(2) + b"\n"
    said = [
        Annotation(call_id=bytes.fromhex(call_id(1)), stem="r", annotations={"b": 2}),
        Annotation(call_id=bytes.fromhex(call_id(1)), stem="r", events=[{"name": "tool"}]),
        Annotation(call_id=bytes.fromhex(call_id(9)), stem="r", annotations={"c": 3}),
    ]
    notes = b"torn\n" + b"".join(note_line(each) + b"\n" for each in said)
    first, second = with_notes(parse_records(text), notes).records
    assert (first.annotations, first.events) == ({"a": 1, "b": 2}, [{"name": "tool"}])
    assert second.events is None
    assert with_notes(parse_records(text), None) == parse_records(text)


def test_a_tail_is_torn_only_if_nobody_writes(tmp_path: Path) -> None:
    """With the lock held, or the file grown since, a tail is a line on its way; else it is damage."""
    path = tmp_path / "a"
    path.write_bytes(b"tail")
    assert tail_is_torn(path, 4)
    assert not tail_is_torn(path, 3)
    with path.open("rb") as file:
        assert lock_descriptor(file.fileno(), blocking=False)
        assert not tail_is_torn(path, 4)
    assert tail_is_torn(path, 4)
    assert not tail_is_torn(tmp_path / "missing", 4)
