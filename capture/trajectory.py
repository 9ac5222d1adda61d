"""A rollout read as one ordered account: what was said, thought, called and answered, each once.

Every request repeats the conversation before it, so a step adds only what is new in it: the tools' outputs and the
user's words that came since the step it goes on from, then the model's answer. Items are the same for all dialects
and carry the step, turn and branch that they belong to. A pure view; memory is that of the account.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal

import msgspec

from pipeline.record import ModelCallRecord

from .calls import Call, Place
from .history import CALL, OUTPUT, Item, Piece, read_answers, read_asked
from .lineage import Lineage
from .steps import StepRecord, completion_order, make_step, path_to, place_steps
from .tree import ROOT, Node, digest

Json = dict[str, Any]


class TrajectoryItem(Piece, frozen=True, kw_only=True):
    """One piece of a rollout. `type` is `message`, `reasoning`, `function_call`, `function_call_output` or another.

    `source` says on which side of the step it stood; of a response, `choice` says in which choice. `text` is a
    message's or an output's text, `content` what of it is no text, as it came. `events` are the timings that a
    handler noted for the tool call. `id` is of this account only.
    """

    id: str
    source: Literal["request", "response"]
    choice: int | None = None
    step_index: int
    turn_index: int | None = None
    branch: int | None = None
    events: list[Json] | None = None


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout as steps and as items. Items are in the order in which their calls began."""

    rollout_id: str | None
    steps: list[StepRecord]
    items: list[TrajectoryItem]

    def branch(self, branch: int, *, choice: int = 0) -> list[TrajectoryItem]:
        """Return the items of one branch, of each response those of one choice."""
        return [item for item in self.items if item.branch == branch and item.choice in {None, choice}]

    def thread(self, step_index: int, *, choice: int = 0) -> list[TrajectoryItem]:
        """Return the items of the whole conversation down to one choice of one step: what a trainer wants.

        Of each step before, only the answer that was gone on from. Raises IndexError for a step that is not there.
        """
        path = path_to(self.steps, step_index)
        chosen = {step_index: choice} | {
            before.step_index: step.parent_choice or 0
            for before, step in pairwise(path)
            if step.relation != "retry"
        }
        asked = {step.step_index for step in path}
        return [item for item in self.items if _is_in(item, asked, chosen)]


def assemble_rollout(records: Iterable[ModelCallRecord]) -> Trajectory:
    """Return the account of one rollout; `records` may be an iterator, in any order. Linear in their size."""
    account = _Account()
    for record in records:
        account.add(record)
    return account.finish()


class _Account:
    """The account under construction."""

    def __init__(self) -> None:
        self._lineage = Lineage(keep=True)
        self._steps: list[StepRecord] = []
        self._calls: list[Call] = []
        self._answers: list[list[list[Item]]] = []
        self._contexts: dict[bytes, list[Item]] = {}
        self._items: list[TrajectoryItem] = []
        self._places: list[Place] = []

    def add(self, record: ModelCallRecord) -> None:
        """Take in a record, of whose history only what is new is kept."""
        asked, answers = read_asked(record), read_answers(record)
        call = self._lineage.read(record, asked, answers)
        self._contexts.setdefault(call.context, asked.context)
        self._calls.append(call)
        self._answers.append(answers)
        self._steps.append(make_step(record))

    def finish(self) -> Trajectory:
        """Return the account."""
        places = self._places = self._lineage.places()
        steps = place_steps(self._steps, places)
        step_of = dict(zip(completion_order(self._steps), steps, strict=True))
        for call in sorted(self._calls, key=lambda call: (call.started_at, call.number)):
            step = step_of[call.number]
            for item in self._new(call, places[call.number]):
                self._tell(step, item, "request", None)
            for choice, items in enumerate(self._answers[call.number]):
                for item in items:
                    self._tell(step, item, "response", choice)
        rollout_id = next((step.rollout_id for step in steps), None)
        return Trajectory(rollout_id=rollout_id, steps=steps, items=self._items)

    def _tell(
        self, step: StepRecord, item: Item, source: Literal["request", "response"], choice: int | None
    ) -> None:
        events = [
            event for event in step.events or () if item.call_id and event.get("call_id") == item.call_id
        ]
        self._items.append(
            TrajectoryItem(
                **{name: getattr(item, name) for name in Piece.__struct_fields__},
                id=f"item-{len(self._items)}",
                source=source,
                choice=choice,
                step_index=step.step_index,
                turn_index=step.turn_index,
                branch=step.branch,
                events=events or None,
            )
        )

    def _new(self, call: Call, place: Place) -> Iterator[Item]:
        """Yield what a request adds to what was told already."""
        if place.relation == "retry":
            return
        if place.parent is None or place.relation == "subagent":
            yield from self._contexts[call.context]
            yield from self._below(call.node, ROOT)
        elif place.relation == "compaction":
            yield from self._rewritten(call, self._calls[place.parent], place)
        else:
            parent = self._calls[place.parent]
            yield from self._below(call.node, place.shared, [parent], self._said(parent))

    def _rewritten(self, call: Call, parent: Call, place: Place) -> Iterator[Item]:
        """Yield what is new in a history that was rewritten: all behind an answer that it kept, before that the rest.

        Words may be said again: behind the answer they are new, however often they were told.
        """
        line = list(self._line(parent))
        told = [item for each in line for item in self._said(each)]
        told += [item for each in line for node in self._path(each.node, ROOT) for item in node.items]
        kept = place.shared if place.evidence == "answer" else call.node
        yield from self._below(kept, ROOT, line, told)
        yield from self._below(call.node, kept)

    def _said(self, call: Call) -> list[Item]:
        return [item for items in self._answers[call.number] for item in items]

    def _line(self, call: Call) -> Iterator[Call]:
        """Yield a call, and those before it that it names instead of repeating them."""
        yield call
        while call.start != ROOT and (before := self._places[call.number].parent) is not None:
            call = self._calls[before]
            yield call

    def _below(
        self, node: int, stop: int, calls: Iterable[Call] = (), told: Iterable[Item] = ()
    ) -> Iterator[Item]:
        """Yield the items between two nodes, but answers of these calls and items that were told."""
        made = frozenset(key for call in calls for keys in call.local for key in keys)
        known = frozenset(map(_key, told))
        for entry in self._path(node, stop):
            if entry.made is None or made.isdisjoint(entry.made.local):
                yield from (item for item in entry.items if _key(item) not in known)

    def _path(self, node: int, stop: int) -> list[Node]:
        tree = self._lineage.tree
        return [tree.nodes[at] for at in tree.up(node, stop)][::-1]


def _is_in(item: TrajectoryItem, asked: set[int], chosen: Mapping[int, int]) -> bool:
    """Whether an item is of one of these requests, or of the chosen answer to one."""
    if item.choice is None:
        return item.step_index in asked
    return chosen.get(item.step_index) == item.choice


def _key(item: Item) -> tuple[str | bytes | None, ...]:
    """Say what makes an item the same as another: a tool's call and output by its id, all else by its text."""
    if item.type in {CALL, OUTPUT} and item.call_id:
        return (item.type, item.call_id)
    content = None if item.content is None else digest(item.content)
    return (item.type, item.role, (item.text or "").strip(), content)
