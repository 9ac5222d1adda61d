"""Why an answer ended: the provider's word to its normal form, one table for all dialects."""

from typing import Any

from pipeline.dialects.quirks import NO_REASONS

ABORTED = "cancelled"
"""The normal form of an answer that the provider itself broke off."""

FINISH: dict[str, str] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "tool_call": "tool_calls",
    "complete": "stop",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "safety": "content_filter",
    "prohibited_content": "content_filter",
    "blocklist": "content_filter",
    "recitation": "content_filter",
    "spii": "content_filter",
    "image_safety": "content_filter",
    "image_prohibited_content": "content_filter",
    "image_recitation": "content_filter",
    "model_armor": "content_filter",
    "sensitive": "content_filter",
    "error_toxic": "content_filter",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "compaction",
    "error": "error",
    "failed": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
    "malformed_function_call": "error",
    "malformed_response": "error",
    "malformed_tool_use": "error",
    "malformed_model_output": "error",
    "unexpected_tool_call": "error",
    "too_many_tool_calls": "error",
    "cancelled": ABORTED,
    "abort": ABORTED,
}
"""Reasons to finish, as providers write them in lower case, to their normal form; any other reads `other`."""


def normal_finish(reason: str | None) -> str | None:
    """Return a finish reason's normal form; null where there is none.

    Some servers put their own word for a reason behind the common one and a colon; the more exact word counts.
    """
    if not reason or not is_reason(reason):
        return None
    known = FINISH.get(reason.lower())
    for word in reversed(reason.split(": ")) if known is None else ():
        known = known or FINISH.get(word.lower())
    return known or "other"


def is_reason(reason: Any) -> bool:  # noqa: ANN401 - whatever the provider put there
    """Whether this says why an answer ended: some servers send a word for "not yet" on every chunk."""
    return bool(reason) and not (isinstance(reason, str) and reason in NO_REASONS)
