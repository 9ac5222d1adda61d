"""Calls on shelves, by what a later call may know them by: their history, an answer, a request, a name.

Every look-up is bounded, however many calls share a key: of many equals a few are looked at. What a look-up returns
had answered when the asking call began, as far as clocks tell.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .calls import Call, Evidence

CLOCK_SLACK_S = 0.05
"""A client may have an answer, and ask again, before its server has noted that it is done."""

LOOK_BACK = 16
"""How many calls of equal history are looked at for one whose answer was there in time."""


class Found(NamedTuple):
    """A call that another may go on from; `choice` is the answer that matched, null if only the history did."""

    call: Call
    choice: int | None = None

    @property
    def matched(self) -> bool:
        """Whether the history goes on with one of the call's answers."""
        return self.choice is not None


class _Shelf:
    """Calls under one key in the order of their start, with a finger at the first that nothing goes on from."""

    __slots__ = ("calls", "first")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.first = 0


class Shelves:
    """The calls placed so far. `taken` says of each number whether something goes on from that call."""

    def __init__(self, count: int) -> None:
        self.taken = bytearray(count)
        self._at_node: dict[int, _Shelf] = defaultdict(_Shelf)
        self._by_answer: dict[tuple[int, bytes], _Shelf] = defaultdict(_Shelf)
        self._by_exact: dict[bytes, _Shelf] = defaultdict(_Shelf)
        self._asked: dict[tuple[object, ...], _Shelf] = defaultdict(_Shelf)
        self._names: dict[tuple[str, Evidence], Call | None] = {}

    def put(self, call: Call) -> None:
        """Keep a call for those that began later. One whose request cannot be read is known by its names only."""
        self._name(call)
        if not call.known:
            return
        self._at_node[call.node].calls.append(call)
        self._asked[_question(call)].calls.append(call)
        for key in {key for keys in call.local for key in keys}:
            self._by_answer[call.node, key].calls.append(call)
        for key in dict.fromkeys(call.exact):
            self._by_exact[key].calls.append(call)

    def _name(self, call: Call) -> None:
        if call.response_id is not None:
            name: tuple[str, Evidence] = (call.response_id, "response_id")
            other = self._names.setdefault(name, call)
            if other is None or (other.node, other.local) != (call.node, call.local):
                self._names[name] = None  # two answers of one name: naming it says nothing
        if call.named is not None and call.named[1] == "conversation":
            self._names[call.named] = call

    def named(self, name: str, evidence: Evidence) -> Call | None:
        """Return the one call that a name means."""
        return self._names.get((name, evidence))

    def asked(self, call: Call) -> list[Call]:
        """Return calls that asked the same under the same instructions, the last one first."""
        shelf = self._asked.get(_question(call))
        return shelf.calls[: -LOOK_BACK - 1 : -1] if shelf else []

    def answered(self, node: int, keys: Iterable[bytes], call: Call) -> Found | None:
        """Return a call whose history ends at a node, and one of whose answers is known by one of the keys."""
        for key in keys:
            one = self._first_of(self._by_answer.get((node, key)), call)
            if one is not None:
                return Found(one, next(n for n, known in enumerate(one.local) if key in known))
        return None

    def last_at(self, node: int, call: Call) -> Found | None:
        """Return the last call whose history ends at a node, one that went well if there is one."""
        shelf = self._at_node.get(node)
        over = [one for one in shelf.calls[-LOOK_BACK:] if is_over(one, call)] if shelf else []
        best = next((one for one in reversed(over) if not one.failed), over[-1] if over else None)
        return None if best is None else Found(best)

    def holding(self, keys: Iterable[bytes], call: Call) -> Iterator[Call]:
        """Yield calls that gave exactly such an answer, whatever their history."""
        for key in keys:
            one = self._first_of(self._by_exact.get(key), call)
            if one is not None:
                yield one

    def _first_of(self, shelf: _Shelf | None, call: Call) -> Call | None:
        """Return the first call on a shelf that nothing goes on from and that had answered; else the last one."""
        if shelf is None:
            return None
        calls = shelf.calls
        while shelf.first < len(calls) and self.taken[calls[shelf.first].number]:
            shelf.first += 1
        free = calls[shelf.first : shelf.first + LOOK_BACK]
        open_ones = (one for one in free if not self.taken[one.number] and is_over(one, call))
        ended = (one for one in reversed(calls[-LOOK_BACK:]) if is_over(one, call))
        return next(open_ones, None) or next(ended, None)


def is_over(earlier: Call, call: Call) -> bool:
    """Whether a call had answered when another began."""
    return earlier.answered_at <= call.started_at + CLOCK_SLACK_S


def _question(call: Call) -> tuple[object, ...]:
    return (call.node, call.context, call.tail)
