"""Whole error bodies in the shapes of public APIs, gateways and open servers, each with what is read in it."""

import json
from typing import Any

import pytest

from pipeline.outcome import Facts, judge
from tests.answers import DIALECTS, OPENING, text, unstreamed
from tests.exchanges import JSON_BODY, events, exchange, record

Row = tuple[int, str, str | None, str | int | None, str | None, str | None]
"""Status, body, then what is expected: kind, code, type and the start of the message."""

BODIES: dict[str, Row] = {
    "an event's shape": (
        529,
        '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}',
        "overload",
        None,
        "overloaded_error",
        "Overloaded",
    ),
    "too many bytes are no long prompt": (
        413,
        '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
        None,
        None,
        "request_too_large",
        "Request exceeds",
    ),
    "a list of one": (
        429,
        '[{"error":{"code":429,"message":"Resource exhausted, try later","status":"RESOURCE_EXHAUSTED"}}]',
        None,
        429,
        None,
        "Resource exhausted",
    ),
    "a quota that says when to retry is a rate": (
        429,
        (
            '{"error":{"code":429,"message":"You exceeded your current quota, see the plan.\\n* Quota exceeded for'
            ' metric: requests, limit: 10\\nPlease retry in 34.07s.","status":"RESOURCE_EXHAUSTED"}}'
        ),
        None,
        429,
        None,
        "You exceeded",
    ),
    "code as a phrase, text as a string": (
        403,
        (
            '{"code":"Some resource has been exhausted","error":"Your team has either used all available credits or'
            ' reached its monthly spending limit."}'
        ),
        "quota",
        "Some resource has been exhausted",
        None,
        "Your team",
    ),
    "code with a hyphen": (
        200,
        '{"code":"permission-denied","error":"no"}',
        None,
        "permission-denied",
        None,
        "no",
    ),
    "an object as the text, with a list in it": (
        422,
        (
            '{"object":"error","message":{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]},'
            '"type":"invalid_request_error","code":null}'
        ),
        None,
        None,
        "invalid_request_error",
        "Field required",
    ),
    "a framework's list of what is wrong": (
        422,
        '{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required","input":{}}]}',
        None,
        None,
        "missing",
        "Field required",
    ),
    "a framework's detail that is an object": (
        429,
        '{"detail":{"error":{"message":"slow down","type":"rate_limit_error","code":"x"}}}',
        None,
        "x",
        "rate_limit_error",
        "slow down",
    ),
    "a list of errors beside success": (
        403,
        '{"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"result":null}',
        None,
        10000,
        None,
        "Authentication error",
    ),
    "the type beside the text": (
        429,
        '{"error":"Model is busy","error_type":"overloaded"}',
        "overload",
        None,
        "overloaded",
        "Model is busy",
    ),
    "the type as a qualified name": (
        400,
        '{"__type":"com.amazon.coral.service#ThrottlingException","message":"Too many tokens, please wait"}',
        None,
        None,
        "com.amazon.coral.service#ThrottlingException",
        "Too many tokens",
    ),
    "words in capitals": (403, '{"Message":"User is not authorized"}', None, None, None, "User is not"),
    "a problem document": (
        403,
        '{"type":"about:blank","title":"Forbidden","status":403,"detail":"Authorization failed"}',
        None,
        403,
        "about:blank",
        "Authorization failed",
    ),
    "a problem document with no more than its title": (
        400,
        '{"title":"One or more validation errors","status":400,"errors":{"messages":["required"]}}',
        None,
        400,
        None,
        "One or more",
    ),
    "a gateway's status in camel case": (
        429,
        '{"statusCode":429,"message":"Rate limit is exceeded. Try again in 3 seconds."}',
        None,
        429,
        None,
        "Rate limit",
    ),
    "a gateway's filter, told inside": (
        400,
        '{"error":{"code":"bad","message":"no","inner_error":{"code":"ResponsibleAIPolicyViolation"}}}',
        "content_filter",
        "bad",
        None,
        "no",
    ),
    "the error behind a gateway's, as JSON in a text": (
        400,
        json.dumps(
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {"raw": '{"error":{"message":"x","code":"context_length_exceeded"}}'},
                }
            }
        ),
        "context_length",
        400,
        None,
        "Provider returned error",
    ),
    "the error behind a gateway's, as text": (
        400,
        '{"error":{"message":"Provider returned error","metadata":{"raw":"prompt is too long: 9 tokens"}}}',
        "context_length",
        None,
        None,
        "Provider returned error",
    ),
    "only text": (404, '{"error":"model \'m\' not found"}', None, None, None, "model 'm' not found"),
    "a web page": (503, "<html><title>503</title></html>", None, None, None, "<html>"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_of_errors(name: str) -> None:
    """Kind, code, type and text are found wherever the body has them."""
    status, body, kind, code, kind_of_error, message = BODIES[name]
    error = unstreamed("chat", body.encode(), status_code=status)["error"]
    assert (error["kind"], error["code"], error["type"]) == (kind, code, kind_of_error)
    assert error["message"].startswith(message)
    if kind is None:
        assert error["retryable"] is (status in {429, 503})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_stands_beside_a_text_belongs_to_it_in_a_stream_too(dialect: str) -> None:
    """An error that is only text has the code and type beside it, first in a stream and in the middle."""
    told = {"error": "Model is busy", "error_type": "overloaded", "code": "x"}
    for before in ((), (*OPENING[dialect], text(dialect, "x"))):
        error = record(dialect, events(*before, told))["error"]
        assert (error["kind"], error["code"], error["type"]) == ("overload", "x", "overloaded")
        assert (error["message"], error["category"]) == ("Model is busy", "upstream_error")


KINDS: dict[str, str | None] = {
    "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.": "context_length",
    "Prompt exceeds max length": "context_length",
    "The sum of prompt length (5000), query length (0) should not exceed max_num_tokens (4096)": "context_length",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000": "context_length",
    "the number of input tokens 5000 cannot exceed the total tokens limit 4096": "context_length",
    "Trying to keep the first 5000 tokens when context the overflows.": "context_length",
    "gateway.ContextWindowExceededError: no": "context_length",
    "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576": "context_length",
    "Request body too large for some-4.1-mini model. Max size: 8000 tokens.": "context_length",
    "'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 10"
    " input tokens": "context_length",
    "Invalid 'tools[0].name': string too long. Expected a string with maximum length 64": None,
    "max_tokens (100000) exceeds the model's context length": None,
    "`max_completion_tokens` must not exceed the context window of 8192": None,
    "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens": None,
    "max_tokens must be <= 8192: the maximum value is less than the `context_window` for this model": None,
    "Too many tokens, please wait before trying again.": None,
    "This request would exceed the rate limit for your organization of 40,000 input tokens per minute": None,
    "Request too large on tokens per minute (TPM): Limit 6000, Requested 9000, reduce your message size": None,
    "You have reached your specified API usage limits. You will regain access on 2026-08-01": "quota",
    "Credit limit exceeded, please add credits": "quota",
    "Budget has been exceeded! Current cost: 1, max budget: 0.5": "quota",
    "You have reached your usage limit of 10 requests per minute": None,
    "Content Exists Risk": "content_filter",
    "server busy, please try again. maximum pending requests exceeded": "overload",
    "Service tier capacity exceeded for this model.": "overload",
}


@pytest.mark.parametrize("message", KINDS)
def test_phrases_of_one_kind_are_not_those_of_another(message: str) -> None:
    """S11: texts on lengths, limits and quotas are told apart; one that only sounds like a kind is none."""
    error = {"error": {"message": message, "type": "invalid_request_error"}}
    assert unstreamed("chat", json.dumps(error).encode(), status_code=400)["error"]["kind"] == KINDS[message]


CODES: dict[str, tuple[str | None, str]] = {
    "string_above_max_length": (None, "client_error"),
    "tokens_limit_reached": ("context_length", "context_length_exceeded"),
    "model_max_prompt_tokens_exceeded": ("context_length", "context_length_exceeded"),
    "usage_limit_reached": ("quota", "rate_limit"),
    "Arrearage": ("quota", "rate_limit"),
    "Throttling.RateQuota": (None, "rate_limit"),
    "too_many_requests_error": (None, "rate_limit"),
    "com.amazon.coral.service#AccessDeniedException": (None, "auth"),
}


@pytest.mark.parametrize("code", CODES)
def test_codes_with_and_without_a_kind(code: str) -> None:
    """A code in a 200 leads to its kind and category, also as one part of a longer name."""
    error = unstreamed("chat", json.dumps({"error": {"code": code, "message": "x"}}).encode())["error"]
    assert (error["kind"], error["category"]) == CODES[code]


def test_numbers_that_are_no_status_are_no_category() -> None:
    """A provider's own number says nothing; what the text says then counts."""
    body = b'{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"},"choices":null}'
    error = unstreamed("chat", body)["error"]
    assert (error["code"], error["kind"], error["category"], error["retryable"]) == (
        1008,
        "quota",
        "rate_limit",
        False,
    )


def test_holders_of_any_depth_never_raise() -> None:
    """Errors in errors, lists in lists and what stands behind them may be anything."""
    deep: Any = {"message": "x"}
    for name in ("error", "detail", "errors", "message", "metadata", "innererror") * 30:
        deep = {name: [deep]} if name == "errors" else {name: deep}
    raw = json.dumps({"metadata": {"raw": "\ud83d"}})
    shapes: tuple[Any, ...] = (
        deep,
        [deep],
        [[deep]],
        {"errors": ["x"]},
        {"metadata": {"raw": raw}},
        {"metadata": {"raw": []}},
    )
    for error in shapes:
        outcome = judge(Facts(exchange("chat", status_code=500), ended=True, body="json", error=error), {})
        assert outcome.error is not None
        assert outcome.error.category == "upstream_error"
    assert (
        record("chat", b'{"errors":["no"]}', status_code=400, response_headers=JSON_BODY)["error"]["message"]
        == "no"
    )
