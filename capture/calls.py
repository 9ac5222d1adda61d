"""What lineage knows of a call, and the place that it finds for it."""

from typing import Literal

import msgspec

from .tree import ROOT, digest

Relation = Literal["root", "continues", "retry", "branch", "compaction", "subagent", "unknown"]
"""How a call goes on from its parent.

`root` begins a conversation, `subagent` one whose prompt the parent passed to a tool. `continues` is the first to go
on from the parent's answer, `branch` another one. `retry` makes the parent again, `compaction` goes on from it with a
rewritten history. `unknown`: the request cannot be read, or names a response that is not among the records.
"""

Evidence = Literal["response_id", "conversation", "request", "answer", "prefix", "summary", "argument"]
"""What says so: a response or conversation that the request names, an equal request, the parent's answer in the
history, the parent's history alone, the parent's answer in a user's message, an argument of a tool call of it."""

NOTHING = digest([])
"""The digest of no instructions, and of no tools."""


class Call(msgspec.Struct, kw_only=True):
    """What is kept of one record: where its history ends, and what its answers, one a choice, are known by.

    `tail` is what the answer is known by that the request itself ends with, for the model to go on with it.
    """

    number: int
    node: int
    start: int
    tail: tuple[bytes, ...]
    known: bool
    context: bytes
    tools: bytes
    started_at: float
    answered_at: float
    failed: bool
    retries: int
    named: tuple[str, Evidence] | None
    response_id: str | None
    local: tuple[tuple[bytes, ...], ...]
    exact: tuple[bytes, ...]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A call's place in its rollout.

    `parent` is the number of the call it goes on from, `choice` which of that call's answers, where that is known,
    `shared` the node down to which their histories agree. `offset` is added to the count of a user's messages to
    give the turn; null where turns cannot be counted.
    """

    relation: Relation
    branch: int | None = None
    parent: int | None = None
    choice: int | None = None
    evidence: Evidence | None = None
    tool_call_id: str | None = None
    turn: int | None = None
    offset: int | None = None
    shared: int = ROOT
