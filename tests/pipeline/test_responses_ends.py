"""Responses streams whose terminal event says less, more or other than the documentation does."""

from typing import Any

import pytest

from tests.exchanges import events, named, record

Json = dict[str, Any]
STARTED: Json = {"id": "r", "object": "response", "model": "m", "status": "in_progress", "output": []}
CREATED = {"type": "response.created", "response": STARTED}
USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
MESSAGE: Json = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": "x"}]}


def ended(kind: str, **beside: object) -> Json:
    """Make a terminal event of which only this is said."""
    return {"type": f"response.{kind}", **beside}


def test_what_the_last_event_leaves_out_stays() -> None:
    """Model, id and usage that only earlier events told are kept; so is what the last event says on its own."""
    told = {"type": "response.in_progress", "response": {**STARTED, "usage": USAGE}}
    short = ended("completed", response={"id": None, "model": None, "usage": None, "output": [MESSAGE]})
    fields = record("responses", named(CREATED, told, short))
    assert fields["response"] == {**STARTED, "status": "completed", "output": [MESSAGE], "usage": USAGE}
    assert (fields["finish"], fields["complete"], fields["flags"]) == ("stop", True, [])
    beside = ended("completed", response={"output": [MESSAGE]}, usage=USAGE, vendor_usage={"cost": 1})
    fields = record("responses", named(CREATED, {**beside, "sequence_number": 9, "event_id": "e"}))
    assert fields["usage"]["total_tokens"] == 7
    assert fields["response"]["vendor_usage"] == {"cost": 1}
    assert not {"sequence_number", "event_id", "type"} & fields["response"].keys()


@pytest.mark.parametrize(
    ("kind", "finish", "category"),
    [
        ("completed", "stop", None),
        ("done", "stop", None),
        ("incomplete", "other", "incomplete"),
        ("cancelled", "cancelled", "cancelled"),
        ("failed", "error", "upstream_error"),
    ],
)
def test_an_end_without_a_status_is_what_its_type_says(kind: str, finish: str, category: str | None) -> None:
    """A terminal event whose response does not name its status ends as its type says, and never as a success."""
    fields = record("responses", named(CREATED, ended(kind, response={"id": "r", "output": [MESSAGE]})))
    assert (fields["finish"], fields["error_category"]) == (finish, category)


def test_a_failure_without_a_response_is_a_failure() -> None:
    """A terminal event that has no response fails the call all the same, and its error is told."""
    bare = record("responses", named(CREATED, ended("failed")))
    assert (bare["error_category"], bare["complete"], bare["response_id"]) == ("upstream_error", False, "r")
    told = record("responses", named(CREATED, ended("failed", error={"code": "rate_limit_exceeded"})))
    assert (told["error_category"], told["error"]["code"]) == ("rate_limit", "rate_limit_exceeded")
    assert told["response"]["error"] == {"code": "rate_limit_exceeded"}


def test_a_second_end_without_items_leaves_those_of_the_first() -> None:
    """An end that is repeated in short does not take the answer back."""
    first = ended("completed", response={**STARTED, "status": "completed", "output": [MESSAGE]})
    fields = record("responses", named(CREATED, first, ended("done", response={"id": "r"})))
    assert (fields["response"]["output"], fields["flags"]) == ([MESSAGE], ["after_terminal"])


def test_an_error_beside_a_response_is_an_error() -> None:
    """An error event is one whatever else it holds, and what stands beside the error is kept."""
    error = {"code": "server_error", "message": "x"}
    body = named(
        CREATED, {"type": "error", "error": error, "response": None, "request_id": "q", "status": 500}
    )
    fields = record("responses", body)
    assert (fields["error_category"], fields["error"]["code"]) == ("upstream_error", "server_error")
    assert (fields["response"]["error"], fields["response"]["request_id"]) == (error, "q")
    assert fields["response"]["status"] == "in_progress"


def test_a_response_that_is_one_event() -> None:
    """A server that writes its whole answer as one event, without a type, has answered."""
    whole = {**STARTED, "status": "completed", "output": [MESSAGE], "usage": USAGE, "error": None}
    fields = record("responses", events(whole, done=True))
    assert (fields["response"], fields["complete"], fields["flags"]) == (whole, True, [])
    failed = {**whole, "status": "failed", "error": {"code": "server_error", "message": "x"}}
    fields = record("responses", events(failed))
    assert (fields["response"], fields["error_category"]) == (failed, "upstream_error")
    pending = record("responses", events({**whole, "status": "queued"}))
    assert (pending["complete"], pending["finish"]) == (False, None)
