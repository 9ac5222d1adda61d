"""Messages whose first and last events say less, more or other than the documentation does."""

from typing import Any

import pytest

from tests.exchanges import events, named, record

Json = dict[str, Any]
USAGE = {"input_tokens": 25, "output_tokens": 1}
STARTED: Json = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "a",
    "content": [],
    "usage": USAGE,
}
START = {"type": "message_start", "message": STARTED}
STOP = {"type": "message_stop"}
SPOKEN: list[Json] = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
]


def finish(**delta: object) -> Json:
    """Make the event that says how the message ended."""
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn", **delta}}


@pytest.mark.parametrize(
    "last",
    [
        [{**finish(), "usage": {"output_tokens": 9}}, STOP],
        [finish(usage={"output_tokens": 9}), STOP],
        [finish(), {**STOP, "usage": {"output_tokens": 9, "input_tokens": None}}],
    ],
    ids=["beside the delta", "in the delta", "in the stop"],
)
def test_usage_wherever_the_last_events_report_it(last: list[Json]) -> None:
    """Counts of the end are merged into those of the start, and none of either is lost."""
    fields = record("messages", named(START, *SPOKEN, *last))
    assert fields["response"]["usage"] == {"input_tokens": 25, "output_tokens": 9}
    assert (fields["usage"]["input_tokens"], fields["usage"]["output_tokens"]) == (25, 9)
    assert (fields["complete"], fields["flags"]) == (True, [])


def test_the_model_that_took_over_is_the_one_that_served() -> None:
    """A block that tells of a fallback names the model of the message, with and without a start."""
    block = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}, "trigger": {"type": "refusal"}}
    opened = {"type": "content_block_start", "index": 1, "content_block": block}
    for first in ([START], []):
        fields = record("messages", named(*first, *SPOKEN, opened, finish(), STOP))
        assert (fields["model_served"], fields["response"]["model"]) == ("b", "b")
        assert fields["response"]["content"][1] == block
    odd = {**opened, "content_block": {"type": "fallback", "to": None}}
    assert record("messages", named(START, odd, STOP))["model_served"] == "a"


@pytest.mark.parametrize("whole", [None, "old"])
def test_a_compaction_comes_whole(whole: str | None) -> None:
    """A delta of a compaction says what its members are; nulls say nothing, and nothing is doubled."""
    block = {"type": "compaction", "content": whole, "encrypted_content": None}
    deltas = [{"content": "sum", "encrypted_content": None}, {"content": None, "encrypted_content": "E"}]
    body = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", **delta}}
            for delta in deltas
        ),
    ]
    for opening in (body, body[1:]):
        fields = record("messages", named(START, *opening, finish(stop_reason="compaction"), STOP))
        assert fields["response"]["content"] == [
            {"type": "compaction", "content": "sum", "encrypted_content": "E"}
        ]
        assert fields["finish"] == "compaction"


@pytest.mark.parametrize("reason", ["end_turn", "null", ""])
def test_a_start_does_not_say_how_it_ends(reason: str) -> None:
    """A stop reason that a server writes into the start is no end; nor is a word for none in a delta."""
    start = {**START, "message": {**STARTED, "stop_reason": reason}}
    cut = record("messages", named(start, *SPOKEN))
    assert (cut["complete"], cut["error_category"]) == (False, "stream_truncated")
    if reason != "end_turn":
        again = record("messages", named(START, *SPOKEN, finish(stop_reason=reason)))
        assert (again["complete"], again["finish"]) == (False, None)


def test_a_message_without_its_start_is_a_message() -> None:
    """What comes behind a missing start is put into a message of the usual form."""
    fields = record("messages", named(*SPOKEN, {**finish(), "usage": {"output_tokens": 9}}, STOP))
    assert fields["response"] == {
        "type": "message",
        "role": "assistant",
        "stop_reason": "end_turn",
        "usage": {"output_tokens": 9},
        "content": [{"type": "text", "text": "x"}],
    }


@pytest.mark.parametrize("before", [[], [START, *SPOKEN]])
def test_what_stands_beside_an_error_is_kept(before: list[Json]) -> None:
    """The id of the request that an error event names is in the response, beside the error."""
    event = {"type": "error", "error": {"type": "api_error", "message": "x"}, "request_id": "req_1"}
    fields = record("messages", named(*before, event))
    assert (fields["response"]["error"], fields["response"]["request_id"]) == (event["error"], "req_1")
    assert fields["response"].get("type") == ("message" if before else None)


def test_a_message_that_is_one_event() -> None:
    """A server that writes its whole answer as one event has answered; behind a stream it repeats nothing."""
    whole = {**STARTED, "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}
    for body in ([whole], [START, *SPOKEN, whole]):
        fields = record("messages", events(*body, done=True))
        assert (fields["response"], fields["finish"], fields["complete"]) == (whole, "stop", True)
        assert set(fields["flags"]) <= {"duplicate_start"}


def test_an_end_of_nothing_is_no_answer() -> None:
    """A stop event ends a message; where there was none, nothing was answered."""
    fields = record("messages", named({"type": "ping"}, STOP))
    assert (fields["response"], fields["complete"], fields["error_category"]) == (
        None,
        False,
        "stream_truncated",
    )
