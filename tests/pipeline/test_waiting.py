"""Threads that wait for the pipeline's thread to find something true."""

from pipeline.waiting import Waiting


class Time:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_condition_is_looked_at_until_it_holds() -> None:
    """Each look asks every condition anew; who was told is forgotten, the others are not."""
    waiting = Waiting(Time())
    held = {"a": False, "b": False}
    events = {name: waiting.ask(lambda name=name: held[name], 10) for name in held}  # type: ignore[misc]
    waiting.tell()
    assert not any(event.is_set() for event in events.values())
    held["b"] = True
    waiting.tell()
    assert (events["a"].is_set(), events["b"].is_set(), bool(waiting)) == (False, True, True)
    held["a"] = True
    waiting.tell()
    assert (events["a"].is_set(), bool(waiting)) == (True, False)


def test_who_waits_no_longer_is_forgotten() -> None:
    """After its time nobody looks at a condition any more, so a given-up drain costs nothing later."""
    clock = Time()
    waiting = Waiting(clock)
    looks: list[float] = []

    def never() -> bool:
        looks.append(clock.now)
        return False

    waiting.ask(never, 5)
    for _ in range(4):
        waiting.tell()
        clock.now += 2
    assert not waiting
    assert looks == [100, 102, 104, 106]
