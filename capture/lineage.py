"""The lineage of a rollout's calls: which call goes on from which, by what both say.

`Lineage.add` takes records in any order and keeps digests of them, no payloads; `places` then gives each its place.
Both are linear in what the records hold.
"""

from collections.abc import Iterable, Iterator

from pipeline.record import ModelCallRecord

from .calls import Call, Evidence, Place
from .history import CALL, MESSAGE, Asked, Item, read_answers, read_asked
from .origins import Origins, Source
from .placing import Placing
from .tree import ROOT, Entry, Tree, digest, entries_of, made_by, said

ORIGIN_USERS = 2
"""A summary or a passed prompt is among this many first messages of a user."""


class Lineage:
    """The calls of one rollout, and the tree of their histories."""

    def __init__(self, *, keep: bool = False) -> None:
        self.tree = Tree(keep=keep)
        self.calls: list[Call] = []
        self._origins = Origins()
        self._by_response: dict[str, int] = {}
        self._by_conversation: dict[str, int] = {}

    def add(self, record: ModelCallRecord) -> None:
        """Take in one record; its number is how many came before it."""
        self.read(record, read_asked(record), read_answers(record))

    def read(self, record: ModelCallRecord, asked: Asked, answers: list[list[Item]]) -> Call:
        """Do what `add` does with a request and answers that were read already; return what is kept of it."""
        start, linked = self._start(asked, record)
        node = self._descend(start, asked)
        made = [made_by(items) for items in answers]
        call = Call(
            number=len(self.calls),
            node=node,
            start=start,
            known=bool(asked.items or linked),
            context=digest([[item.role, item.text] for item in asked.context]),
            tools=_tools(record),
            started_at=record.started_at,
            answered_at=_answered_at(record),
            failed=record.error_category is not None,
            retries=record.client.retry_count or 0,
            linked=linked,
            local=tuple(key for one in made for key in one.local),
            exact=tuple(key for one in made for key in one.exact),
        )
        self.calls.append(call)
        self._learn(call, record, asked, answers)
        return call

    def places(self) -> list[Place]:
        """Return the place of each call, by its number."""
        return Placing(self.tree, self.calls).run()

    def _start(self, asked: Asked, record: ModelCallRecord) -> tuple[int, tuple[int, Evidence] | None]:
        """Return the node below which a request's items belong, and the call that it names."""
        named: tuple[tuple[str | None, dict[str, int], Evidence], ...] = (
            (asked.previous, self._by_response, "response_id"),
            (asked.conversation, self._by_conversation, "conversation"),
        )
        for name, known, evidence in named:
            if name is not None and (number := known.get(name)) is not None:
                call = self.calls[number]
                node, _ = self.tree.descend(call.node, [Entry("model", digest([name, number]))])
                return node, (number, evidence)
        if asked.previous is None:
            return ROOT, None
        node, _ = self.tree.descend(ROOT, [Entry("lost", digest([record.rollout_id, asked.previous]))])
        return node, None

    def _descend(self, start: int, asked: Asked) -> int:
        entries = entries_of(asked.items)
        while entries and entries[-1].kind == "model":
            entries.pop()
        node, added = self.tree.descend(start, entries)
        for at, entry in added:
            here = self.tree.nodes[at]
            if entry.kind == "user" and here.users <= ORIGIN_USERS:
                here.origin = self._origins.of(said(entry.items[0].text or ""))
        return node

    def _learn(self, call: Call, record: ModelCallRecord, asked: Asked, answers: list[list[Item]]) -> None:
        """Remember what later calls may name or repeat."""
        if record.response_id is not None:
            self._by_response[record.response_id] = call.number
        if asked.conversation is not None:
            self._by_conversation[asked.conversation] = call.number
        for item in (item for items in answers for item in items):
            if item.type == MESSAGE and item.text:
                self._origins.add(Source(call.number), item.text)
            elif item.type == CALL and isinstance(item.arguments, dict):
                for value in item.arguments.values():
                    if isinstance(value, str):
                        self._origins.add(Source(call.number, item.call_id, is_argument=True), value)


def _answered_at(record: ModelCallRecord) -> float:
    """Return when the client had the answer: with the last token of a stream, else at the end. Unix seconds."""
    last_ms = record.timing.last_token_ms
    return record.completed_at if last_ms is None else record.started_at + last_ms / 1e3


def _tools(record: ModelCallRecord) -> bytes:
    tools = record.request.get("tools") if isinstance(record.request, dict) else None
    return digest(sorted(_names(tools if isinstance(tools, list) else ())))


def _names(tools: Iterable[object]) -> Iterator[str]:
    for tool in tools:
        detail = tool.get("function", tool) if isinstance(tool, dict) else None
        name = detail.get("name") if isinstance(detail, dict) else None
        if isinstance(name, str):
            yield name
