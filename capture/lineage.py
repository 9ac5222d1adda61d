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
        self._begun: list[tuple[int, str]] = []

    def add(self, record: ModelCallRecord) -> None:
        """Take in one record; its number is how many came before it."""
        self.read(record, read_asked(record), read_answers(record))

    def read(self, record: ModelCallRecord, asked: Asked, answers: list[list[Item]]) -> Call:
        """Do what `add` does with a request and answers that were read already; return what is kept of it."""
        named = _named(asked)
        start = ROOT if named is None else self.tree.descend(ROOT, [Entry("named", digest(named))])[0]
        node, tail = self._descend(start, asked)
        made = [made_by(items) for items in answers]
        call = Call(
            number=len(self.calls),
            node=node,
            start=start,
            tail=tail,
            known=bool(asked.items or named),
            context=digest([[item.role, item.text] for item in asked.context]),
            tools=_tools(record),
            started_at=record.started_at,
            answered_at=_answered_at(record),
            failed=record.error_category is not None and not record.complete,
            retries=record.client.retry_count or 0,
            named=named,
            response_id=record.response_id,
            local=tuple(one.local for one in made),
            exact=tuple(key for one in made for key in one.exact),
        )
        self.calls.append(call)
        self._learn(call, answers)
        return call

    def places(self) -> list[Place]:
        """Return the place of each call, by its number. Call it once, after the last record."""
        self._origins.arrange(lambda source: self.calls[source.call].started_at)
        for node, text in self._begun:
            self.tree.nodes[node].origin = self._origins.of(text)
        return Placing(self.tree, self.calls).run()

    def _descend(self, start: int, asked: Asked) -> tuple[int, tuple[bytes, ...]]:
        """Follow a request down to what it asks; what of an answer it begins itself is no part of that."""
        entries = entries_of(asked.items)
        tail: list[bytes] = []
        while entries and entries[-1].kind == "model":
            tail += made_by(entries.pop().items).local
        node, added = self.tree.descend(start, entries)
        for at, entry in added:
            if entry.kind == "user" and self.tree.nodes[at].users <= ORIGIN_USERS:
                self._begun.append((at, said(entry.items[0].text or "")))
        return node, tuple(tail)

    def _learn(self, call: Call, answers: list[list[Item]]) -> None:
        """Remember what later calls may repeat."""
        for item in (item for items in answers for item in items):
            if item.type == MESSAGE and item.text:
                self._origins.add(Source(call.number), item.text)
            elif item.type == CALL and isinstance(item.arguments, dict):
                for value in item.arguments.values():
                    if isinstance(value, str):
                        self._origins.add(Source(call.number, item.call_id, is_argument=True), value)


def _named(asked: Asked) -> tuple[str, Evidence] | None:
    """Return what a request names instead of telling it: the response or the conversation that it goes on from."""
    if asked.previous is not None:
        return (asked.previous, "response_id")
    return None if asked.conversation is None else (asked.conversation, "conversation")


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
