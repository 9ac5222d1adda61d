"""Calls to their places: whose history goes on from whose, decided in the order in which the calls began.

Nothing is inferred from who called when, but that a call cannot go on from an answer that was not there yet. From
most to least certain: the response or conversation that a request names; the same history again after a failure (a
retry); a history that goes on from an earlier one; a history that was rewritten but still holds an earlier call's
answer, or begins with a summary that an earlier call wrote (a compaction); a prompt that an earlier call passed to a
tool (a sub-agent). What fits nothing begins a conversation of its own. A branch is a run of calls that each continue
the one before; everything else opens another.
"""

from collections.abc import Iterator

import msgspec

from .calls import NOTHING, Call, Evidence, Place
from .origins import Repeated
from .shelves import Found, Shelves, is_over
from .tree import ROOT, Tree

MODEL_ENTRIES_BACK = 4
"""How far back a rewritten history is looked through for an earlier call's answer."""


class Placing:
    """Gives places to calls in the order of their start."""

    def __init__(self, tree: Tree, calls: list[Call]) -> None:
        self._tree = tree
        self._calls = calls
        self._places: list[Place] = [Place(relation="unknown")] * len(calls)
        self._shelves = Shelves(len(calls))
        self._repeated = bytearray(len(calls))
        self._spawned: set[tuple[int, str | None]] = set()
        self._branches = 0

    def run(self) -> list[Place]:
        """Return the place of each call, by its number."""
        for call in sorted(self._calls, key=lambda call: (call.started_at, call.number)):
            self._places[call.number] = self._place(call)
            self._shelves.put(call)
        return self._places

    def _place(self, call: Call) -> Place:
        if not call.known:
            return Place(relation="unknown")
        if (earlier := self._retried(call)) is not None:
            return self._retry(earlier, call)
        if call.named is not None and (place := self._named(call, *call.named)) is not None:
            return place
        found = self._above(call)
        if found is not None and found.matched and not self._shelves.taken[found.call.number]:
            return self._go_on_from(call, found)
        return self._compaction(call, found) or self._weaker(call, found)

    def _named(self, call: Call, name: str, evidence: Evidence) -> Place | None:
        """Place a call that names what it goes on from; null for the first of a conversation.

        Its history is only what is new, so the user's messages before it are in the offset of its turn.
        """
        parent = self._shelves.named(name, evidence)
        if parent is not None:
            place = self._go_on(call, parent, evidence, call.start)
            offset = place.offset
            offset = None if offset is None else offset + self._tree.nodes[parent.node].users
            return msgspec.structs.replace(place, offset=offset, turn=self._turn(call, offset))
        if evidence == "response_id":
            return Place(relation="unknown", branch=self._open(), shared=call.start)
        return None

    def _weaker(self, call: Call, found: Found | None) -> Place:
        return self._root(call) if found is None else self._go_on_from(call, found)

    def _go_on_from(self, call: Call, found: Found) -> Place:
        evidence: Evidence = "answer" if found.matched else "prefix"
        place = self._go_on(call, found.call, evidence, found.call.node)
        return msgspec.structs.replace(place, choice=found.choice)

    def _retried(self, call: Call) -> Call | None:
        """Return the call that this one makes again: of the same history and instructions, and not made again yet.

        It failed before this one began; or the client itself counts this one as a later attempt, and nothing goes
        on from the earlier one's answer, which the client then had.
        """
        candidates = [one for one in self._shelves.asked(call) if not self._repeated[one.number]]
        failed = (one for one in candidates if one.failed and is_over(one, call))
        unheard = (one for one in candidates if not self._shelves.taken[one.number])
        counted = (one for one in unheard if one.retries < call.retries)
        return next(failed, None) or next(counted, None)

    def _retry(self, earlier: Call, call: Call) -> Place:
        self._repeated[earlier.number] = 1
        place = self._places[earlier.number]
        return msgspec.structs.replace(
            place,
            relation="retry",
            branch=self._open(),
            parent=earlier.number,
            choice=None,
            evidence="request",
            tool_call_id=None,
            shared=call.node,
        )

    def _go_on(self, call: Call, parent: Call, evidence: Evidence, shared: int) -> Place:
        """Place a call behind its parent: on the same branch if it is the first to go on from there."""
        before = self._places[parent.number]
        free = not self._shelves.taken[parent.number]
        self._shelves.taken[parent.number] = 1
        return Place(
            relation="continues" if free else "branch",
            branch=before.branch if free and before.branch is not None else self._open(),
            parent=parent.number,
            evidence=evidence,
            turn=self._turn(call, before.offset),
            offset=before.offset,
            shared=shared,
        )

    def _above(self, call: Call) -> Found | None:
        """Find the call with the longest history that this one's begins with."""
        nodes = self._tree.nodes
        found = self._shelves.answered(call.node, call.tail, call)
        below, at = call.node, nodes[call.node].parent
        while found is None and at != ROOT:
            made = nodes[below].made
            found = self._shelves.answered(at, made.local if made else (), call)
            found = found or self._shelves.last_at(at, call)
            below, at = at, nodes[at].parent
        return found

    def _compaction(self, call: Call, found: Found | None) -> Place | None:
        """Place a call whose history was rewritten: by an answer it still holds, or by a summary it begins with."""
        answer = self._kept_answer(call, found)
        if answer is not None:
            parent, shared = answer
            return self._rewritten(call, parent, "answer", shared)
        said = [
            (at, self._calls[one.source.call])
            for at, one in self._sources(call, found)
            if not one.source.is_argument
        ]
        said = [one for one in said if is_over(one[1], call) and self._same_setting(one[1], call)]
        if not said:
            return None
        equal = [parent for at, parent in said if (at, parent.local) == (said[0][0], said[0][1].local)]
        parent = next((one for one in equal if not self._shelves.taken[one.number]), equal[0])
        return self._rewritten(call, parent, "summary", said[0][0])

    def _kept_answer(self, call: Call, found: Found | None) -> tuple[Call, int] | None:
        nodes = self._tree.nodes
        stop = ROOT if found is None else found.call.node
        path = [at for at in self._tree.up(call.node, stop) if nodes[at].kind == "model"]
        if found is not None and found.matched:
            path = path[:-1]
        for at in path[:MODEL_ENTRIES_BACK]:
            made = nodes[at].made
            for parent in self._shelves.holding(made.exact if made else (), call):
                if parent is not (found.call if found else None):
                    return parent, at
        return None

    def _sources(self, call: Call, found: Found | None) -> Iterator[tuple[int, Repeated]]:
        """Yield what the first messages of a user repeat, but those shared with the call found."""
        stop = ROOT if found is None else found.call.node
        for at in reversed(list(self._tree.up(call.node, stop))):
            for one in self._tree.nodes[at].origin or ():
                yield at, one

    def _same_setting(self, parent: Call, call: Call) -> bool:
        """Whether two calls are of one agent: the summarising call itself may have instructions of its own."""
        grand = self._places[parent.number].parent
        nearest = (parent, self._calls[grand]) if grand is not None else (parent,)
        return any(_is_alike(one, call) for one in nearest)

    def _rewritten(self, call: Call, parent: Call, evidence: Evidence, shared: int) -> Place:
        """Place a compaction: a branch of its own, its turns counted on from its parent's."""
        turn = self._places[parent.number].turn
        users = self._tree.nodes[shared].users
        offset = 0 if turn is None else turn + 1 - users
        self._shelves.taken[parent.number] = 1
        return Place(
            relation="compaction",
            branch=self._open(),
            parent=parent.number,
            evidence=evidence,
            turn=self._turn(call, offset),
            offset=offset,
            shared=shared,
        )

    def _root(self, call: Call) -> Place:
        """Place the first call of a conversation: a sub-agent's where an earlier call passed its prompt on."""
        place = Place(relation="root", branch=self._open(), turn=self._turn(call, 0), offset=0)
        passed = [one for _, one in self._sources(call, None) if self._is_passed(one, call)]
        if not passed:
            return place
        most = max(one.runs for one in passed)
        equal = [one.source for one in passed if one.runs == most]
        source = next((one for one in equal if one[:2] not in self._spawned), equal[0])
        self._spawned.add(source[:2])
        return msgspec.structs.replace(
            place,
            relation="subagent",
            parent=source.call,
            evidence="argument",
            tool_call_id=source.tool_call_id,
        )

    def _is_passed(self, repeated: Repeated, call: Call) -> bool:
        source = repeated.source
        return source.is_argument and is_over(self._calls[source.call], call)

    def _turn(self, call: Call, offset: int | None) -> int | None:
        users = self._tree.nodes[call.node].users
        return max(users - 1 + offset, 0) if offset is not None and users + offset > 0 else None

    def _open(self) -> int:
        self._branches += 1
        return self._branches - 1


def _is_alike(one: Call, other: Call) -> bool:
    """Whether two calls have the same instructions or the same tools; having neither tells nothing."""
    return one.context == other.context != NOTHING or one.tools == other.tools != NOTHING
