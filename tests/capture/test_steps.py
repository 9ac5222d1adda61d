"""One flat row a call: tokens, cache, times and endings as the record has them, null where nobody knows."""

from typing import Any

import msgspec
import pytest

from capture.reading import StoredRecord, parse_line
from capture.steps import StepRecord, assemble_step_records, lineage_of
from pipeline.process import encode, process
from pipeline.record import Usage
from tests.capture.conversing import DIALECTS, Rollout, bash, model, tool, user
from tests.exchanges import JSON_BODY, SERVER, delta, events, exchange

GYM = (
    "model_call_id response_id client_session_id model_ref model dialect status_code response_status finish_reason"
    " upstream_attempted response_source upstream_status_code local_response_reason started_at completed_at"
    " tokens_in tokens_out tokens_reasoning tokens_total cached_tokens cache_hit cache_creation_tokens"
    " tool_calls reasoning_content error_category latency_total_ms latency_ttft_ms"
)
"""What NeMo Gym's reader gives of a call, payloads and number apart."""


def one(dialect: str, response: bytes | list[bytes], **changes: Any) -> StepRecord:  # noqa: ANN401 - see exchange
    """Make the step of one exchange."""
    return assemble_step_records([stored(dialect, response, **changes)])[0]


def stored(dialect: str, response: bytes | list[bytes], **changes: Any) -> StoredRecord:  # noqa: ANN401 - see exchange
    """Make the record of one exchange, as a reader gets it."""
    record = parse_line(encode(process(exchange(dialect, response, **changes), SERVER, {})))
    assert record is not None
    return record


def with_usage(dialect: str, **usage: object) -> StepRecord:
    """Make the step of a whole answer that reports this usage."""
    body = msgspec.json.encode({"choices": [], "output": [], "content": [], "usage": usage})
    return one(dialect, body, response_headers=JSON_BODY)


def test_a_step_has_every_field_of_gyms_reader() -> None:
    """Consumers written for NeMo Gym's calls find each of their names, with `step_index` as the number."""
    assert set(GYM.split()) < set(StepRecord.__struct_fields__)


def test_step_index_is_the_place_in_the_order_of_completion() -> None:
    """Steps are numbered from 0 by when their calls were completed, not by when they began."""
    rollout = Rollout()
    rollout.call([user("slow")], model("late"), at=0, seconds=9)
    rollout.call([user("fast")], model("early"), at=1)
    steps = assemble_step_records(rollout.records)
    assert [(step.step_index, step.started_at) for step in steps] == [(0, 1001.0), (1, 1000.0)]


def test_a_server_that_lingers_does_not_hide_whom_a_call_goes_on_from() -> None:
    """A call may be completed after the one that went on from it: what counts is when the client had its answer."""
    rollout = Rollout()
    first = rollout.call([user("go")], model("", bash("c1")), at=0)
    timing = msgspec.structs.replace(first.timing, last_token_ms=500.0)
    lingering = msgspec.structs.replace(first, completed_at=1060.0, timing=timing)
    rollout.call([user("go"), model("", bash("c1")), tool("c1", "out")], model("done"), at=2)
    steps = assemble_step_records([lingering, rollout.records[1]])
    assert [(step.relation, step.parent_step) for step in steps] == [("continues", 1), ("root", None)]


def test_tokens_in_holds_the_cached_tokens_in_every_dialect() -> None:
    """The Messages API counts them beside the prompt, the others inside of it; a step always counts them in."""
    exclusive = with_usage(
        "messages", input_tokens=10, cache_read_input_tokens=900, cache_creation_input_tokens=90
    )
    inclusive = with_usage("chat", prompt_tokens=1000, prompt_tokens_details={"cached_tokens": 900})
    assert (exclusive.tokens_in, exclusive.cached_tokens, exclusive.cache_creation_tokens) == (1000, 900, 90)
    assert (inclusive.tokens_in, inclusive.cached_tokens, inclusive.cache_creation_tokens) == (
        1000,
        900,
        None,
    )


def test_a_fully_cached_prompt_without_an_input_count_is_known() -> None:
    """Where only the cache is reported, the prompt is what came from it."""
    assert with_usage("messages", cache_read_input_tokens=500, output_tokens=1).tokens_in == 500


def test_cached_tokens_are_not_counted_twice() -> None:
    """A gateway that reports an inclusive prompt and the cache at top level does not double the prompt."""
    step = with_usage(
        "chat", prompt_tokens=1000, completion_tokens=10, total_tokens=1010, cache_read_input_tokens=900
    )
    assert (step.tokens_in, step.tokens_total, step.cached_tokens) == (1000, 1010, 900)


def test_the_total_is_as_reported_else_the_sum_if_both_are_known() -> None:
    """A total that is not reported is added up only of two known counts."""
    assert with_usage("chat", prompt_tokens=3, completion_tokens=4, total_tokens=9).tokens_total == 9
    assert with_usage("messages", input_tokens=3, output_tokens=4).tokens_total == 7
    assert with_usage("messages", output_tokens=4).tokens_total is None


def test_no_cache_report_is_no_miss() -> None:
    """A cache hit is true, false or unknown."""
    hits = [
        with_usage("chat", prompt_tokens=9, **details).cache_hit
        for details in (
            {"prompt_tokens_details": {"cached_tokens": 3}},
            {"prompt_tokens_details": {"cached_tokens": 0}},
            {},
        )
    ]
    assert hits == [True, False, None]


def test_a_call_without_usage_has_unknown_tokens() -> None:
    """Null is unknown, never zero."""
    step = one("chat", events(delta("stop", content="hi"), done=True))
    assert (step.tokens_in, step.tokens_out, step.tokens_total, step.cache_hit) == (None,) * 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tool_calls_and_reasoning_read_the_same_in_every_dialect(dialect: str) -> None:
    """Name, id, parsed arguments and the reasoning's text do not depend on the API."""
    rollout = Rollout(dialect)
    rollout.call([user("go")], model("", ("c1", "bash", {"command": "ls"}), thought="let me look"))
    step = assemble_step_records(rollout.records)[0]
    assert step.tool_calls is not None
    assert [(call.call_id, call.name, call.arguments) for call in step.tool_calls] == [
        ("c1", "bash", {"command": "ls"})
    ]
    assert (step.reasoning_content, step.finish) == ("let me look", "tool_calls")


def test_times_of_a_stream_are_those_of_its_tokens() -> None:
    """First and last token, and the gaps between them, beside the first byte and the whole."""
    chunks = [events(delta(content=word)) for word in "abc"] + [events(delta("stop"), done=True)]
    step = one("chat", chunks)
    assert (step.latency_ttft_ms, step.first_token_ms, step.last_token_ms) == (10.0, 10.0, 30.0)
    assert (step.itl_p50_ms, step.itl_max_ms, step.latency_total_ms) == (10.0, 10.0, 2000.0)


def test_the_first_token_may_be_of_the_reasoning() -> None:
    """A model that thinks first has answered with its first thought."""
    step = one(
        "chat", [events(delta(reasoning_content="hm")), events(delta(content="a")), events(delta("stop"))]
    )
    assert step.first_token_ms == 10.0


def test_a_failed_call_keeps_its_error_and_status() -> None:
    """An error is in the step by its category, and what was not reported stays unknown."""
    rollout = Rollout()
    rollout.call([user("go")], None)
    step = assemble_step_records(rollout.records)[0]
    assert (step.status_code, step.error_category, step.complete, step.tokens_out) == (
        500,
        "upstream_error",
        False,
        None,
    )


def test_what_a_handler_noted_is_in_the_step() -> None:
    """Annotations, events and the four execution fields are those of the record."""
    event = {"name": "search", "started_at": 1.0, "ended_at": 2.0, "call_id": "c1"}
    notes = {
        "upstream_attempted": True,
        "response_source": "local",
        "local_response_reason": "empty_assistant",
    }
    step = one("chat", events(delta("stop", content="a"), done=True), annotations=notes, events=[event])
    assert (step.events, step.annotations) == ([event], notes)
    assert (step.upstream_attempted, step.response_source, step.local_response_reason) == tuple(
        notes.values()
    )


def test_no_records_are_no_steps() -> None:
    """An empty rollout has no steps, and nothing raises."""
    assert assemble_step_records([]) == []


def test_the_way_to_a_step_is_one_thread() -> None:
    """From a step back to the first of its conversation, over branches, without attempts that were made again."""
    rollout = Rollout()
    base = [user("go"), model("", bash("c1")), tool("c1", "out")]
    rollout.call(base[:1], base[1])
    rollout.call(base, None)
    rollout.call(base, model("left"))
    rollout.call(base, model("right"))
    rollout.call([*base, model("right"), user("more")], model("end"))
    steps = assemble_step_records(rollout.records)
    assert [step.step_index for step in lineage_of(steps, 4)] == [0, 3, 4]
    assert [step.step_index for step in lineage_of(steps, 2)] == [0, 2]


def test_a_record_whose_bodies_are_of_no_known_shape_is_a_step_all_the_same() -> None:
    """Whatever members a request and a response have, and of whatever type, there is a step and no exception."""
    odd: list[Any] = [None, 3, "x", [], {}, [None, 3, "x", [[]], {"role": 3, "content": 7, "type": []}]]
    names = ("messages", "input", "system", "instructions", "tools", "previous_response_id", "conversation")
    records = [
        msgspec.structs.replace(
            stored(dialect, b"{}"),
            request=dict.fromkeys(names, value),
            response={"choices": value, "output": value, "content": value, "status": value},
            usage=Usage(),
        )
        for dialect in (*DIALECTS, "other")
        for value in odd
    ]
    assert len(assemble_step_records(records)) == len(records)
