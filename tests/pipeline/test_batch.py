"""Lines on their way to files, by file."""

from pipeline.batch import LONGEST_RETRY_S, Batch, Line


def test_lines_of_a_file_stay_in_order() -> None:
    """Lines added in turn to two files come out by file, in order."""
    batch = Batch()
    for ticket in range(6):
        batch.add("ab"[ticket % 2], Line(ticket, b"x", resent=False), 0.0)
    assert [(name, [line.ticket for line in lines]) for name, lines in batch.due(0.0)] == [
        ("a", [0, 2, 4]),
        ("b", [1, 3, 5]),
    ]
    assert (batch.records, batch.bytes) == (6, 6)


def test_a_file_set_aside_waits_alone() -> None:
    """A file whose turn failed is not due until its wait is over; others are; the wait grows, bounded."""
    batch = Batch()
    batch.add("a", Line(1, b"x", resent=False), 0.0)
    batch.add("b", Line(2, b"x", resent=False), 0.0)
    batch.set_aside("a", 0.0)
    assert [name for name, _ in batch.due(0.0)] == ["b"]
    batch.remove("b")
    waits = []
    for _ in range(20):
        due = batch.next_at() or 0.0
        batch.set_aside("a", due)
        waits.append(round((batch.next_at() or 0.0) - due, 6))
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_RETRY_S


def test_the_oldest_line_decides_when_to_give_up() -> None:
    """A file expires by its first line, also when later ones joined it; then nothing of it is left."""
    batch = Batch()
    batch.add("a", Line(1, b"xy", resent=False), 0.0)
    batch.add("a", Line(2, b"z", resent=False), 4.9)
    assert not batch.expired("a", 4.9, 5.0)
    assert batch.expired("a", 5.0, 5.0)
    assert [line.ticket for line in batch.remove("a")] == [1, 2]
    assert not batch
    assert (batch.records, batch.bytes, batch.next_at()) == (0, 0, None)
