from typing import Any

import pytest

from pipeline.exchange import Failure
from pipeline.outcome import RULES, Facts, judge
from tests.exchanges import JSON_BODY, delta, events, exchange, record

PART = events(delta(content="a"))
WHOLE = events(delta("stop", content="a"), done=True)
ABORTED = events(delta("abort", content="a"), done=True)
OBJECT = b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}'
ERROR = b'{"error":{"message":"no","code":"model_not_found","type":"t"}}'
LEFT = {"disconnect_ns": 5, "response_complete": False}
APP = {"failure": Failure("builtins.ValueError", "bad", "app"), "response_complete": False}
SEND = {"failure": Failure("builtins.OSError", "gone", "send"), "response_complete": False}
CANCELLED = {"failure": Failure("asyncio.CancelledError", "", "cancelled"), "response_complete": False}
JSON = {"response_headers": JSON_BODY}
BARE: dict[str, Any] = {"status_code": None, "response_headers": (), "response_complete": False}

Row = tuple[bytes, dict[str, Any], str | None, bool, str, str | None]
"""Body, changes to the exchange, then what is expected: category, complete, delivery, source of the error."""

ROWS: dict[str, Row] = {
    "stream, ended": (WHOLE, {}, None, True, "sent", None),
    "stream, ended, client left behind the end": (WHOLE, LEFT, None, True, "client_gone", None),
    "stream, ended, application failed behind the end": (WHOLE, APP, None, True, "failed", None),
    "stream, ended, nobody listened": (WHOLE, {"listened": False}, None, True, "unknown", None),
    "stream, client left": (PART, LEFT, "cancelled", False, "client_gone", "client"),
    "stream, client left, task cancelled": (
        PART,
        {**CANCELLED, **LEFT},
        "cancelled",
        False,
        "client_gone",
        "client",
    ),
    "client left while it asked, answered by nobody's 500": (
        b"Internal Server Error",
        {**LEFT, "request_read_ns": None, "status_code": 500},
        "cancelled",
        False,
        "client_gone",
        "client",
    ),
    "stream, client left, told of it by the framework's own exception": (
        PART,
        {**LEFT, "failure": Failure("starlette.requests.ClientDisconnect", "", "app")},
        "cancelled",
        False,
        "client_gone",
        "client",
    ),
    "stream, client left, and the application failed of its own": (
        PART,
        {**APP, **LEFT},
        "exception",
        False,
        "client_gone",
        "app",
    ),
    "stream, send failed": (PART, SEND, "cancelled", False, "client_gone", "client"),
    "stream, application failed": (PART, APP, "exception", False, "failed", "app"),
    "stream, task cancelled": (PART, CANCELLED, "cancelled", False, "failed", "app"),
    "stream, just stops": (PART, {}, "stream_truncated", False, "sent", "stream"),
    "body, whole": (OBJECT, JSON, None, True, "sent", None),
    "body, whole, client left": (OBJECT, {**JSON, **LEFT}, None, True, "client_gone", None),
    "body, half, client left": (OBJECT[:9], {**JSON, **LEFT}, "cancelled", False, "client_gone", "client"),
    "body, half": (OBJECT[:9], JSON, "capture_parse_error", False, "sent", "capture"),
    "body, an error in a 200": (ERROR, JSON, "not_found", False, "sent", "provider"),
    "body, an error with a status": (
        ERROR,
        {**JSON, "status_code": 500},
        "upstream_error",
        False,
        "sent",
        "provider",
    ),
    "web page in a 200": (b"<html>", JSON, "capture_parse_error", False, "sent", "capture"),
    "web page in a 502": (
        b"<html>",
        {**JSON, "status_code": 502},
        "upstream_error",
        False,
        "sent",
        "provider",
    ),
    "empty 200": (b"", JSON, "capture_parse_error", False, "sent", "capture"),
    "204": (b"", {"status_code": 204, "response_headers": ()}, None, False, "sent", None),
    "HEAD": (b"", {"method": "HEAD", "response_headers": ()}, None, False, "sent", None),
    "HEAD of a stream": (b"", {"method": "HEAD"}, None, False, "sent", None),
    "redirect": (b"", {"status_code": 307, "response_headers": ()}, None, False, "sent", None),
    "answered locally, since the prompt did not fit": (
        OBJECT,
        {**JSON, "annotations": {"local_response_reason": "context_length_exceeded"}},
        "context_length_exceeded",
        False,
        "sent",
        "app",
    ),
    "body that says nothing in a 200": (b"{}", JSON, "upstream_error", False, "sent", "provider"),
    "stream, broken off by the provider": (ABORTED, {}, "cancelled", False, "sent", "provider"),
    "stream, broken off since the client left": (ABORTED, LEFT, "cancelled", False, "client_gone", "client"),
    "body, broken off by the provider": (
        OBJECT.replace(b"stop", b"abort"),
        JSON,
        "cancelled",
        False,
        "sent",
        "provider",
    ),
    "no response": (b"", BARE, "exception", False, "failed", "app"),
    "no response, client left": (b"", {**BARE, **LEFT}, "cancelled", False, "client_gone", "client"),
    "no response, application failed": (b"", {**BARE, **APP}, "exception", False, "failed", "app"),
    "response cut by capture": (
        PART,
        {"response_sha256": b"x"},
        "capture_parse_error",
        False,
        "sent",
        "capture",
    ),
    "429 for a stream": (b'{"detail":"slow"}', {"status_code": 429}, "rate_limit", False, "sent", "provider"),
}


@pytest.mark.parametrize("name", ROWS)
def test_how_exchanges_end(name: str) -> None:
    """Category, completeness, delivery and source of every way an exchange can end."""
    body, changes, category, complete, delivery, source = ROWS[name]
    fields = record("chat", body, **changes)
    assert (fields["error_category"], fields["complete"], fields["delivery"]) == (
        category,
        complete,
        delivery,
    )
    assert (fields["error"] or {}).get("source") == source
    assert fields["status_code"] == changes.get("status_code", 200)
    if body in (PART, WHOLE, ABORTED):
        assert fields["response"]["choices"][0]["message"]["content"] == "a"


def test_every_rule_is_reached() -> None:
    """Each row of the table decides for some exchange of this file, so none is dead."""
    reached = set()
    for body, changes, *_ in ROWS.values():
        raw = exchange("chat", body, **changes)
        kind = (
            "events"
            if body in (PART, WHOLE, ABORTED)
            else "json"
            if body.startswith(b"{")
            else "none"
            if not body
            else "unreadable"
        )
        ended = body in (WHOLE, ABORTED, OBJECT, ERROR)
        cut = raw.response_sha256 is not None
        facts = Facts(raw, ended, kind, error=body == ERROR, aborted=body == ABORTED, cut=cut)
        reached.add(next(rule for rule, row in RULES.items() if row.holds(facts)))
    assert reached == set(RULES)


STATUSES = {
    400: "client_error",
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    413: "client_error",
    422: "client_error",
    429: "rate_limit",
    500: "upstream_error",
    503: "upstream_error",
    504: "timeout",
    529: "upstream_error",
}


@pytest.mark.parametrize("status", STATUSES)
def test_statuses(status: int) -> None:
    """Each HTTP status has its category, whatever the body is."""
    for body in (b"", b"<html>", ERROR, b'[{"error":{"code":1}}]', b'"no"'):
        fields = record("chat", body, status_code=status, response_headers=JSON_BODY)
        assert (fields["error_category"], fields["complete"]) == (STATUSES[status], False)


EXCEPTIONS = {
    "asyncio.TimeoutError": "timeout",
    "httpx.ReadTimeout": "timeout",
    "builtins.ConnectionResetError": "connection",
    "aiohttp.ClientConnectorError": "connection",
    "connections.Odd": "exception",
    "builtins.ValueError": "exception",
}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions(name: str) -> None:
    """An exception's class name tells timeouts and connections; its own status decides before that."""
    fields = record("chat", b"", **{**BARE, "failure": Failure(name, "text", "app")})
    assert (fields["error_category"], fields["error"]["type"]) == (EXCEPTIONS[name], name)
    fields = record("chat", b"", **{**BARE, "failure": Failure(name, "text", "app", 429)})
    assert (fields["error_category"], fields["status_code"]) == ("rate_limit", None)


CARRIED: dict[tuple[int | None, bytes], tuple[str, str | None, bool | None]] = {
    (400, b'{"error":{"code":"context_length_exceeded"}}'): (
        "context_length_exceeded",
        "context_length",
        False,
    ),
    (None, b"prompt is too long: 9 tokens > 8 maximum"): ("context_length_exceeded", "context_length", False),
    (500, b'{"error":{"code":"rate_limit_exceeded"}}'): ("upstream_error", None, True),
    (None, b'{"error":{"code":"rate_limit_exceeded"}}'): ("rate_limit", None, True),
    (None, b'{"error":{"type":"overloaded_error"}}'): ("upstream_error", "overload", True),
    (None, b'{"error":{"code":"never heard of"}}'): ("exception", None, None),
}
"""Status and body that an exception carried, to category, kind and whether to try again."""


@pytest.mark.parametrize("carried", CARRIED)
@pytest.mark.parametrize("body", [b"", PART])
def test_errors_inside_exceptions_end_as_those_that_were_sent(
    carried: tuple[int | None, bytes], body: bytes
) -> None:
    """An upstream's error that the application raised has the category that it would have had on the wire."""
    status, said = carried
    failure = Failure("client.Error", "text", "app", status, said)
    error = record("chat", body, **{**BARE, "status_code": 200 if body else None, "failure": failure})[
        "error"
    ]
    assert (error["category"], error["kind"], error["retryable"]) == CARRIED[carried]
    assert error["source"] == "app"


@pytest.mark.parametrize(
    ("headers", "wait", "retryable"),
    [
        ({}, None, True),
        ({"retry-after": "7"}, 7.0, True),
        ({"retry-after": "7", "retry-after-ms": "1500"}, 1.5, True),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None, True),
        ({"retry-after": "nan", "x-should-retry": "false"}, None, False),
        ({"retry-after": "-1"}, None, True),
    ],
)
def test_when_to_come_back(headers: dict[str, str], wait: float | None, *, retryable: bool) -> None:
    """Seconds and milliseconds are read, a date is unknown, and the server's own word on retrying wins."""
    pairs = tuple((name.encode(), value.encode()) for name, value in headers.items())
    error = record("chat", ERROR, status_code=429, response_headers=pairs)["error"]
    assert (error["retry_after_s"], error["retryable"]) == (wait, retryable)


@pytest.mark.parametrize(
    "error", ["text", 7, [], [[]], {}, {"error": []}, {"code": {}, "type": 7, "message": []}, None]
)
def test_errors_of_any_shape_never_raise(error: object) -> None:
    """An error may be anything; the status still gives the category."""
    outcome = judge(Facts(exchange("chat", status_code=500), ended=True, body="json", error=error), {})
    assert outcome.error is not None
    assert outcome.error.category == "upstream_error"
