"""A provider's error, in any of the shapes that servers send, to its code, type, message, category and kind.

The code decides first, then the text by a table of phrases, then the type. Four kinds are told apart beyond the
category, because an agent reacts to each in its own way: the prompt does not fit, the quota is used up, the content
was refused, the server is overloaded. Providers word each differently, and texts that merely speak of `max_tokens` or
of a rate must not be taken for them: what no row knows stays unknown.
"""

import re
from typing import Any, NamedTuple

from pipeline.error_codes import CODES, KIND_CATEGORIES, KINDS, PHRASES, STATUS_KINDS


class ProviderError(NamedTuple):
    """What a provider said of an error. `category` and `kind` are null where neither code nor phrase is known."""

    code: str | int | None = None
    type: str | None = None
    message: str | None = None
    category: str | None = None
    kind: str | None = None


FIRST_ERROR_STATUS = 400
FIRST_SERVER_ERROR = 500
_STATUS_DIGITS = 3
_LONGEST_TEXT = 4000
_STATUSES = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit", 504: "timeout"}


def classify_status(status: int) -> str | None:
    """Return the category of an HTTP status; null below 400."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= FIRST_SERVER_ERROR:
        return "upstream_error"
    return "client_error" if status >= FIRST_ERROR_STATUS else None


def read_error(error: Any, status: int = 0) -> ProviderError:  # noqa: ANN401 - whatever the provider put there
    """Read an error in any shape: text, an object, an object in an object, or a list of them."""
    if isinstance(error, list):
        error = error[0] if error else None
    if isinstance(error, dict) and isinstance(error.get("error"), (dict, str)):
        inner = error["error"]
        error = inner if isinstance(inner, dict) else {**error, "message": error.get("message") or inner}
    if not isinstance(error, dict):
        text = error if isinstance(error, str) else None
        kind = _kind(text, (), status)
        return ProviderError(message=text, category=KIND_CATEGORIES.get(kind or ""), kind=kind)
    codes = [value for key in _CODES if _is_code(value := error.get(key))]
    code = codes[0] if codes else None
    name = error.get("type") if isinstance(error.get("type"), str) else None
    message = _message(error)
    kind = _kind(message, (*codes, name, _inner_code(error)), status)
    return ProviderError(code, name, message, _category(code, name, kind), kind)


_CODES = ("code", "status_code", "status", "error_code")


def _message(error: dict[str, Any]) -> str | None:
    for key in ("message", "detail", "msg", "error_msg", "error_message"):
        value = error.get(key)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = value[0].get("msg")
        if isinstance(value, str):
            return value
    return None


def _inner_code(error: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the provider put there
    inner = error.get("innererror")
    return inner.get("code") if isinstance(inner, dict) else None


def _category(code: str | int | None, name: str | None, kind: str | None) -> str | None:
    """Let a telling code decide; one that only says "bad request" leaves the word to the kind."""
    named = _by_name(code)
    if named not in {None, "client_error"}:
        return named
    return KIND_CATEGORIES.get(kind or "") or named or _by_name(name)


def _kind(text: str | None, names: tuple[Any, ...], status: int) -> str | None:
    """Tell the kind by the first code that is known, then by phrase, then by what the status alone says."""
    for name in names:
        if isinstance(name, str) and (kind := KINDS.get(_plain(name))):
            return kind
    shown = (text or "")[:_LONGEST_TEXT]
    by_phrase = next((kind for kind, phrase in PHRASES.items() if phrase.search(shown)), None)
    return by_phrase or STATUS_KINDS.get(status)


def _is_code(value: Any) -> bool:  # noqa: ANN401 - whatever the provider put there
    return value.__class__ is int or (isinstance(value, str) and value != "")


def _by_name(name: str | int | None) -> str | None:
    if isinstance(name, int):
        return classify_status(name)
    if not name:
        return None
    if name.isascii() and name.isdigit() and len(name) == _STATUS_DIGITS:
        return classify_status(int(name))
    plain = _plain(name)
    return CODES.get(plain) or KIND_CATEGORIES.get(KINDS.get(plain, ""))


def _plain(name: str) -> str:
    """Write a code as the tables do: in lower case, and words run together in camel case apart."""
    return _CAMEL.sub("_", name).lower().removesuffix("_exception")


_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
