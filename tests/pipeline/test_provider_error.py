import json
import re

import pytest

from pipeline.error_codes import PHRASES
from tests.answers import DIALECTS, OPENING, text, unstreamed
from tests.exchanges import events, record

Row = tuple[str | None, str]
"""The kind, and the category behind a status of 400."""

OVERFLOW: Row = ("context_length", "context_length_exceeded")
QUOTA: Row = ("quota", "client_error")
FILTER: Row = ("content_filter", "client_error")
OVERLOAD: Row = ("overload", "client_error")
NONE: Row = (None, "client_error")

ERRORS: dict[str, Row] = {
    '{"code":"context_length_exceeded","message":"x"}': OVERFLOW,
    '{"message":"This model\'s maximum context length is 8192 tokens. However, you requested 9000"}': OVERFLOW,
    '{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}': OVERFLOW,
    '{"message":"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}': OVERFLOW,
    '{"code":400,"type":"exceed_context_size_error","message":"x"}': OVERFLOW,
    '{"code":400,"message":"the request exceeds the available context size. try increasing it"}': OVERFLOW,
    '{"message":"This model\'s maximum prompt length is 131072 but the request contains 537812 tokens."}': OVERFLOW,
    '{"message":"Please reduce the length of the messages or completion."}': OVERFLOW,
    '{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"}': OVERFLOW,
    '{"message":"Input is too long for requested model.","code":"ValidationException"}': OVERFLOW,
    '{"message":"The input token count (1200000) exceeds the maximum number of tokens allowed"}': OVERFLOW,
    '{"message":"Invalid request: Your request exceeded model token limit: 8192"}': OVERFLOW,
    '{"message":"Range of input length should be [1, 30720]","code":"InvalidParameter"}': OVERFLOW,
    '{"object":"error","message":"The input exceeds the context window of this model","code":400}': OVERFLOW,
    '{"message":"max_tokens must be at least 1","code":400}': NONE,
    '{"message":"max_tokens is too large: 99999. This model supports at most 4096 tokens"}': NONE,
    '{"message":"maximum number of tools exceeded"}': NONE,
    '{"message":"temperature must be in the range of 0 to 2"}': NONE,
    '{"code":"insufficient_quota","message":"x"}': QUOTA,
    '{"type":"exceeded_current_quota_error","message":"x"}': QUOTA,
    '{"message":"You exceeded your current quota, please check your plan and billing details."}': QUOTA,
    '{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}': QUOTA,
    '{"message":"Insufficient Balance"}': QUOTA,
    '{"message":"This request requires more credits, or fewer max_tokens.","code":402}': QUOTA,
    '{"code":"content_filter","message":"x","innererror":{"code":"ResponsibleAIPolicyViolation"}}': FILTER,
    '{"code":"bad","innererror":{"code":"ResponsibleAIPolicyViolation"},"message":"x"}': FILTER,
    '{"message":"The response was filtered due to the prompt triggering the content management policy."}': FILTER,
    '{"code":"DataInspectionFailed","message":"Output data may contain inappropriate content."}': FILTER,
    '{"code":"invalid_prompt","message":"Your prompt was flagged as potentially violating our usage policy"}': FILTER,
    '{"type":"overloaded_error","message":"busy"}': OVERLOAD,
    '{"type":"engine_overloaded_error","message":"x"}': OVERLOAD,
    '{"status":"UNAVAILABLE","message":"x"}': OVERLOAD,
    '{"message":"The model is overloaded. Please try again later."}': OVERLOAD,
    '{"message":"Loading model","type":"unavailable_error"}': OVERLOAD,
    '{"message":"something else"}': NONE,
}

KIND_CATEGORIES = {
    "context_length": "context_length_exceeded",
    "quota": "rate_limit",
    "content_filter": "client_error",
    "overload": "upstream_error",
}


@pytest.mark.parametrize("error", ERRORS)
def test_kinds_are_told_apart(error: str) -> None:
    """S11: overflow, quota, filter and overload by code first, then by phrase; unknown stays unknown."""
    kind, category = ERRORS[error]
    for body in (error, f'{{"error":{error}}}', f'[{{"error":{error}}}]'):
        fields = unstreamed("chat", body.encode(), status_code=400)
        assert (fields["error_category"], fields["error"]["kind"]) == (category, kind)
        expected = {"overload": True, None: False}.get(kind, False)
        assert fields["error"]["retryable"] is expected


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_kinds_are_the_same_in_a_stream(dialect: str, error: str) -> None:
    """S11's siblings: an error in the middle of a 200 has its kind, and the category that the kind is of."""
    kind, _ = ERRORS[error]
    event = {"type": "error", "error": json.loads(error)}
    fields = record(dialect, events(*OPENING[dialect], text(dialect, "x"), event))
    assert fields["error"]["kind"] == kind
    if kind is not None and not str(fields["error"]["code"]).isdigit():
        assert fields["error_category"] == KIND_CATEGORIES[kind]


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("ThrottlingException", "rate_limit"),
        ("AccessDeniedException", "auth"),
        ("ModelTimeoutException", "timeout"),
        ("ResourceNotFoundException", "not_found"),
        ("UNAUTHENTICATED", "auth"),
        ("RESOURCE_EXHAUSTED", "rate_limit"),
        ("429", "rate_limit"),
        (503, "upstream_error"),
        ("BadRequestError", "client_error"),
        ("never heard of", "upstream_error"),
    ],
)
def test_codes_in_every_spelling(code: str | int, category: str) -> None:
    """Codes in camel case, capitals, digits and as names of exceptions lead to their category in a 200."""
    fields = unstreamed("chat", json.dumps({"error": {"code": code, "message": "x"}}).encode())
    assert fields["error_category"] == category


@pytest.mark.parametrize(("status", "kind"), [(402, "quota"), (529, "overload"), (503, None), (429, None)])
def test_kinds_that_a_status_alone_tells(status: int, kind: str | None) -> None:
    """Two statuses mean one thing whatever the body is."""
    assert record("chat", b"<html>", status_code=status)["error"]["kind"] == kind


def test_where_the_text_may_be() -> None:
    """The text of an error is found under the names that servers give it, also in a list of what is wrong."""
    for error in (
        '{"detail":"no"}',
        '{"detail":[{"msg":"no","loc":[]}]}',
        '{"error_msg":"no"}',
        '{"error":"no"}',
        '{"msg":"no"}',
    ):
        assert unstreamed("chat", error.encode(), status_code=422)["error"]["message"] == "no"


@pytest.mark.parametrize("kind", PHRASES)
def test_no_text_makes_phrases_slow(kind: str) -> None:
    """No repeat without a bound stands before another, where a hostile text would cost the square of its length."""
    assert re.search(r"[*+]\??\[", PHRASES[kind].pattern) is None
