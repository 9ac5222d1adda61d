"""Where a text came from: the answer or the tool argument, said earlier in the rollout, that it repeats.

A compaction begins with a summary that a model wrote, a sub-agent with a prompt that a model passed to a tool; often
with words of the harness around it. So of each source some runs of words are kept as hashes, and a text repeats it
if it holds a fair share of them. Time is linear in the text, memory in the number of sources.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

RUN_WORDS = 6
"""Words in a run: fewer are said by chance."""

RUNS_MAX = 16
"""Runs kept of one source, spread over all of it."""

SHARED_MAX = 8
"""Sources that may have a run in common; what is said more often tells nothing."""

EQUAL_MAX = 64
"""Sources of the very same words that are told apart: samples of one prompt at once."""

WORDS_MAX = 20_000
"""Words of a text that are looked at."""

SHARE_MIN = 0.25
"""The share of a source's runs that a text which repeats it holds: agents keep the summary and drop its preamble."""

SHORT_CHARS_MIN = 12
"""A source of fewer words than a run must be repeated whole, and be this long."""


class Source(NamedTuple):
    """What may be repeated: the answer of a call, or an argument of the tool call `tool_call_id` in it."""

    call: int
    tool_call_id: str | None = None
    is_argument: bool = False


class Repeated(NamedTuple):
    """A source that a text repeats, and how many of its runs; more than any can have where it is the whole text."""

    source: Source
    runs: int


class Origins:
    """The sources of a rollout, and what repeats them: `add` all of them, then ask `of`."""

    def __init__(self) -> None:
        self._given: list[tuple[Source, int, tuple[int, ...]]] = []
        self._needed: list[float] = []
        self._runs: dict[int, list[int]] = defaultdict(list)
        self._equal: dict[int, list[int]] = defaultdict(list)

    def add(self, source: Source, text: str) -> None:
        """Keep a text that may be repeated."""
        runs = _sampled(text)
        if runs:
            self._given.append((source, _whole(text), runs))

    def arrange(self, rank: Callable[[Source], Any]) -> None:
        """Put the sources in order, after which none is added: of equal ones the first by rank is named first.

        A run that many sources have tells nothing of them, as the frame of prompts that differ in one name; it counts
        only for a source that has no other.
        """
        self._given.sort(key=lambda given: rank(given[0]))
        often = Counter(run for _, _, runs in self._given for run in runs)
        for number, (_, whole, runs) in enumerate(self._given):
            telling = [run for run in runs if often[run] <= SHARED_MAX] or runs
            self._needed.append(_needed(len(telling)))
            _put(self._equal[whole], number, EQUAL_MAX)
            for run in telling:
                _put(self._runs[run], number, SHARED_MAX)

    def of(self, text: str) -> tuple[Repeated, ...]:
        """Return the sources that a text repeats, the one it repeats most first."""
        hits = Counter(number for run in _runs(text) for number in self._runs.get(run, ()))
        hits |= dict.fromkeys(self._equal.get(_whole(text), ()), RUNS_MAX + 1)
        found = [number for number, count in hits.items() if count >= self._needed[number]]
        found.sort(key=lambda number: (-hits[number], number))
        return tuple(Repeated(self._given[number][0], hits[number]) for number in found)


def _put(there: list[int], number: int, most: int) -> None:
    if len(there) < most:
        there.append(number)


def _whole(text: str) -> int:
    return hash(tuple(text.split(None, WORDS_MAX)))


def _needed(kept: int) -> float:
    """Return how many of a source's runs a text must hold: one alone may be a phrase."""
    return max(min(2, kept), SHARE_MIN * kept)


def _sampled(text: str) -> tuple[int, ...]:
    runs = tuple(dict.fromkeys(_runs(text)))
    return runs[:: max(1, -(-len(runs) // RUNS_MAX))]


def _runs(text: str) -> Iterator[int]:
    words = text.split(None, WORDS_MAX)[:WORDS_MAX]
    if len(words) < RUN_WORDS:
        if len(text.strip()) >= SHORT_CHARS_MIN:
            yield hash(tuple(words))
        return
    for at in range(len(words) - RUN_WORDS + 1):
        yield hash(tuple(words[at : at + RUN_WORDS]))
