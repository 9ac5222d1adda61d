"""How an exchange ended: one ordered table of rules, the same for streamed and unstreamed answers.

The dialect's own end, or a whole unstreamed body, makes an exchange complete whatever the client did afterwards. Then
come what the provider said, what the application raised, the client that left, and last the stream or body that just
stops. The first rule that holds names the category; `source` says who reported it. Nothing is guessed: where the
application never listened for the client, the delivery is unknown.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pipeline.adapter import local_overflow
from pipeline.error_codes import PERMANENT
from pipeline.exchange import RawExchange
from pipeline.provider_error import FIRST_ERROR_STATUS, ProviderError, classify_status, read_error
from pipeline.record import OVERFLOW, ErrorNote

FIRST_REDIRECT = 300


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What the rules look at.

    `ended` is the stream's terminal event or a whole unstreamed body; `error` the provider's error as it came, from
    stream or body; `failed`, `aborted`, `incomplete` and `pending` are states that the provider names without one.
    `body` is `none` (nothing came), `json`, `events` or `unreadable`; `cut` that not all of it was kept; `raised` is
    the upstream's error that an exception of the application's carried.
    """

    exchange: RawExchange
    ended: bool
    body: str
    error: Any = None
    failed: bool = False
    aborted: bool = False
    incomplete: bool = False
    pending: bool = False
    cut: bool = False
    raised: Any = None

    @property
    def status(self) -> int:
        """The status that crossed the edge; 0 where none did."""
        return self.exchange.status_code or 0


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How it ended. A category of null is a success; `complete` says that the answer is whole and an answer."""

    complete: bool
    delivery: str
    error: ErrorNote | None


class _Rule(NamedTuple):
    """One row: when it holds, the category (null: success), and who reported it."""

    holds: Callable[[Facts], bool]
    category: Callable[[Facts, ProviderError], str | None]
    source: str | None = None


def _always(category: str | None) -> Callable[[Facts, ProviderError], str | None]:
    return lambda _facts, _error: category


def _provider_category(facts: Facts, error: ProviderError) -> str | None:
    """By the provider's code, unless the HTTP status already is one; overflow is told apart in any case."""
    status = classify_status(facts.status)
    if error.category == OVERFLOW or status is None:
        return error.category or "upstream_error"
    return status


def _exception_category(facts: Facts, error: ProviderError) -> str:
    """By the status that the exception carries, then by the error in it, then by its name; overflow in any case."""
    if error.category == OVERFLOW:
        return OVERFLOW
    failure = facts.exchange.failure
    name = failure.type.lower() if failure else ""
    by_status = classify_status(failure.status_code) if failure and failure.status_code else None
    by_name = next((category for part, category in _EXCEPTIONS if part in name.rpartition(".")[2]), None)
    return by_status or error.category or by_name or "exception"


_EXCEPTIONS = (("timeout", "timeout"), ("conn", "connection"), ("cancel", "cancelled"))
"""Part of an exception's class name to its category, as the reference classifies them."""


def _client_left(facts: Facts) -> bool:
    failure = facts.exchange.failure
    return facts.exchange.disconnect_ns is not None or (failure is not None and failure.source == "send")


def _left_asking(facts: Facts) -> bool:
    """Whether the client left before it had said all: what the application then answered, it answered to nobody."""
    return facts.exchange.disconnect_ns is not None and facts.exchange.request_read_ns is None


def _app_failed(facts: Facts) -> bool:
    """Whether the application raised something of its own, and not a framework's name for the client's leaving."""
    failure = facts.exchange.failure
    told_of_it = failure is not None and failure.type.rpartition(".")[2] in _NAMES_OF_LEAVING
    return _source(facts, "app") and not (told_of_it and facts.exchange.disconnect_ns is not None)


_NAMES_OF_LEAVING = ("ClientDisconnect", "ClientDisconnected")


def _source(facts: Facts, name: str) -> bool:
    failure = facts.exchange.failure
    return failure is not None and failure.source == name


def _is_wrong(facts: Facts) -> bool:
    """Whether the provider reported an error, in whatever way."""
    return bool(facts.error) or facts.failed or facts.status >= FIRST_ERROR_STATUS


RULES: dict[str, _Rule] = {
    "local overflow": _Rule(
        lambda facts: local_overflow(facts.exchange.annotations), _always("context_length_exceeded"), "app"
    ),
    "whole": _Rule(
        lambda facts: facts.ended and not facts.aborted and not _is_wrong(facts),
        lambda facts, _error: "incomplete" if facts.incomplete else None,
        "provider",
    ),
    "left asking": _Rule(_left_asking, _always("cancelled"), "client"),
    "provider": _Rule(_is_wrong, _provider_category, "provider"),
    "exception": _Rule(_app_failed, _exception_category, "app"),
    "client left": _Rule(_client_left, _always("cancelled"), "client"),
    "cancelled": _Rule(lambda facts: _source(facts, "cancelled"), _always("cancelled"), "app"),
    "aborted": _Rule(lambda facts: facts.aborted, _always("cancelled"), "provider"),
    "not kept": _Rule(lambda facts: facts.cut, _always("capture_parse_error"), "capture"),
    "no response": _Rule(lambda facts: facts.status == 0, _always("exception"), "app"),
    "bodiless": _Rule(
        lambda facts: not facts.exchange.response_bytes and _needs_no_body(facts), _always(None)
    ),
    "unterminated": _Rule(lambda facts: facts.body == "events", _always("stream_truncated"), "stream"),
    "unreadable": _Rule(lambda _facts: True, _always("capture_parse_error"), "capture"),
}
"""Name of the rule to the rule, in order; the first that holds decides."""


def _needs_no_body(facts: Facts) -> bool:
    return (
        facts.exchange.method == "HEAD"
        or facts.status in {204, 205}
        or FIRST_REDIRECT <= facts.status < FIRST_ERROR_STATUS
    )


_RETRYABLE = {
    "timeout": True,
    "rate_limit": True,
    "upstream_error": True,
    "connection": True,
    "stream_truncated": True,
    "auth": False,
    "not_found": False,
    "client_error": False,
    "context_length_exceeded": False,
}
"""Whether trying again may help; null for categories that do not tell."""


_NOTHING_SAID = ProviderError()


def judge(facts: Facts, headers: dict[str, str]) -> Outcome:
    """Apply the rules. `headers` are the response's, in lower case: they may say when to come back."""
    wrong = bool(facts.error) or facts.status >= FIRST_ERROR_STATUS
    said = read_error(facts.error, facts.status) if wrong else _said_by_exception(facts)
    name, rule = next((name, rule) for name, rule in RULES.items() if rule.holds(facts))
    category = rule.category(facts, said)
    complete = name == "whole" and not facts.cut and not facts.pending
    note = None if category is None else _note(category, rule.source, said, facts, headers)
    return Outcome(complete, _delivery(facts), note)


def _said_by_exception(facts: Facts) -> ProviderError:
    """Read the upstream's error that the application raised instead of passing it on."""
    failure = facts.exchange.failure
    if failure is None or not facts.raised:
        return _NOTHING_SAID
    return read_error(facts.raised, failure.status_code or 0)


def _note(
    category: str, source: str | None, said: ProviderError, facts: Facts, headers: dict[str, str]
) -> ErrorNote:
    failure = facts.exchange.failure if source in {"app", "client"} else None
    return ErrorNote(
        category=category,
        code=failure.status_code if failure and said.code is None else said.code,
        type=failure.type if failure else said.type,
        message=failure.message if failure else said.message,
        kind="context_length" if category == "context_length_exceeded" else said.kind,
        retryable=_is_retryable(category, said, headers),
        retry_after_s=_retry_after_s(headers),
        source=source,
    )


def _is_retryable(category: str, said: ProviderError, headers: dict[str, str]) -> bool | None:
    told = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
    if told is not None:
        return told
    if said.kind == "overload":
        return True
    return False if said.kind in PERMANENT else _RETRYABLE.get(category)


def _retry_after_s(headers: dict[str, str]) -> float | None:
    """Return seconds from `retry-after-ms` or `retry-after`; a date there stays unknown, clocks differ."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _delivery(facts: Facts) -> str:
    """Say what is known of the answer's way to the client, from what crossed the edge."""
    exchange = facts.exchange
    if _client_left(facts):
        return "client_gone"
    if exchange.failure is not None or exchange.status_code is None or not exchange.response_complete:
        return "failed"
    return "sent" if exchange.listened else "unknown"
