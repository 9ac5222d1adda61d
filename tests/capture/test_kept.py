"""One body as it is kept, within its own bound and the one over all open exchanges."""

import hashlib

import pytest

from capture.kept import FIRST_ALLOWANCE_BYTES, STEP_BYTES, Budget, Kept


def fill(kept: Kept, sizes: list[int]) -> bytes:
    """Offer chunks of these sizes, as the edge does; return the whole body."""
    whole, size = b"", 0
    for number, length in enumerate(sizes):
        data = bytes([number % 256]) * length
        whole += data
        if kept.keep(data, size + length):
            size += length
    return whole


def test_a_small_body_takes_nothing_of_what_is_shared() -> None:
    """Up to the first allowance no budget is taken, and there is nothing to give back."""
    budget = Budget(0)
    kept = Kept(budget, 1 << 20)
    whole = fill(kept, [1000] * 32)
    assert b"".join(kept.chunks) == whole
    assert (kept.size, budget.held, kept.release()) == (32_000, 0, None)


def test_the_budget_is_taken_in_steps_and_given_back() -> None:
    """A larger body takes whole steps, and releasing it gives exactly those back, once."""
    budget = Budget(10 << 20)
    kept = Kept(budget, 1 << 20)
    fill(kept, [100_000] * 5)
    assert budget.held % STEP_BYTES == 0
    assert 500_000 - FIRST_ALLOWANCE_BYTES <= budget.held <= 500_000 - FIRST_ALLOWANCE_BYTES + STEP_BYTES
    kept.release()
    kept.release()
    assert budget.held == 0


@pytest.mark.parametrize("length", [1, 7, 100_000, 300_000])
def test_a_body_beyond_its_bound_is_cut(length: int) -> None:
    """The first part stays, what follows is let go for good, and size and digest are of the whole."""
    kept = Kept(Budget(1 << 30), 200_000)
    kept.allowance = min(kept.allowance, 200_000)
    sizes = [length] * (500_000 // length if length > 7 else 210_000 // length)
    if length <= 7:
        sizes[:0] = [199_990]
    whole = fill(kept, [*sizes, 1])
    stored = b"".join(kept.chunks)
    assert whole.startswith(stored)
    assert len(stored) <= 200_000 < kept.size
    assert kept.size == len(whole)
    assert kept.release() == hashlib.sha256(whole).digest()


def test_a_body_of_just_its_bound_is_whole() -> None:
    """The bound itself is still kept."""
    kept = Kept(Budget(1 << 30), 200_000)
    fill(kept, [100_000, 100_000])
    assert (kept.size, kept.release()) == (200_000, None)


def test_an_exhausted_budget_cuts_bodies_and_comes_back() -> None:
    """When all open exchanges together hold too much, later bytes are let go; after a release there is room."""
    budget = Budget(STEP_BYTES)
    first, second = Kept(budget, 1 << 30), Kept(budget, 1 << 30)
    fill(first, [FIRST_ALLOWANCE_BYTES, STEP_BYTES])
    whole = fill(second, [FIRST_ALLOWANCE_BYTES, 1000])
    assert (first.size, first.release()) == (FIRST_ALLOWANCE_BYTES + STEP_BYTES, None)
    assert (second.size, len(second.chunks)) == (len(whole), 1)
    assert second.release() == hashlib.sha256(whole).digest()
    third = Kept(budget, 1 << 30)
    fill(third, [STEP_BYTES])
    assert third.release() is None
    assert budget.held == 0


def test_a_known_size_is_not_added_up() -> None:
    """Where the edge has counted already, its sum is taken."""
    kept = Kept(Budget(0), 1000)
    fill(kept, [10, 20])
    kept.kept_size = 30
    assert kept.size == 30
