"""A supervisor with a stand-in for its worker, which dies as it is told, behind the same calls as a real one."""

from collections.abc import Callable

import anyio

from pipeline import frames
from pipeline.exchange import RawExchange
from pipeline.frames import Answer, Cargo, GapNote
from pipeline.intake import Item
from pipeline.ledger import Ledger
from pipeline.link import Link, WorkerGone
from pipeline.settings import PipelineSettings
from pipeline.supervisor import Parcel, Supervisor
from tests.pipeline.test_frames import exchange


class World:
    """What the stand-ins of one test share: which exchange kills, and what all of them were sent."""

    def __init__(self) -> None:
        self.kills: Callable[[str, int], bool] = lambda _stem, _flags: False
        self.deaf = False
        self.tells = True
        self.refused: list[BaseException] = []
        self.started = 0
        self.sent: list[tuple[int, str, int]] = []


class StandIn(Link):
    """A worker that answers at once, unless it dies, behind the same calls as a real one."""

    def __init__(self, world: World) -> None:
        if world.refused:
            raise world.refused.pop(0)
        world.started += 1
        self.number = world.started
        self.world = world
        self.told, self.answers = anyio.create_memory_object_stream[Answer](10_000)
        self.told.send_nowait(Answer(0, frames.HELLO))
        self.dead = False
        self.closed = 0

    async def write(self, cargo: Cargo, ticket: int, flags: int) -> None:
        """Take a frame, and die of it or answer it."""
        await anyio.lowlevel.checkpoint()
        if self.dead:
            raise WorkerGone
        if ticket == 0:
            return
        stem = cargo.stem if isinstance(cargo, (RawExchange, GapNote)) else ""
        self.world.sent.append((self.number, stem, flags))
        if flags & frames.RESENT and self.world.tells:
            self.told.send_nowait(Answer(ticket, frames.BEGUN))
        if self.world.kills(stem, flags):
            self.dead = True
            self.told.close()
        elif not self.world.deaf:
            self.told.send_nowait(Answer(ticket, frames.COMMITTED))

    async def read(self) -> list[Answer]:
        """Wait for an answer."""
        try:
            return [await self.answers.receive()]
        except anyio.EndOfStream:
            raise WorkerGone from None

    def end_input(self) -> None:
        """End at the end of the input."""
        self.dead = True
        self.told.close()

    def close(self) -> None:
        """Count how often this is closed."""
        self.told.close()
        self.answers.close()
        self.closed += 1


class Supervised(Supervisor):
    """A supervisor of stand-ins."""

    def __init__(self, world: World, ledger: Ledger, **changes: object) -> None:
        self.world = world
        self.fates: dict[str, list[int]] = {}
        self.when_started: Callable[[int], None] = lambda _number: None
        settings = PipelineSettings(directory="/none", **changes)  # type: ignore[arg-type]
        super().__init__(settings, ledger, self._note)

    def _note(self, item: Item | Parcel, answer: Answer) -> None:
        self.fates.setdefault(item.event.stem, []).append(answer.fate)

    def _new_link(self) -> Link:
        self._moves = self._ledger.moves
        made = StandIn(self.world)
        if made.number > 1:
            self.when_started(made.number)
        return made


def item(stem: str, size: int = 10) -> Item:
    """Make an item of a rollout of its own."""
    return Item(exchange(stem=stem), None, size, 1.0)


def run(tested: Supervised, *items: Item | Parcel, during: Callable[[], None] | None = None) -> None:
    """Give all items, and live until the supervisor is through with them."""

    async def live() -> None:
        for each in items:
            tested.give(each)
        async with anyio.create_task_group() as group:
            group.start_soon(tested.run)
            if during is not None:
                await anyio.wait_all_tasks_blocked()
                during()
            tested.stop()

    anyio.run(live)
