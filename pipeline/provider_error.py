"""A provider's error, in any of the shapes that servers send, to its code, type, message and category.

The code decides first, then, only for context overflow, a table of phrases, then the type. Providers word overflow
differently, and texts that merely speak of `max_tokens` must not be taken for it.
"""

import re
from typing import Any, NamedTuple


class ProviderError(NamedTuple):
    """What a provider said of an error. `category` is null where neither code nor phrase is known."""

    code: str | int | None = None
    type: str | None = None
    message: str | None = None
    category: str | None = None


CODES: dict[str, str] = {
    "context_length_exceeded": "context_length_exceeded",
    "model_context_window_exceeded": "context_length_exceeded",
    "prompt_too_long": "context_length_exceeded",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "rate_limited": "rate_limit",
    "too_many_requests": "rate_limit",
    "insufficient_quota": "rate_limit",
    "tokens_limit_reached": "rate_limit",
    "resource_exhausted": "rate_limit",
    "authentication_error": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "permission_denied_error": "auth",
    "invalid_api_key": "auth",
    "unauthorized": "auth",
    "not_found_error": "not_found",
    "not_found": "not_found",
    "model_not_found": "not_found",
    "timeout_error": "timeout",
    "timeout": "timeout",
    "invalid_request_error": "client_error",
    "invalid_request": "client_error",
    "invalid_prompt": "client_error",
    "request_too_large": "client_error",
    "content_filter": "client_error",
    "content_policy_violation": "client_error",
    "billing_error": "client_error",
    "tool_use_failed": "client_error",
    "badrequesterror": "client_error",
    "overloaded_error": "upstream_error",
    "overloaded": "upstream_error",
    "api_error": "upstream_error",
    "server_error": "upstream_error",
    "internal_server_error": "upstream_error",
    "internal_error": "upstream_error",
}
"""A provider's code or type, in lower case, to a category."""

_OVERFLOW = re.compile(
    r"(maximum|max) (context|model) length|context (length|window|size)[^.]{0,40}(exceed|limit|full)"
    r"|exceed\w*[^.]{0,40}context (length|window|size)|prompt is too long|input is too long"
    r"|longer than the model'?s context|input token count[^.]{0,40}exceed",
    re.IGNORECASE,
)
"""Phrases for a prompt that does not fit, from the error texts of public APIs and servers."""

PERMANENT = frozenset({"insufficient_quota", "billing_error", "content_filter", "invalid_prompt"})
"""Codes that no retry cures, whatever their category."""


FIRST_ERROR_STATUS = 400
FIRST_SERVER_ERROR = 500
_STATUS_DIGITS = 3
_STATUSES = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit", 504: "timeout"}


def classify_status(status: int) -> str | None:
    """Return the category of an HTTP status; null below 400."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= FIRST_SERVER_ERROR:
        return "upstream_error"
    return "client_error" if status >= FIRST_ERROR_STATUS else None


def read_error(error: Any) -> ProviderError:  # noqa: ANN401 - whatever the provider put there
    """Read an error in any shape: text, an object, an object in an object, or a list of them."""
    if isinstance(error, list):
        error = error[0] if error else None
    if isinstance(error, dict) and isinstance(error.get("error"), (dict, str)):
        inner = error["error"]
        error = inner if isinstance(inner, dict) else {**error, "message": error.get("message") or inner}
    if not isinstance(error, dict):
        text = error if isinstance(error, str) else None
        return ProviderError(message=text, category=_by_phrase(text))
    code = next(
        (value for key in ("code", "status_code", "status") if _is_code(value := error.get(key))), None
    )
    kind = error.get("type") if isinstance(error.get("type"), str) else None
    message = next(
        (value for key in ("message", "detail", "msg") if isinstance(value := error.get(key), str)), None
    )
    return ProviderError(code, kind, message, _category(code, kind, message))


def _category(code: str | int | None, kind: str | None, message: str | None) -> str | None:
    """Let a telling code decide; one that only says "bad request" leaves the word to the text."""
    named = _by_name(code)
    if named not in {None, "client_error"}:
        return named
    return _by_phrase(message) or named or _by_name(kind)


def _is_code(value: Any) -> bool:  # noqa: ANN401 - whatever the provider put there
    return value.__class__ is int or (isinstance(value, str) and value != "")


def _by_name(name: str | int | None) -> str | None:
    if isinstance(name, int):
        return classify_status(name)
    if not name:
        return None
    return (
        classify_status(int(name))
        if name.isascii() and name.isdigit() and len(name) == _STATUS_DIGITS
        else CODES.get(name.lower())
    )


def _by_phrase(text: str | None) -> str | None:
    return "context_length_exceeded" if text and _OVERFLOW.search(text[:4000]) else None
