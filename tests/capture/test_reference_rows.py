"""What readers that know NeMo Gym's calls look for in a step, on the shapes that make those readers stumble.

One exchange at a time, from its bytes to its step: the provider's own words for the end, arguments of every shape,
streams that hold no answer, a session that is named twice, and ids that two conversations share.
"""

import json
from typing import Any

import pytest

from capture import StepRecord, assemble_rollout, assemble_step_records
from capture.reading import StoredRecord, parse_line
from pipeline.exchange import Failure
from pipeline.process import encode, process
from tests.answers import DIALECTS, ENVELOPE, MESSAGE, stream, whole
from tests.capture.conversing import Rollout, bash, model, tool, user
from tests.exchanges import JSON_BODY, SERVER, delta, events, exchange

Json = dict[str, Any]


def stored(dialect: str, response: bytes, **changes: Any) -> StoredRecord:  # noqa: ANN401 - see exchange
    """Make the record of one exchange, as a reader gets it."""
    record = parse_line(encode(process(exchange(dialect, response, **changes), SERVER, {})))
    assert record is not None
    return record


def step_of(dialect: str, response: bytes, **changes: Any) -> StepRecord:  # noqa: ANN401 - see exchange
    """Make the step of one exchange."""
    (step,) = assemble_step_records([stored(dialect, response, **changes)])
    return step


def plain(dialect: str, **members: object) -> StepRecord:
    """Make the step of an unstreamed answer with these members."""
    body = {**json.loads(whole(dialect, "hi")), **members}
    return step_of(dialect, json.dumps(body).encode(), response_headers=JSON_BODY)


def called(arguments: object) -> StepRecord:
    """Make the step of a chat answer that calls one tool with these arguments."""
    function = {"name": "f", "arguments": arguments}
    message = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return plain("chat", choices=[choice])


INCOMPLETE: Json = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
ENDS = [
    ("chat", {}, ("stop", "stop", None)),
    (
        "chat",
        {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "length"}]},
        ("length", "length", None),
    ),
    ("messages", {}, ("end_turn", "stop", None)),
    ("messages", {"stop_reason": "max_tokens"}, ("max_tokens", "length", None)),
    ("messages", {"stop_reason": "tool_use"}, ("tool_use", "tool_calls", None)),
    ("responses", {}, ("completed", "stop", "completed")),
    ("responses", INCOMPLETE, ("max_output_tokens", "length", "incomplete")),
]


@pytest.mark.parametrize(("dialect", "members", "expected"), ENDS)
def test_a_step_has_the_providers_word_for_its_end_and_ours(
    dialect: str, members: Json, expected: tuple[str | None, ...]
) -> None:
    """`finish_reason` is verbatim, `finish` the same in every dialect, `response_status` of Responses only."""
    step = plain(dialect, **members)
    assert (step.finish_reason, step.finish, step.response_status) == expected


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ({"a": 1}, {"a": 1}),
        ('{"a": ', '{"a": '),
        ("plain words", "plain words"),
    ],
)
def test_arguments_are_parsed_or_stay_the_text_they_are(arguments: object, parsed: object) -> None:
    """JSON of any type is parsed; what is none is neither lost nor wrapped."""
    calls = called(arguments).tool_calls
    assert calls is not None
    (call,) = calls
    assert (call.call_id, call.name, call.arguments) == ("c1", "f", parsed)


NO_ANSWER = {
    "nothing": b"",
    "keep-alives only": b': keep-alive\n\nevent: ping\ndata: {"type": "ping"}\n\n',
    "no JSON": b"data: hello\n\n",
    "no object": b"data: [1]\n\n",
    "half an object": b'data: {"id": \n\n',
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", NO_ANSWER)
def test_a_stream_without_an_answer_is_a_failed_step_with_unknown_counts(dialect: str, name: str) -> None:
    """A 200 that streams nothing of use is no success with null tokens: it has a category, and keeps odd bytes."""
    record = stored(dialect, NO_ANSWER[name])
    (step,) = assemble_step_records([record])
    assert (record.response, step.complete, step.status_code) == (None, False, 200)
    assert step.error_category in {"stream_truncated", "capture_parse_error"}
    assert (step.tokens_in, step.tokens_out, step.tool_calls, step.reasoning_content) == (None,) * 4
    if b"data: " in NO_ANSWER[name] and "keep" not in name:
        assert record.response_raw == NO_ANSWER[name].decode()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_empty_body_has_no_first_byte(dialect: str) -> None:
    """Time to the first byte is null where none was sent, and that of the one body where it was not streamed."""
    silent = step_of(dialect, b"", response_times_ns=(), response_chunks=())
    assert (silent.latency_ttft_ms, plain(dialect).latency_ttft_ms) == (None, 10.0)
    assert silent.latency_total_ms == 2000.0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_nested_report_of_any_shape_costs_only_itself(dialect: str) -> None:
    """Members that should be lists or objects may be anything; model, id and end are still those of the answer."""
    odd = [7, "x", None, [], [None, 3, "x", {}]]
    member = {"chat": "choices", "responses": "output", "messages": "content"}[dialect]
    for value in odd:
        step = plain(dialect, **{member: value, "model": "m", "id": "c9", "usage": {"prompt_tokens": "3"}})
        assert (step.model, step.response_id, step.tokens_in, step.tool_calls) == ("m", "c9", None, None)


SESSIONS: list[tuple[list[tuple[bytes, bytes]], str | None]] = [
    ([], None),
    ([(b"x-session-id", b"")], None),
    ([(b"X-Session-Id", b" s1 ")], "s1"),
    ([(b"x-session-id", b"s1"), (b"x-session-id", b"s1"), (b"x-session-id", b"")], "s1"),
    ([(b"x-session-id", b"s1"), (b"x-session-id", b"s2"), (b"session-id", b"s3")], None),
    ([(b"session-id", b"s2"), (b"x-session-id", b"s1")], "s1"),
    ([(b"session-id", b"s2"), (b"x-session-id", b"")], "s2"),
]


@pytest.mark.parametrize(("headers", "session"), SESSIONS)
def test_a_session_is_told_only_where_the_client_names_one(
    headers: list[tuple[bytes, bytes]], session: str | None
) -> None:
    """Of several headers the first listed counts; an empty one names nothing, and two values in one name none."""
    step = step_of("chat", stream("chat", "x"), request_headers=tuple(headers))
    assert step.client_session_id == session


def test_an_exception_that_carries_a_status_keeps_it() -> None:
    """Nothing crossed the edge, so there is no status; the one of a provider's client is the error's code."""
    failure = Failure("client.RateLimitError", "Error code: 429 - slow down", "app", 429)
    changes: Json = {"status_code": None, "response_headers": (), "response_complete": False}
    record = stored("chat", b"", failure=failure, **changes)
    assert record.error is not None
    assert (record.error.code, record.error.message) == (429, failure.message)
    (step,) = assemble_step_records([record])
    assert (step.status_code, step.error_category, step.complete) == (None, "rate_limit", False)


def test_the_model_is_the_one_that_answered_else_the_one_asked_for() -> None:
    """A gateway that serves another model than asked is told apart from one that does not say."""
    asked = (b'{"model": "asked"}',)
    served = events({**delta("stop", content="x"), "model": "served"}, done=True)
    silent = events({k: v for k, v in delta("stop", content="x").items() if k != "model"}, done=True)
    assert step_of("chat", served, request_chunks=asked).model == "served"
    assert step_of("chat", silent, request_chunks=asked).model == "asked"


def test_tool_call_ids_that_two_conversations_share_do_not_mix_their_timings() -> None:
    """Servers that number tool calls anew in each answer: an event stays with the conversation it was noted in."""
    rollout = Rollout()
    event = {"name": "bash", "started_at": 1.0, "ended_at": 2.0, "call_id": "c1"}
    for words in ("look at the left side", "look at the right side"):
        rollout.call([user(words)], model("", bash("c1")))
        rollout.call([user(words), model("", bash("c1")), tool("c1", "out")], model("done"))
    records = list(rollout.records)
    records[1] = changed(records[1], events=[event])
    found = assemble_rollout(records)
    at = [(item.type, item.step_index) for item in found.items if item.events]
    assert at == [("function_call_output", 1)]
    assert [step.branch for step in found.steps] == [0, 0, 1, 1]


def test_a_response_that_is_not_in_the_rollout_is_no_ones_parent() -> None:
    """A request that names an unknown response is given to no call that happens to look alike."""
    rollout = Rollout("responses")
    rollout.call([user("one")], model("first"))
    rollout.call([user("one"), model("first"), user("two")], model("x"), previous_response_id="resp-77")
    step = assemble_step_records(rollout.records)[1]
    assert (step.relation, step.parent_step, step.turn_index) == ("unknown", None, None)


@pytest.mark.parametrize(("names", "relation"), [(("r1", "r1"), "unknown"), (("r1", "r2"), "continues")])
def test_a_response_id_that_two_answers_share_is_not_guessed_at(
    names: tuple[str, str], relation: str
) -> None:
    """Where a server gives all responses one id, a call that names it goes on from none, rather than from any."""
    rollout = Rollout("responses")
    records = [
        changed(rollout.call([user(word)], model(word)), response_id=name)
        for word, name in zip(("left", "right"), names, strict=True)
    ]
    records.append(rollout.call([user("and then")], model("end"), previous_response_id="r1"))
    step = assemble_step_records(records)[2]
    assert (step.relation, step.parent_step) == (relation, 0 if relation == "continues" else None)


def test_the_envelope_of_a_cut_stream_still_names_model_and_response() -> None:
    """Of a stream that stopped behind its first event, id and model are known and nothing else is claimed."""
    for dialect, first, name in (
        ("responses", {"type": "response.created", "response": ENVELOPE}, "r1"),
        ("messages", {"type": "message_start", "message": MESSAGE}, "m1"),
    ):
        step = step_of(dialect, events(first))
        assert (step.response_id, step.model) == (name, "m")
        assert (step.error_category, step.complete, step.finish) == ("stream_truncated", False, None)


def changed(record: StoredRecord, **members: object) -> StoredRecord:
    """Return the record with other members."""
    again = parse_line(json.dumps({**json.loads(encode(record)), **members}).encode())
    assert again is not None
    return again
