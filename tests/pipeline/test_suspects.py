"""What becomes of exchanges that a worker died with: which one kills, and how the others get on."""

import pytest

from pipeline import frames
from pipeline.ledger import Ledger
from tests.pipeline.standin import Supervised, World, item, run

pytestmark = pytest.mark.usefixtures("no_waits")


def test_an_exchange_that_kills_is_found_out(ledger: Ledger) -> None:
    """Innocents are committed whole, the one that kills twice is sent undecoded; what is sent again says so."""
    world = World()
    world.kills = lambda stem, flags: stem == "killer" and not flags & frames.RAW_ONLY
    tested = Supervised(world, ledger)
    names = [f"r{number}" for number in range(10)]
    names.insert(4, "killer")
    run(tested, *map(item, names))
    assert tested.fates == {name: [frames.COMMITTED] for name in names}
    assert (world.started, tested.restarts) == (3, 2)
    raw = [stem for _, stem, flags in world.sent if flags & frames.RAW_ONLY]
    assert raw == ["killer"]
    seen: set[str] = set()
    for _, stem, flags in world.sent:
        assert flags & frames.RESENT or stem not in seen
        seen.add(stem)


def test_what_a_worker_died_with_goes_out_together(ledger: Ledger) -> None:
    """After a death that no exchange caused, what is sent again is sent as a batch, not one by one."""
    world = World()
    killed: list[str] = []

    def kills(stem: str, _: int) -> bool:
        return stem == "r9" and not killed and not killed.append(stem)  # type: ignore[func-returns-value]

    world.kills = kills
    world.deaf = True

    def hear_again(_: int) -> None:
        world.deaf = False

    tested = Supervised(world, ledger)
    tested.when_started = hear_again
    names = [f"r{number}" for number in range(10)]
    run(tested, *map(item, names))
    again = [flags for number, _, flags in world.sent if number == 2]
    assert again == [frames.RESENT] * 9 + [frames.RESENT | frames.LAST_OF_BATCH]
    assert tested.fates == {name: [frames.COMMITTED] for name in names}


def test_a_worker_that_tells_nothing_is_sent_one_at_a_time(ledger: Ledger) -> None:
    """Where a second worker dies without having begun with any, each goes alone, and the one that kills is found."""
    world = World()
    world.tells = False
    world.kills = lambda stem, flags: stem == "killer" and not flags & frames.RAW_ONLY
    tested = Supervised(world, ledger)
    names = ["a", "killer", "b", "c"]
    run(tested, *map(item, names))
    assert tested.fates == {name: [frames.COMMITTED] for name in names}
    assert [stem for _, stem, flags in world.sent if flags & frames.RAW_ONLY] == ["killer"]
    assert all(flags & frames.LAST_OF_BATCH for number, _, flags in world.sent if number >= 3)
