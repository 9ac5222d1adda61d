"""Records to steps: one flat row for each model call, with its place in the rollout.

A pure view: the records in any order in, one `StepRecord` for each out, in the order in which the calls were
completed. Null is unknown, never zero. An iterator is read once and its payloads are not kept.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pipeline.dialects.base import as_text
from pipeline.record import ModelCallRecord, ToolCall, Usage

from .calls import Evidence, Place, Relation
from .lineage import Lineage

NO_USAGE = Usage()


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One model call of a rollout. Names are NeMo Gym's where it has one.

    `step_index` counts from 0 in the order of completion; `turn_index` counts the user's messages of the call's own
    conversation, from 0. `branch` is a run of steps that each continue the one before, numbered in the order of
    their first calls. `parent_step` is the step that this one goes on from, `parent_choice` which of its answers if
    that is known, `relation` how, `evidence` what says so; `spawned_by` is the tool call that passed a sub-agent its
    prompt.

    `tokens_in` is the whole prompt, cached parts included. `latency_ttft_ms` is the first byte of the body,
    `first_token_ms` the first token of a stream, reasoning included. `tool_calls` and `reasoning_content` are of
    choice 0.
    """

    step_index: int
    turn_index: int | None = None
    branch: int | None = None
    parent_step: int | None = None
    parent_choice: int | None = None
    relation: Relation = "unknown"
    evidence: Evidence | None = None
    spawned_by: str | None = None
    retry_count: int | None = None
    # The call.
    model_call_id: str
    rollout_id: str | None = None
    attempt: int | None = None
    response_id: str | None = None
    client_session_id: str | None = None
    model_ref: dict[str, str] | None = None
    model: str | None = None
    dialect: str
    stream: bool | None = None
    started_at: float
    completed_at: float
    # How it ended.
    status_code: int | None = None
    response_status: str | None = None
    complete: bool
    delivery: str
    error_category: str | None = None
    finish: str | None = None
    finish_reason: str | None = None
    flags: list[str] = []
    upstream_attempted: bool | None = None
    response_source: str | None = None
    upstream_status_code: int | None = None
    local_response_reason: str | None = None
    # What it cost.
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_total: int | None = None
    cached_tokens: int | None = None
    cache_hit: bool | None = None
    cache_creation_tokens: int | None = None
    latency_total_ms: float
    latency_ttft_ms: float | None = None
    first_token_ms: float | None = None
    last_token_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p95_ms: float | None = None
    itl_max_ms: float | None = None
    # What was said.
    choices: int | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    annotations: dict[str, Any] | None = None
    events: list[dict[str, Any]] | None = None


SAME_NAME = tuple(
    name for name in StepRecord.__struct_fields__ if name in frozenset(ModelCallRecord.__struct_fields__)
)
"""Fields that a step takes from its record as they are."""


class Steps:
    """Steps under construction: `add` each record, then take `finish`."""

    def __init__(self) -> None:
        self._lineage = Lineage()
        self._steps: list[StepRecord] = []

    def add(self, record: ModelCallRecord) -> None:
        """Take in a record; nothing of its request and response is kept."""
        self._lineage.add(record)
        self._steps.append(make_step(record))

    def finish(self) -> list[StepRecord]:
        """Return the steps, each in its place."""
        return place_steps(self._steps, self._lineage.places())

    def order(self) -> list[int]:
        """Return, for each step of `finish`, the number of its record: how many were added before it."""
        return completion_order(self._steps)


def assemble_step_records(records: Iterable[ModelCallRecord]) -> list[StepRecord]:
    """Return the steps of one rollout, in the order in which its calls were completed.

    Linear in the records' size. `records` may be an iterator; then only steps and digests are held.
    """
    steps = Steps()
    for record in records:
        steps.add(record)
    return steps.finish()


def lineage_of(steps: Sequence[StepRecord], step_index: int) -> list[StepRecord]:
    """Return the steps that led to one, from the first of its conversation, itself included.

    Attempts that were made again are left out, so this is the thread that a trainer wants. Raises IndexError.
    """
    path = path_to(steps, step_index)
    again = {step.parent_step for step in path if step.relation == "retry"}
    return [step for step in path if step.step_index not in again]


def path_to(steps: Sequence[StepRecord], step_index: int) -> list[StepRecord]:
    """Do what `lineage_of` does, with the attempts that were made again."""
    path = [steps[step_index]]
    while (parent := path[-1].parent_step) is not None and path[-1].relation != "subagent":
        path.append(steps[parent])
    return path[::-1]


def make_step(record: ModelCallRecord) -> StepRecord:
    """Make a record's step; its place is still unknown."""
    same = {name: getattr(record, name) for name in SAME_NAME}
    timing = record.timing
    firsts = [at for at in (timing.first_token_ms, timing.first_reasoning_ms) if at is not None]
    return StepRecord(
        step_index=0,
        retry_count=record.client.retry_count,
        response_status=_response_status(record),
        latency_total_ms=record.latency_ms,
        first_token_ms=min(firsts, default=None),
        last_token_ms=timing.last_token_ms,
        itl_p50_ms=timing.itl_p50_ms,
        itl_p95_ms=timing.itl_p95_ms,
        itl_max_ms=timing.itl_max_ms,
        **_tokens(record.usage or NO_USAGE),
        **same,
    )


def place_steps(steps: Sequence[StepRecord], places: Sequence[Place]) -> list[StepRecord]:
    """Put steps in order, each into its place; both are by the number of the record."""
    order = completion_order(steps)
    index_of = {number: index for index, number in enumerate(order)}
    return [
        msgspec.structs.replace(
            steps[number],
            step_index=index,
            turn_index=place.turn,
            branch=place.branch,
            parent_step=None if place.parent is None else index_of[place.parent],
            parent_choice=place.choice,
            relation=place.relation,
            evidence=place.evidence,
            spawned_by=place.tool_call_id,
        )
        for index, number in enumerate(order)
        for place in (places[number],)
    ]


def completion_order(steps: Sequence[StepRecord]) -> list[int]:
    """Return the numbers of records in the order in which their calls were completed."""
    return sorted(range(len(steps)), key=lambda number: steps[number].completed_at)


def _tokens(usage: Usage) -> dict[str, Any]:
    known_in, known_out, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    if total is None and known_in is not None and known_out is not None:
        total = known_in + known_out
    cached = usage.cache_read_tokens
    return {
        "tokens_in": known_in,
        "tokens_out": known_out,
        "tokens_reasoning": usage.reasoning_tokens,
        "tokens_total": total,
        "cached_tokens": cached,
        "cache_hit": None if cached is None else cached > 0,
        "cache_creation_tokens": usage.cache_write_tokens,
    }


def _response_status(record: ModelCallRecord) -> str | None:
    """Return the Responses API's own word for how it ended."""
    return as_text(record.response.get("status")) if isinstance(record.response, dict) else None
