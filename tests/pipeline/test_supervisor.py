"""One worker's life, seen from the server."""

import errno
from collections import Counter

import pytest

from pipeline import frames
from pipeline.frames import Cargo, GapNote
from pipeline.gaps import Gap
from pipeline.intake import Ended, Item
from pipeline.ledger import Ledger
from pipeline.link import Link, WorkerGone
from pipeline.supervisor import Parcel
from tests.pipeline.standin import StandIn, Supervised, World, item, run
from tests.pipeline.test_frames import exchange

pytestmark = pytest.mark.usefixtures("no_waits")


def test_every_item_is_answered_once(ledger: Ledger) -> None:
    """A thousand exchanges and a gap go through one worker, in order, each with one fate."""
    world = World()
    tested = Supervised(world, ledger)
    names = [f"r{number}" for number in range(1000)]
    call = Ended(None, 0, b"i" * 16, "gap", 1.0)
    parcel = Parcel(GapNote("gap", Gap(model_call_id=None, code="dropped")), call)
    run(tested, *map(item, names), parcel)
    assert [stem for _, stem, _ in world.sent] == [*names, "gap"]
    assert tested.fates == {name: [frames.COMMITTED] for name in [*names, "gap"]}
    assert (world.started, tested.restarts, tested.idle) == (1, 0, True)


def test_a_batch_ends_with_its_last_frame(ledger: Ledger) -> None:
    """Batches are closed by number and by size, and at the end of what there is."""
    world = World()
    run(Supervised(world, ledger, batch_max_records=3), *(item(f"r{number}") for number in range(7)))
    assert [flags for _, _, flags in world.sent] == [0, 0, 1, 0, 0, 1, 1]
    world = World()
    run(
        Supervised(world, ledger, batch_max_bytes=100),
        item("a", 60),
        item("b", 60),
        item("c", 200),
        item("d"),
    )
    assert [flags for _, _, flags in world.sent] == [0, 1, 1, 1]


def test_two_batches_are_with_a_worker_at_most(ledger: Ledger) -> None:
    """A worker that does not answer gets two batches, and the rest waits here."""
    world = World()
    world.deaf = True
    tested = Supervised(world, ledger, batch_max_records=5)

    def look() -> None:
        assert len(world.sent) == 10
        assert not tested.all_sent
        assert tested.oldest() == 1.0
        world.deaf = False
        assert isinstance(tested.link, StandIn)
        tested.link.end_input()

    run(tested, *(item(f"r{number}") for number in range(20)), during=look)
    assert set(map(tuple, tested.fates.values())) == {(frames.COMMITTED,)}
    assert len(tested.fates) == 20


def test_the_third_death_is_a_failure(ledger: Ledger) -> None:
    """An exchange that kills undecoded too is given up, named, and kills nobody else."""
    world = World()
    world.kills = lambda stem, _: stem == "killer"
    tested = Supervised(world, ledger)
    run(tested, *map(item, ("a", "killer", "b")))
    assert tested.fates == {"a": [frames.COMMITTED], "b": [frames.COMMITTED], "killer": [frames.FAILED]}
    assert tested.restarts == 3
    assert tested.idle


def test_answers_before_a_death_count(ledger: Ledger) -> None:
    """What was answered is not sent again."""
    world = World()
    world.kills = lambda stem, flags: stem == "killer" and not flags & frames.RESENT
    run(Supervised(world, ledger, batch_max_records=1), *map(item, ("a", "b", "killer", "c")))
    times = Counter(stem for _, stem, _ in world.sent)
    assert times["killer"] == 2
    assert times["c"] == 1


@pytest.mark.parametrize(
    "refusal",
    [OSError(errno.EAGAIN, "no process"), RuntimeError("cannot start"), TypeError("no path"), TimeoutError()],
)
def test_where_no_process_can_be_had_a_thread_is_taken(ledger: Ledger, refusal: Exception) -> None:
    """Whatever starting a process raises, the work goes on in a thread, and status can say so."""
    world = World()
    world.refused = [refusal]
    tested = Supervised(world, ledger)
    run(tested, item("a"))
    assert tested.kind == "thread"
    assert tested.fates == {"a": [frames.COMMITTED]}


@pytest.mark.parametrize(("deaths", "kind"), [(1, "process"), (2, "process"), (3, "thread")])
def test_a_process_killed_before_its_hello_is_tried_again(ledger: Ledger, deaths: int, kind: str) -> None:
    """Once or twice may be chance (a kill, no memory); the third time in a row processes cannot run here."""
    world = World()
    world.refused = [WorkerGone() for _ in range(deaths)]
    tested = Supervised(world, ledger)
    run(tested, item("a"))
    assert tested.kind == kind
    assert tested.fates == {"a": [frames.COMMITTED]}


def test_a_moved_ledger_gets_a_worker_that_holds_its_lock(ledger: Ledger) -> None:
    """After the ledger moved the old worker finishes what it has and is replaced; nothing is sent twice."""
    world = World()
    tested = Supervised(world, ledger)

    def move() -> None:
        assert ledger.path is not None
        ledger.path.unlink()
        ledger.move()
        tested.give(item("b"))
        tested.nudge()

    run(tested, item("a"), during=move)
    assert [(number, stem, flags & frames.RESENT) for number, stem, flags in world.sent] == [
        (1, "a", 0),
        (2, "b", 0),
    ]
    assert tested.restarts == 0


def test_what_makes_no_frame_is_failed_alone(ledger: Ledger) -> None:
    """An event that cannot be packed is answered as failed, and its neighbours go through."""

    class Picky(StandIn):
        async def write(self, cargo: Cargo, ticket: int, flags: int) -> None:
            frames.pack(cargo, ticket, flags)
            await super().write(cargo, ticket, flags)

    class PickySupervisor(Supervised):
        def _new_link(self) -> Link:
            return Picky(self.world)

    tested = PickySupervisor(World(), ledger)
    odd = Item(exchange(stem="odd", path="\udc80"), None, 1, 1.0)
    run(tested, item("a"), odd, item("b"))
    assert tested.fates == {"a": [frames.COMMITTED], "odd": [frames.FAILED], "b": [frames.COMMITTED]}
