"""Is one arm slower than another? Paired differences, a bootstrap interval, a verdict. Pure.

Each round holds, for every arm, one block of requests sent in the same few seconds; the n-th request of a block
is paired with the n-th of the other arm's. Requests of one block share their moment, so the bootstrap draws whole
rounds. All differences are given as a share of the reference arm's median.
"""

import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

RESAMPLES = 2000
CONFIDENCE = 0.95

Round = Sequence[float]
"""The latencies of one arm's block, in the order in which they were sent."""


class Interval(NamedTuple):
    """The median difference as a share of the reference's median, and its bootstrap interval."""

    median: float
    low: float
    high: float

    def within(self, limit: float) -> bool:
        """Whether the whole interval is."""
        return -limit <= self.low and self.high <= limit

    def beyond(self, limit: float) -> bool:
        """Whether the whole interval is on the slow side of the limit."""
        return self.low > limit

    def __str__(self) -> str:
        return f"{self.median:+7.2%} [{self.low:+7.2%}, {self.high:+7.2%}]"


def difference(reference: Sequence[Round], other: Sequence[Round], seed: int = 1) -> Interval:
    """Compare two arms, round by round and request by request."""
    scale = statistics.median(value for block in reference for value in block)
    rounds = [
        [after - before for before, after in zip(*blocks, strict=True)]
        for blocks in zip(reference, other, strict=True)
    ]
    draw = random.Random(seed)
    medians = sorted(_pooled(draw.choices(rounds, k=len(rounds))) for _ in range(RESAMPLES))
    cut = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Interval(_pooled(rounds) / scale, medians[cut] / scale, medians[-cut - 1] / scale)


def _pooled(rounds: Sequence[Sequence[float]]) -> float:
    return statistics.median(value for block in rounds for value in block)


def percentile(rounds: Sequence[Round], share: float) -> float:
    """Return the value below which this share of all latencies lies."""
    values = sorted(value for block in rounds for value in block)
    return values[min(len(values) - 1, int(share * len(values)))]


def verdict(on: Interval, control: Interval, delayed: Interval, limit: float) -> str:
    """Judge `on`: pass, fail or inconclusive.

    The same thing twice must be the same (`control` within the limit) and what was slowed down must be found out
    (`delayed` not within it); where either is not so, this machine could not have told, whatever `on` says.
    """
    if not control.within(limit) or delayed.within(limit):
        return "inconclusive"
    if on.within(limit):
        return "pass"
    return "fail" if on.beyond(limit) else "inconclusive"
