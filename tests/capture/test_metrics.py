"""A rollout in numbers: sums of what is known, how much is known, and times that add up."""

import msgspec
import pytest

from capture.metrics import (
    SUMMED,
    RolloutMetrics,
    aggregate_rollout_metrics,
    aggregate_step_records,
    percentiles,
)
from capture.steps import StepRecord
from tests.capture.conversing import Rollout, bash, model, tool, user


def step(**fields: object) -> StepRecord:
    """Make a step of which only some fields matter."""
    base: dict[str, object] = {
        "step_index": 0,
        "model_call_id": "0" * 32,
        "dialect": "chat",
        "started_at": 0.0,
        "completed_at": 1.0,
        "complete": True,
        "delivery": "complete",
        "latency_total_ms": 1000.0,
    }
    return msgspec.convert({**base, **fields}, StepRecord)


def test_nothing_gives_the_full_null_shape() -> None:
    """Without steps each sum, time and turn count is null, each count 0, and no key is missing."""
    empty = msgspec.to_builtins(aggregate_step_records([]))
    assert set(empty) == set(RolloutMetrics.__struct_fields__)
    assert {empty[name] for name in (*SUMMED, "num_turns", "wall_span_ms", "ttft_ms", "tokens_per_s")} == {
        None
    }
    assert (empty["num_calls"], empty["num_steps"], empty["failed"]["num_calls"]) == (0, 0, 0)


def test_gyms_own_keys_are_there() -> None:
    """The names of NeMo Gym's metrics, of both its forms, are among ours."""
    sums = "tokens_in tokens_out tokens_reasoning tokens_total cached_tokens latency_total_ms"
    counts = "num_calls num_steps num_turns"
    assert {*sums.split(), *counts.split()} < set(RolloutMetrics.__struct_fields__)


def test_sums_are_of_what_is_known_and_say_of_how_many() -> None:
    """An unknown count adds nothing and takes nothing away; a column nobody reported is null, not zero."""
    metrics = aggregate_step_records([step(tokens_in=3), step(), step(tokens_in=4)])
    assert (metrics.tokens_in, metrics.coverage["tokens_in"]) == (7, 2)
    assert (metrics.tokens_out, metrics.coverage["tokens_out"]) == (None, 0)
    assert (metrics.latency_total_ms, metrics.num_calls) == (3000.0, 3)


def test_turns_are_the_different_turn_indexes() -> None:
    """Steps of one turn count once; steps without a turn do not count."""
    assert aggregate_step_records([step(turn_index=n) for n in (0, 0, 1, None)]).num_turns == 2
    assert aggregate_step_records([step()]).num_turns is None


def test_failed_calls_are_told_apart() -> None:
    """They are in the sums, as in NeMo Gym's, and apart, so that they can be taken out."""
    failures = [step(error_category="timeout", tokens_in=5, latency_total_ms=300.0)] * 2
    metrics = aggregate_step_records([step(tokens_in=1), *failures, step(error_category="auth")])
    assert (metrics.tokens_in, metrics.failed.tokens_in, metrics.failed.num_calls) == (11, 10, 3)
    assert metrics.errors == {"timeout": 2, "auth": 1}
    assert metrics.failed.tokens_out is None


def test_percentiles_are_values_that_were_measured() -> None:
    """The nearest rank of 100 values is the value itself; of one value everything is that one."""
    found = percentiles(range(1, 101))
    assert found is not None
    assert (found.min, found.p50, found.p90, found.p95, found.p99, found.max) == (1, 50, 90, 95, 99, 100)
    single = percentiles([7.0])
    assert single is not None
    assert (single.count, single.p50, single.p99) == (1, 7.0, 7.0)
    assert percentiles([]) is None


def test_first_tokens_and_gaps_are_those_of_streams() -> None:
    """Calls that did not stream have no first token, and do not weigh in."""
    streamed = [step(first_token_ms=at, itl_p50_ms=at / 10, itl_max_ms=at) for at in (10.0, 20.0, 90.0)]
    metrics = aggregate_step_records([*streamed, step()])
    assert metrics.ttft_ms is not None
    assert (metrics.ttft_ms.count, metrics.ttft_ms.p50, metrics.ttft_ms.max) == (3, 20.0, 90.0)
    assert metrics.itl_p50_ms is not None
    assert metrics.itl_p50_ms.p50 == 2.0


def test_spans_and_concurrency_come_from_starts_and_ends() -> None:
    """Two calls overlap by a second, a third comes after a pause: the busy time leaves the pause out."""
    spans = [(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)]
    metrics = aggregate_step_records([step(started_at=a, completed_at=b, tokens_out=6) for a, b in spans])
    assert (metrics.wall_span_ms, metrics.busy_ms) == (6000.0, 4000.0)
    assert (metrics.concurrency_max, metrics.concurrency_mean) == (2, 1.25)
    assert metrics.tokens_per_s == 3.0


def test_a_call_that_begins_when_another_ends_is_not_concurrent() -> None:
    """One after the other is one at a time."""
    steps = [step(started_at=float(n), completed_at=n + 1.0) for n in range(3)]
    assert aggregate_step_records(steps).concurrency_max == 1


def test_a_clock_that_was_set_back_makes_no_negative_times() -> None:
    """A call that ended before it began took no time, and is one call all the same."""
    metrics = aggregate_step_records([step(started_at=5.0, completed_at=1.0, tokens_out=3)])
    assert (metrics.wall_span_ms, metrics.busy_ms, metrics.concurrency_max) == (0, 0, 1)
    assert (metrics.concurrency_mean, metrics.tokens_per_s) == (None, None)


def test_a_count_beyond_all_numbers_has_no_ratio() -> None:
    """A provider may report any integer; it is summed, and what would be a ratio is null."""
    absurd = step(
        tokens_in=1, cached_tokens=10**400, tokens_out=10**400, first_token_ms=0.0, last_token_ms=9.0
    )
    metrics = aggregate_step_records([absurd])
    assert metrics.tokens_out == 10**400
    assert (metrics.cache_hit_ratio, metrics.tokens_per_s, metrics.decode_tokens_per_s) == (None, None, None)


def test_decoding_speed_is_of_streams_between_their_first_and_last_token() -> None:
    """The wait for the first token is not decoding, and the first token takes no gap."""
    metrics = aggregate_step_records(
        [step(first_token_ms=500.0, last_token_ms=1500.0, tokens_out=101), step(tokens_out=9)]
    )
    assert metrics.decode_tokens_per_s == 100.0


def test_the_cache_ratio_is_over_calls_that_report_a_cache() -> None:
    """A call that does not say what was cached is neither hit nor miss."""
    steps = [step(tokens_in=100, cached_tokens=50), step(tokens_in=900)]
    assert aggregate_step_records(steps).cache_hit_ratio == 0.5


def test_a_rollout_is_read_once() -> None:
    """Records may come from an iterator, which can be gone through one time only."""
    rollout = Rollout()
    rollout.call([user("go")], model("", bash("c1"), bash("c2")))
    after = [user("go"), model("", bash("c1"), bash("c2")), tool("c1", "a"), tool("c2", "b")]
    rollout.call(after, None)
    rollout.call(after, model("done"))
    metrics = aggregate_rollout_metrics(iter(rollout.records))
    assert (metrics.num_calls, metrics.num_turns, metrics.num_retries, metrics.num_branches) == (3, 1, 1, 2)
    assert (metrics.tokens_in, metrics.tokens_out, metrics.tokens_total) == (20, 10, 30)
    assert (metrics.num_tool_calls, metrics.finishes) == (2, {"tool_calls": 1, "stop": 1})


@pytest.mark.parametrize("name", ["tokens_in", "latency_total_ms"])
def test_sums_do_not_change_with_the_order(name: str) -> None:
    """A sum is of a set of steps."""
    steps = [step(tokens_in=n, latency_total_ms=n / 7) for n in range(20)]
    sums = [getattr(aggregate_step_records(order), name) for order in (steps, steps[::-1])]
    assert sums[0] == sums[1]
