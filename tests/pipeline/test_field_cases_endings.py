import json
from typing import Any

import pytest

from tests.answers import (
    CLOSING,
    DIALECTS,
    ENVELOPE,
    OPENING,
    WRITE,
    Json,
    odd,
    said,
    stream,
    text,
    unstreamed,
    whole,
)
from tests.exchanges import EVENT_STREAM, JSON_BODY, delta, events, record

OVERLOADED = {"type": "overloaded_error", "message": "busy"}
AS_EVENT: dict[str, Json] = {
    "chat": {"error": OVERLOADED},
    "responses": {"type": "error", "error": OVERLOADED},
    "messages": {"type": "error", "error": OVERLOADED},
}


def ended(fields: Json) -> tuple[Any, Any]:
    """Return how a record says that its call ended."""
    return fields["error_category"], fields["complete"]


@pytest.mark.parametrize("name", [b"", b"event: error\n"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_overloaded_server_in_a_200(dialect: str, name: bytes) -> None:
    """Case 20: an error event is no success, first or late, named or not; what came before it is kept."""
    error = name + events(AS_EVENT[dialect])
    for begun in ([], OPENING[dialect], [*OPENING[dialect], text(dialect, "Hel")]):
        fields = record(dialect, events(*begun) + error)
        assert (ended(fields), fields["status_code"]) == (("upstream_error", False), 200)
        problem = fields["error"]
        assert (problem["kind"], problem["retryable"], problem["source"]) == ("overload", True, "provider")
        assert fields["response"]["error"] == OVERLOADED
        assert len(begun) <= len(OPENING[dialect]) or said(fields) == "Hel"
    fields = unstreamed(dialect, events(AS_EVENT[dialect])[6:-2])
    assert (ended(fields), fields["error"]["kind"]) == (("upstream_error", False), "overload")


LOST = {"code": 502, "message": "lost", "metadata": {"error_type": "provider_unavailable"}}
INSIDE: dict[str, list[Json]] = {
    "chat, beside choices": [{**delta("error", content=""), "error": LOST}],
    "chat, beside none": [{"id": "c1", "choices": [], "error": LOST}],
    "chat, in the choice": [
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": LOST}]},
    ],
    "responses": [
        {"type": "response.failed", "response": {**ENVELOPE, "status": "failed", "error": LOST}},
    ],
    "messages": [{"type": "message_delta", "delta": {"stop_reason": "error"}, "error": LOST}],
}


@pytest.mark.parametrize("name", INSIDE)
def test_an_error_inside_a_regular_event(name: str) -> None:
    """Case 22: it is an error with its integer code whatever follows; reasons stay verbatim."""
    dialect = name.partition(",")[0]
    zero = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    behind = [zero] if dialect == "chat" else []
    for begun in ([], [*OPENING[dialect], text(dialect, "Hel")]):
        fields = record(dialect, WRITE[dialect](*begun, *INSIDE[name], *behind))
        assert (ended(fields), fields["status_code"]) == (("upstream_error", False), 200)
        assert (fields["error"]["code"], fields["error"]["message"]) == (502, "lost")
        assert "error" not in name or fields["finish_reason"] == "error"
    if dialect == "chat":
        choice = {"index": 0, "message": {"content": ""}, "finish_reason": "error", "error": LOST}
        assert unstreamed("chat", events({"choices": [choice]})[6:-2])["error"]["code"] == 502


@pytest.mark.parametrize("told", [{"error": {"code": 502, "message": "lost"}}, {}])
def test_an_error_in_another_choice(told: dict[str, Any]) -> None:
    """22's sibling: with several choices one that failed is an error, whichever it is."""
    failed = {"id": "c1", "choices": [{"index": 1, "delta": {}, "finish_reason": "error", **told}]}
    fields = record("chat", events(delta("stop", content="a"), failed, done=True))
    assert (fields["error_category"], fields["complete"]) == ("upstream_error", False)
    assert fields["error"]["code"] == (502 if told else None)
    assert fields["finish"] == "stop"


def test_what_is_a_finished_chat() -> None:
    """Case 23 (a) to (e): an end mark or a reason makes it complete, the missing one is told; neither is a cut."""
    begun = events(*OPENING["chat"], text("chat", "x"))
    rows = [
        (begun, "stream_truncated", set()),
        (begun + events(delta("stop")), None, {"no_done"}),
        (begun + events(done=True), None, {"no_finish_reason"}),
        (events(delta("", content="x"), done=True), None, {"no_finish_reason"}),
        (events(delta("null", content="x"), done=True), None, {"no_finish_reason"}),
        (b"", "stream_truncated", set()),
    ]
    for body, category, flags in rows:
        fields = record("chat", body, response_headers=EVENT_STREAM)
        assert (ended(fields), set(fields["flags"])) == ((category, category is None), flags)


@pytest.mark.parametrize("dialect", ["responses", "messages"])
def test_what_is_a_finished_answer_elsewhere(dialect: str) -> None:
    """Case 23's siblings: without the terminal event it is a cut, even with `[DONE]`; a stop reason is enough."""
    begun = [*OPENING[dialect], text(dialect, "x")]
    for body in (events(*begun), events(*begun, done=True), b""):
        assert ended(record(dialect, body)) == ("stream_truncated", False)
    if dialect == "messages":
        fields = record("messages", events(*begun, *CLOSING["messages"][:-1]))
        assert (ended(fields), fields["flags"]) == ((None, True), ["no_stop_event"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_events_behind_the_end(dialect: str) -> None:
    """Case 23's other side: what comes behind the end is read and told."""
    late: dict[str, Json] = {
        "chat": {"choices": [], "usage": {"prompt_tokens": 3}},
        "responses": {"type": "response.in_progress", "response": ENVELOPE},
        "messages": {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 3}},
    }
    fields = record(dialect, stream(dialect, "x") + events(late[dialect]))
    assert (ended(fields), odd(fields), said(fields)) == ((None, True), {"after_terminal"}, "x")
    assert dialect == "responses" or fields["usage"]["input_tokens"] == 3


def lifecycle(how: str, **more: object) -> Json:
    """Make an event about the whole response."""
    return {"type": f"response.{how}", "response": {**ENVELOPE, "status": how, **more}}


USAGE = {"input_tokens": 8, "output_tokens": 64}
CREATED = lifecycle("created", status="in_progress")
FAILED = {"code": "rate_limit_exceeded", "message": "x"}
RESPONSES: dict[str, tuple[list[Json], tuple[Any, bool], Any, set[str]]] = {
    "(a)": (
        [lifecycle("incomplete", incomplete_details={"reason": "max_output_tokens"}, usage=USAGE)],
        ("incomplete", True),
        None,
        set(),
    ),
    "(b)": (
        [lifecycle("failed", error=FAILED, usage=None)],
        ("rate_limit", False),
        "rate_limit_exceeded",
        set(),
    ),
    "(c)": (
        [{"type": "error", "code": "server_error", "message": "x", "param": None, "sequence_number": 9}],
        ("upstream_error", False),
        "server_error",
        set(),
    ),
    "(d)": (
        [{"type": "error", "error": {"type": "server_error", "message": "x"}}],
        ("upstream_error", False),
        None,
        set(),
    ),
    "(e)": (
        [
            {**lifecycle("in_progress"), "sequence_number": 2},
            {**lifecycle("completed"), "sequence_number": 5},
        ],
        (None, True),
        None,
        {"sequence_gap"},
    ),
    "(f)": ([lifecycle("completed")], (None, True), None, set()),
    "(g)": ([lifecycle("queued"), lifecycle("in_progress")], ("stream_truncated", False), None, set()),
    "done": (
        [{"type": "response.done", "response": {**ENVELOPE, "status": "completed"}}],
        (None, True),
        None,
        set(),
    ),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_how_responses_end(name: str) -> None:
    """Case 24: each end of a Responses stream has its category and code, and keeps id and usage."""
    made, expected, code, flags = RESPONSES[name]
    fields = record("responses", events(CREATED, *made))
    assert (ended(fields), odd(fields), fields["response_id"]) == (expected, flags, "r1")
    assert code is None or fields["error"]["code"] == code
    if name == "(a)":
        assert (fields["finish"], fields["usage"]["output_tokens"]) == ("length", 64)


PAGE = b"<html>gateway</html>"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_200_that_is_something_else(dialect: str) -> None:
    """Case 26: errors, pages and nothing in a 200, and streams and objects in each other's place, are told apart."""
    limited = b'{"error":{"message":"no","code":429}}'
    assert ended(unstreamed(dialect, limited)) == ("rate_limit", False)
    html = ((b"content-type", b"text/html"),)
    for body, headers in ((PAGE, html), (b"", html), (b"", JSON_BODY)):
        fields = record(dialect, body, response_headers=headers)
        assert (ended(fields), fields["response"]) == (("capture_parse_error", False), None)
        assert fields["response_raw"] == (body.decode() or None)
    for wished in (b'{"stream":true}', b'{"stream":false}'):
        asked = {"request_chunks": (wished,)}
        streamed = record(dialect, stream(dialect, "x"), response_headers=(), **asked)
        plain = record(dialect, whole(dialect, "x"), response_headers=JSON_BODY, **asked)
        assert [(said(one), ended(one), one["stream"]) for one in (streamed, plain)] == [
            ("x", (None, True), True),
            ("x", (None, True), False),
        ]
        refused = record(dialect, limited, status_code=429, response_headers=JSON_BODY, **asked)
        assert (ended(refused), refused["status_code"]) == (("rate_limit", False), 429)
    empty = record(dialect, b"", status_code=204, response_headers=())
    assert (ended(empty), empty["response"]) == ((None, False), None)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_refusal_that_is_written_as_a_stream(dialect: str) -> None:
    """Case 26 (h)'s sibling: an error status with its object inside an event keeps code and text."""
    for said_so in ({"error": {"message": "no", "code": "x"}}, {"detail": "no"}, {"message": "no"}):
        begun = [*OPENING[dialect], text(dialect, "x")]
        assert ended(record(dialect, events(*begun, said_so))) == ("upstream_error", False)
        fields = record(dialect, events(said_so), status_code=429)
        assert (ended(fields), fields["error"]["source"]) == (("rate_limit", False), "provider")
        assert fields["error"]["message"] == "no"


OWN_WAYS = {
    '{"object":"error","message":"no","type":"NotFoundError","code":404}': ("not_found", 404),
    '{"type":"error","error":{"type":"not_found_error","message":"no"}}': ("not_found", None),
    '{"code":401,"msg":"bad key"}': ("auth", 401),
    '{"detail":"no"}': ("upstream_error", None),
    '{"base_resp":{"status_code":1004,"status_msg":"no"},"choices":null}': ("upstream_error", 1004),
    '{"error":"no"}': ("upstream_error", None),
}


@pytest.mark.parametrize("body", OWN_WAYS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_200_whose_object_is_no_answer(dialect: str, body: str) -> None:
    """Case 26 (a)'s kind: whatever way a server has to say that it failed, the record is no success."""
    category, code = OWN_WAYS[body]
    fields = unstreamed(dialect, body.encode())
    assert (ended(fields), fields["error"]["code"]) == ((category, False), code)
    assert fields["response"] == json.loads(body)
    assert fields["error"]["source"] == "provider"
