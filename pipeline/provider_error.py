"""A provider's error, in any of the shapes that servers send, to its code, type, message, category and kind.

The code decides first, then the text by a table of phrases, then the type. Four kinds are told apart beyond the
category, because an agent reacts to each in its own way: the prompt does not fit, the quota is used up, the content
was refused, the server is overloaded. Providers word each differently, and texts that merely speak of `max_tokens` or
of a rate must not be taken for them: what no row knows stays unknown.
"""

import re
from typing import Any, NamedTuple

from pipeline.bodies import BodyError, decode
from pipeline.dialects.base import as_text, follow
from pipeline.error_codes import CODES, KIND_CATEGORIES, KINDS, OUTPUT_LIMIT, PHRASES, PROMPT, STATUS_KINDS


class ProviderError(NamedTuple):
    """What a provider said of an error. `category` and `kind` are null where neither code nor phrase is known."""

    code: str | int | None = None
    type: str | None = None
    message: str | None = None
    category: str | None = None
    kind: str | None = None


FIRST_ERROR_STATUS = 400
FIRST_SERVER_ERROR = 500
_FIRST_NO_STATUS = 600
_STATUS_DIGITS = 3
_LONGEST_TEXT = 4000
"""Characters of an error's text that are searched for phrases; what an error is about stands at its start."""

_STATUSES = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit", 504: "timeout"}


def classify_status(status: int) -> str | None:
    """Return the category of an HTTP status; null below 400."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= FIRST_SERVER_ERROR:
        return "upstream_error"
    return "client_error" if status >= FIRST_ERROR_STATUS else None


def read_error(error: Any, status: int = 0) -> ProviderError:  # noqa: ANN401 - whatever the provider put there
    """Read an error in any shape: text, an object, an object in an object, or a list of them.

    The error that a gateway's own is about tells the kind where the gateway's does not.
    """
    said = _unwrap(error)
    codes, name, message = _say(said)
    inner_codes, inner_name, inner_message = _say(_unwrap(_behind(said)))
    kind = _kind((message, inner_message), (*codes, name, *inner_codes, inner_name), status)
    code = codes[0] if codes else None
    return ProviderError(code, name, message, _category(code, name, kind), kind)


_CODES = ("code", "status_code", "statusCode", "status", "error_code")
_TYPES = ("type", "error_type", "__type")
_TEXTS = ("message", "Message", "detail", "msg", "error_msg", "error_message", "error", "title")

_HOLDERS: dict[str, bool] = {"error": False, "errors": True, "detail": True, "message": True}
"""Members that may be an object, or a list of them, with the error inside; whether what stands beside counts too."""

_DEEPEST = 4
"""Holders in holders that are looked into."""

_BEHIND: tuple[tuple[str, ...], ...] = (("innererror",), ("inner_error",), ("metadata", "raw"))
"""Where gateways put the error that theirs is about: an object, or its text."""


def _unwrap(error: Any) -> Any:  # noqa: ANN401 - whatever the provider put there
    """Return the error inside its holders and lists."""
    for _ in range(_DEEPEST):
        if isinstance(error, list):
            error = error[0] if error else None
        held = _held(error) if isinstance(error, dict) else None
        if held is None:
            break
        error = held
    return error


def _held(error: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the provider put there
    """Return what an object holds instead of being the error itself; null if it holds nothing."""
    for name, beside_counts in _HOLDERS.items():
        held: Any = error.get(name)
        if held and isinstance(held, list):
            held = {"message": held[0]} if isinstance(held[0], str) else held[0]
        if held and isinstance(held, dict):
            beside = {key: item for key, item in error.items() if item is not None and key != name}
            return {**held, **beside} if beside_counts else held
    return None


def _behind(error: Any) -> Any:  # noqa: ANN401 - whatever the provider put there
    for path in _BEHIND:
        inner = follow(error, path)
        if isinstance(inner, str):
            try:
                return decode(inner.encode("utf-8", "replace")).value
            except BodyError:
                return inner
        if inner is not None:
            return inner
    return None


def _say(error: Any) -> tuple[list[str | int], str | None, str | None]:  # noqa: ANN401 - whatever was put there
    """Return the codes, the type and the text of an error."""
    if not isinstance(error, dict):
        return [], None, error if isinstance(error, str) else None
    found: list[Any] = [error.get(key) for key in _CODES]
    codes = [value for value in found if _is_code(value)]
    names, texts = ([as_text(error.get(key)) for key in keys] for keys in (_TYPES, _TEXTS))
    return codes, next(filter(None, names), None), next(filter(None, texts), None)


def _category(code: str | int | None, name: str | None, kind: str | None) -> str | None:
    """Let a telling code decide; one that only says "bad request" leaves the word to the kind."""
    named = _by_name(code)
    if named not in {None, "client_error"}:
        return named
    return KIND_CATEGORIES.get(kind or "") or named or _by_name(name)


def _kind(texts: tuple[str | None, ...], names: tuple[Any, ...], status: int) -> str | None:
    """Tell the kind by the first code that is known, then by phrase, then by what the status alone says."""
    for name in names:
        if isinstance(name, str) and (kind := _look_up(KINDS, name)):
            return kind
    shown = "\n".join(text[:_LONGEST_TEXT] for text in texts if text)
    found = (kind for kind, phrase in PHRASES.items() if phrase.search(shown))
    by_phrase = next(
        (kind for kind in found if kind != "context_length" or not _is_about_output(shown)), None
    )
    return by_phrase or STATUS_KINDS.get(status)


def _is_about_output(text: str) -> bool:
    return OUTPUT_LIMIT.search(text) is not None and PROMPT.search(text) is None


def _is_code(value: Any) -> bool:  # noqa: ANN401 - whatever the provider put there
    return value.__class__ is int or (isinstance(value, str) and value != "")


def _by_name(name: str | int | None) -> str | None:
    if isinstance(name, str) and name.isascii() and name.isdigit() and len(name) == _STATUS_DIGITS:
        name = int(name)
    if isinstance(name, int):
        return classify_status(name) if name < _FIRST_NO_STATUS else None
    if not name:
        return None
    return _look_up(CODES, name) or KIND_CATEGORIES.get(_look_up(KINDS, name) or "")


def _look_up(table: dict[str, str], name: str) -> str | None:
    """Look a code up as the tables write it: whole, else by the first part of it that is known."""
    plain = _CAMEL.sub("_", name[:_LONGEST_CODE].translate(_SEPARATORS)).lower()
    parts = plain.replace("#", ".").split(".") if plain not in table else [plain]
    return next((found for part in parts if (found := table.get(part.removesuffix("_exception")))), None)


_SEPARATORS = str.maketrans("- ", "__")
_LONGEST_CODE = 200
"""Characters; some servers put a whole sentence where the code should be."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
