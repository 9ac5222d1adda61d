"""The judgement of the paired latency benchmark, on latencies whose truth is known."""

import random

import pytest

from benchmarks.paired import Interval, difference, percentile, verdict

ROUNDS, REQUESTS = 30, 10


def arm(seed: int, *, slower: float = 0.0, noise: float = 0.01) -> list[list[float]]:
    """Make latencies around 1 s whose rounds drift alike in every arm, `slower` by that share."""
    draw = random.Random(seed)
    return [
        [(1 + number / ROUNDS) * (1 + slower) + draw.gauss(0, noise) for _ in range(REQUESTS)]
        for number in range(ROUNDS)
    ]


def test_the_same_is_the_same() -> None:
    """Two arms that differ by noise alone, but drift to the double, lie within 1 %."""
    assert difference(arm(1), arm(2)).within(0.01)


@pytest.mark.parametrize("slower", [0.02, 0.5])
def test_a_slower_arm_is_found_out(slower: float) -> None:
    """An arm slower by 2 % or by half has its whole interval beyond 1 %, around the truth."""
    found = difference(arm(1), arm(2, slower=slower))
    assert found.beyond(0.01)
    assert found.median == pytest.approx(slower, rel=0.2)


def test_a_faster_arm_is_not_the_same() -> None:
    """A difference in the other direction is neither within the limit nor beyond it."""
    found = difference(arm(1), arm(2, slower=-0.05))
    assert not found.within(0.01)
    assert not found.beyond(0.01)


SAME, SLOW, WIDE = Interval(0.0, -0.005, 0.005), Interval(0.02, 0.015, 0.025), Interval(0.0, -0.03, 0.03)


@pytest.mark.parametrize(
    ("on", "control", "delayed", "expected"),
    [
        (SAME, SAME, SLOW, "pass"),
        (SLOW, SAME, SLOW, "fail"),
        (WIDE, SAME, SLOW, "inconclusive"),
        (SAME, WIDE, SLOW, "inconclusive"),
        (SLOW, SLOW, SLOW, "inconclusive"),
        (SAME, SAME, SAME, "inconclusive"),
    ],
)
def test_controls_decide_whether_there_is_a_verdict(
    on: Interval, control: Interval, delayed: Interval, expected: str
) -> None:
    """Only where both controls come out right is capture judged, and a wide interval judges nothing."""
    assert verdict(on, control, delayed, 0.01) == expected


def test_percentiles_are_of_all_rounds() -> None:
    """The p99 of a hundred values spread over rounds is the largest, the p50 the middle one."""
    rounds = [[float(10 * tens + ones) for ones in range(10)] for tens in range(10)]
    assert (percentile(rounds, 0.99), percentile(rounds, 0.5)) == (99.0, 50.0)
