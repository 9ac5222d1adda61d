"""Steps to one row for the rollout: sums of what is known, how much is known, times, errors.

Null is unknown: a column in which nobody reported anything is null, not zero, and `coverage` says how many calls a
sum is of. The sums hold failed calls too, as NeMo Gym's do; `failed` says how much of them that is.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from pipeline.record import ModelCallRecord

from .steps import StepRecord, assemble_step_records

SUMMED = (
    "tokens_in",
    "tokens_out",
    "tokens_reasoning",
    "tokens_total",
    "cached_tokens",
    "cache_creation_tokens",
    "latency_total_ms",
)
"""Columns of the steps that are added up."""

COVERED = (*SUMMED, "first_token_ms", "itl_p50_ms", "turn_index", "branch", "finish")
"""Columns of which it is told in how many calls they are known."""


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution over `count` calls, by the nearest rank: each value is one that was measured."""

    count: int
    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class FailedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls with an `error_category` have of the sums."""

    num_calls: int
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_total: int | None = None
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None
    latency_total_ms: float | None = None


class RolloutMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout in numbers. Names are NeMo Gym's where it has one; `num_calls` and `num_steps` are the same count.

    `num_turns` counts the different turn indexes. `num_retries` are steps whose relation is `retry`. Times are in
    milliseconds, `started_at` and `completed_at` in Unix seconds. `wall_span_ms` is from the first start to the last
    end, `busy_ms` the part of it in which a call was under way; `concurrency_mean` is over the busy part.

    `ttft_ms` is over the first tokens of streams; `itl_p50_ms`, `itl_p95_ms` and `itl_max_ms` are over the calls'
    own median, 95th percentile and longest gap between tokens. `tokens_per_s` is the output of all calls by the wall
    span, `decode_tokens_per_s` that of streams by the time from their first to their last token.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_total: int | None = None
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None
    latency_total_ms: float | None = None
    num_calls: int = 0
    num_steps: int = 0
    num_turns: int | None = None
    num_branches: int | None = None
    num_retries: int = 0
    num_tool_calls: int | None = None
    num_incomplete: int = 0
    coverage: dict[str, int]
    errors: dict[str, int] = {}
    finishes: dict[str, int] = {}
    failed: FailedCalls
    cache_hit_ratio: float | None = None
    started_at: float | None = None
    completed_at: float | None = None
    wall_span_ms: float | None = None
    busy_ms: float | None = None
    concurrency_max: int | None = None
    concurrency_mean: float | None = None
    tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    latency_ms: Percentiles | None = None
    ttft_ms: Percentiles | None = None
    itl_p50_ms: Percentiles | None = None
    itl_p95_ms: Percentiles | None = None
    itl_max_ms: Percentiles | None = None


def aggregate_rollout_metrics(records: Iterable[ModelCallRecord]) -> RolloutMetrics:
    """Sum up the records of one rollout; read once, payloads are not kept."""
    return aggregate_step_records(assemble_step_records(records))


def aggregate_step_records(steps: Sequence[StepRecord]) -> RolloutMetrics:
    """Sum up the steps of one rollout. Without steps every sum is null and every count 0."""
    failed = [step for step in steps if step.error_category is not None]
    return RolloutMetrics(
        **_sums(steps),
        num_calls=len(steps),
        num_steps=len(steps),
        num_turns=_distinct(step.turn_index for step in steps),
        num_branches=_distinct(step.branch for step in steps),
        num_retries=sum(step.relation == "retry" for step in steps),
        num_tool_calls=sum(len(step.tool_calls or ()) for step in steps) if steps else None,
        num_incomplete=sum(not step.complete for step in steps),
        coverage={name: len(_known(steps, name)) for name in COVERED},
        errors=_counted(step.error_category for step in failed),
        finishes=_counted(step.finish for step in steps),
        failed=FailedCalls(num_calls=len(failed), **_sums(failed)),
        cache_hit_ratio=_cache_hit_ratio(steps),
        **_spans(steps),
        decode_tokens_per_s=_decode_rate(steps),
        latency_ms=percentiles(_known(steps, "latency_total_ms")),
        ttft_ms=percentiles(_known(steps, "first_token_ms")),
        itl_p50_ms=percentiles(_known(steps, "itl_p50_ms")),
        itl_p95_ms=percentiles(_known(steps, "itl_p95_ms")),
        itl_max_ms=percentiles(_known(steps, "itl_max_ms")),
    )


def percentiles(values: Iterable[float]) -> Percentiles | None:
    """Return the distribution of some values by the nearest rank; null of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    ranks = {name: ordered[-(-len(ordered) * share // 100) - 1] for name, share in RANKS.items()}
    return Percentiles(count=len(ordered), min=ordered[0], max=ordered[-1], **ranks)


RANKS = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}


def _known(steps: Iterable[StepRecord], name: str) -> list[float]:
    return [value for step in steps if (value := getattr(step, name)) is not None]


def _sums(steps: Sequence[StepRecord]) -> dict[str, Any]:
    columns = ((name, _known(steps, name)) for name in SUMMED)
    return {name: round(sum(values), 2) if values else None for name, values in columns}


def _distinct(values: Iterable[int | None]) -> int | None:
    return len({value for value in values if value is not None}) or None


def _counted(values: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(value for value in values if value is not None).most_common())


def _cache_hit_ratio(steps: Iterable[StepRecord]) -> float | None:
    """Return how much of the prompts came from a cache, over the calls that say both."""
    pairs = [(step.cached_tokens, step.tokens_in) for step in steps]
    known = [(cached, whole) for cached, whole in pairs if cached is not None and whole]
    return _ratio(sum(cached for cached, _ in known), sum(whole for _, whole in known), None)


def _spans(steps: Sequence[StepRecord]) -> dict[str, Any]:
    """Return what the calls' starts and ends say together."""
    if not steps:
        return {}
    spans = [(step.started_at, max(step.started_at, step.completed_at)) for step in steps]
    started, completed = min(start for start, _ in spans), max(end for _, end in spans)
    wall_s, busy_s, most = completed - started, 0.0, 1
    open_calls, since = 0, started
    for at, change in _edges(spans):
        busy_s += at - since if open_calls > 0 else 0.0
        open_calls, since = open_calls + change, at
        most = max(most, open_calls)
    outputs = _known(steps, "tokens_out")
    return {
        "started_at": started,
        "completed_at": completed,
        "wall_span_ms": round(wall_s * 1e3, 2),
        "busy_ms": round(busy_s * 1e3, 2),
        "concurrency_max": most,
        "concurrency_mean": _ratio(sum(end - start for start, end in spans), busy_s),
        "tokens_per_s": _ratio(sum(outputs), wall_s) if outputs else None,
    }


def _edges(spans: Iterable[tuple[float, float]]) -> list[tuple[float, int]]:
    """Return starts and ends in order; of one moment the ends first."""
    return sorted(chain.from_iterable(((start, 1), (end, -1)) for start, end in spans))


def _ratio(whole: float, parts: float, digits: int | None = 3) -> float | None:
    """Divide, as exactly as is told; null by nothing, and where a count is beyond what a number can hold."""
    try:
        ratio = whole / parts
    except (ZeroDivisionError, OverflowError):
        return None
    return ratio if digits is None else round(ratio, digits)


def _decode_rate(steps: Iterable[StepRecord]) -> float | None:
    """Return tokens a second between the first and the last token, over the streams that say both."""
    tokens, seconds = 0, 0.0
    for step in steps:
        first, last, output = step.first_token_ms, step.last_token_ms, step.tokens_out
        if first is not None and last is not None and last > first and output:
            tokens += output - 1
            seconds += (last - first) / 1e3
    return _ratio(tokens, seconds)
