"""A `chat.completion`, streamed or not, to what it means in the record's words.

Choice 0 speaks for the answer. Tool calls come in three shapes (function, custom, the legacy single call), reasoning
under several names and in several lists; the tables of `quirks` say which.
"""

from typing import Any

from pipeline.dialects.base import Json, Meaning, as_list, as_text, follow, own_error, tool_call, usage_in
from pipeline.dialects.finish import is_reason, normal_finish
from pipeline.dialects.quirks import REASON_PATHS, REASONING, REASONING_LISTS


def read(response: Json) -> Meaning:
    """Say what a `chat.completion` means; `error` where it is the provider's error instead."""
    choices = as_list(response.get("choices"))
    at = _first(choices)
    message = choices[at].get("message") if choices else None
    message = message if isinstance(message, dict) else {}
    calls = [_tool_call(call) for call in _calls(message)]
    reasons = [as_text(reason_of(choice)) for choice in choices]
    finishes = [normal_finish(reason) for reason in reasons]
    refused = message.get("refusal") and reasons[at] == "stop"
    return Meaning(
        model=as_text(response.get("model")),
        response_id=as_text(response.get("id")),
        choices=len(choices) if choices else None,
        finish="refusal" if refused else finishes[at] if finishes else None,
        finish_reason=reasons[at] if reasons else None,
        tool_calls=[call for call, _ in calls] or None,
        reasoning=_reasoning(message),
        usage=usage_in(response),
        error=own_error(response) or _error_of(choices),
        failed="error" in finishes,
        invalid_arguments=bool(calls) and not all(valid for _, valid in calls),
    )


def _error_of(choices: list[Json]) -> Any:  # noqa: ANN401 - whatever the provider put there
    """Return the error that a choice reports, whichever it is."""
    for choice in choices:
        if choice.get("error"):
            return choice["error"]
    return None


def reason_of(choice: Json) -> Any:  # noqa: ANN401 - whatever the provider put there
    """Return why a choice finished, null where it does not say."""
    for path in REASON_PATHS:
        reason = follow(choice, path)
        if is_reason(reason):
            return reason
    return None


def _first(choices: list[Json]) -> int:
    """Return where choice 0 is, or what stands in its place."""
    for at, choice in enumerate(choices):
        if choice.get("index") in (0, None):
            return at
    return 0


def _calls(message: Json) -> list[Json]:
    if _CALLS.isdisjoint(message):
        return []
    calls, legacy = message.get("tool_calls"), message.get("function_call")
    called = isinstance(legacy, dict) and any(legacy.values())
    return as_list([calls] if isinstance(calls, dict) else calls) + (
        [{"function": legacy, "type": "function"}] if called else []
    )


_CALLS = frozenset({"tool_calls", "function_call"})


def _tool_call(call: Json) -> Any:  # noqa: ANN401 - see tool_call
    kind = as_text(call.get("type")) or ("custom" if call.get("custom") else "function")
    detail = call.get(kind)
    detail = detail if isinstance(detail, dict) else call
    return tool_call(call.get("id"), detail.get("name"), detail.get("arguments", detail.get("input")), kind)


def _reasoning(message: Json) -> str | None:
    if _THOUGHTS.isdisjoint(message) and message.get("content").__class__ is not list:
        return None
    for key in REASONING:
        if text := as_text(message.get(key)):
            return text
    lists = [value for key in _PART_LISTS if (value := message.get(key)).__class__ is list]
    return "\n".join([text for parts in lists for part in as_list(parts) for text in thoughts(part)]) or None


_PART_LISTS = ("content", *REASONING_LISTS)
_THOUGHTS = frozenset((*REASONING, *REASONING_LISTS))


def thoughts(part: Json) -> list[str]:
    """Return the texts of reasoning in one part of a message's list."""
    thinking = part.get("thinking")
    kind = as_text(part.get("type")) or ""
    if thinking is None and kind.startswith("reasoning"):
        thinking = part.get("text") or part.get("summary")
    if isinstance(thinking, str):
        return [thinking]
    return [text for piece in as_list(thinking) if (text := as_text(piece.get("text")))]
