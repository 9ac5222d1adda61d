"""Threads that wait for the pipeline's thread to find something true.

A condition is looked at by the pipeline's thread alone, after each of its steps, so that what it reads needs no lock;
whoever asked waits on an event of its own, bounded.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class Waiter(NamedTuple):
    """Somebody who waits, on another thread, for a condition that the pipeline's thread looks at."""

    condition: Callable[[], bool]
    done: threading.Event
    until: float


class Waiting:
    """All who wait. `ask` from any thread, a signal handler too; `tell` from the pipeline's thread only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: deque[Waiter] = deque()
        self._waiters: list[Waiter] = []

    def __bool__(self) -> bool:
        return bool(self._asked or self._waiters)

    def ask(self, condition: Callable[[], bool], timeout_s: float) -> threading.Event:
        """Have `condition` looked at from now on; the event is set once it holds."""
        done = threading.Event()
        self._asked.append(Waiter(condition, done, self._clock() + timeout_s))
        return done

    def tell(self) -> None:
        """Look at every condition, and forget those who were told or wait no longer."""
        while self._asked:
            self._waiters.append(self._asked.popleft())
        self._waiters = [waiter for waiter in self._waiters if not self._told(waiter)]

    def _told(self, waiter: Waiter) -> bool:
        if waiter.condition():
            waiter.done.set()
        return waiter.done.is_set() or self._clock() >= waiter.until
