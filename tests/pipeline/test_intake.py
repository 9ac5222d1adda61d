"""The bounded queue: accepts or drops, and never waits."""

import os
from collections.abc import Iterator

import pytest

from pipeline import slots
from pipeline.exchange import Annotation, RawExchange
from pipeline.intake import CHUNK_OVERHEAD_BYTES, EXCHANGE_OVERHEAD_BYTES, Intake, size_of
from pipeline.slots import Slot
from tests.pipeline.test_frames import exchange
from tests.pipeline.test_slots import SLOTS, new_map


@pytest.fixture
def wake() -> Iterator[tuple[int, int]]:
    """Give a pipe that wakes."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def new_slot() -> Slot:
    """Take a slot."""
    slot = Slot(new_map(), 0, SLOTS)
    slot.occupy(b"i" * 16, 1.0, b"s")
    return slot


def sized(size: int) -> RawExchange:
    """Make an exchange whose bodies have so many bytes."""
    return exchange(response_chunks=(b"x" * size,), request_chunks=(), request_bytes=0, response_bytes=size)


def woken(descriptor: int) -> int:
    """Return how often the thread was woken since the last look."""
    try:
        return len(os.read(descriptor, 100))
    except BlockingIOError:
        return 0


def test_what_an_event_costs() -> None:
    """Bodies, chunks and the exchange itself count; of a cut body only what is kept."""
    chunks = len(exchange().request_chunks) + len(exchange().response_chunks)
    assert size_of(exchange()) == EXCHANGE_OVERHEAD_BYTES + chunks * CHUNK_OVERHEAD_BYTES + 10
    cut = exchange(response_bytes=10_000_000, response_sha256=b"d" * 32)
    assert size_of(cut) == size_of(exchange())
    assert size_of(Annotation(call_id=b"i" * 16, stem="s")) == EXCHANGE_OVERHEAD_BYTES


def test_the_bound_in_events(wake: tuple[int, int]) -> None:
    """Two fit, the third is dropped with its slot marked; a release makes room again."""
    intake = Intake(2, 1 << 30, wake[1])
    held = [new_slot() for _ in range(4)]
    assert [intake.offer(sized(1), slot, 0.0) for slot in held[:3]] == [True, True, False]
    assert [slot.state for slot in held[:3]] == [slots.ACCEPTED, slots.ACCEPTED, slots.DROPPED]
    assert [(call.slot, call.state, call.stem) for call in intake.ended] == [(held[2], slots.DROPPED, "s")]
    intake.release(intake.queue.popleft())
    assert intake.offer(sized(1), held[3], 0.0)
    assert intake.events == 2


def test_the_bound_in_bytes_is_overshot_by_one(wake: tuple[int, int]) -> None:
    """An exchange larger than the whole bound is accepted while there is room, and the next is not."""
    intake = Intake(100, 5000, wake[1])
    assert intake.offer(sized(50_000), None, 0.0)
    assert not intake.offer(sized(1), None, 0.0)
    assert intake.bytes == size_of(sized(50_000))
    intake.release(intake.queue.popleft())
    assert (intake.events, intake.bytes) == (0, 0)


def test_a_dropped_body_is_let_go(wake: tuple[int, int]) -> None:
    """What stays of a dropped exchange is what its gap needs."""
    intake = Intake(0, 1, wake[1])
    intake.offer(sized(1000), None, 0.0)
    (call,) = intake.ended
    assert (call.call_id, call.started_at) == (b"i" * 16, 1.5)
    assert not hasattr(call, "event")


def test_a_dropped_note_is_counted(wake: tuple[int, int]) -> None:
    """A note beyond the bound is no call, so it is no gap."""
    intake = Intake(0, 1, wake[1])
    assert not intake.offer(Annotation(call_id=b"i" * 16, stem="s"), None, 0.0)
    assert (intake.notes_dropped, len(intake.ended)) == (1, 0)


def test_skipped_and_failed_calls(wake: tuple[int, int]) -> None:
    """Both mark their slot at once and wait for the thread to count them."""
    intake = Intake(1, 1, wake[1])
    skipped, failed = new_slot(), new_slot()
    intake.skip(skipped)
    intake.fail(failed, b"f" * 16, "s", 2.0)
    assert (skipped.state, failed.state) == (slots.SKIPPED, slots.FAILED)
    assert [call.state for call in intake.ended] == [slots.SKIPPED, slots.FAILED]


def test_the_thread_is_woken_once_and_only_from_sleep(wake: tuple[int, int]) -> None:
    """Awake it is left alone; asleep the first event wakes it, of whatever kind, and the next does not again."""
    intake = Intake(100, 1 << 30, wake[1])
    intake.offer(sized(1), None, 0.0)
    assert woken(wake[0]) == 0
    for act in (
        lambda: intake.offer(sized(1), None, 0.0),
        lambda: intake.skip(None),
        lambda: intake.fail(None, b"", "", 0.0),
        intake.rouse,
    ):
        intake.asleep = True
        act()
        act()
        assert woken(wake[0]) == 1


def test_a_full_or_closed_wake_pipe_stops_nobody(wake: tuple[int, int]) -> None:
    """Waking never waits and never raises, and a closed intake writes to no descriptor that may be another's now."""
    os.set_blocking(wake[1], False)
    intake = Intake(100, 1 << 30, wake[1])
    for _ in range(70_000):
        intake.wake()
    while woken(wake[0]):
        continue
    intake.asleep = True
    intake.close()
    intake.offer(sized(1), None, 0.0)
    intake.wake()
    assert woken(wake[0]) == 0
