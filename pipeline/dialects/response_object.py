"""A response object, streamed or not, to what it means in the record's words.

The object names its own state, so nothing has to be guessed: `status` and `incomplete_details` say how it ended, the
types of its items what was called. What a tool was called with is a table, `_TOOLS`; a type that is not in it is a
call if it is named like one.
"""

from typing import Any, TypeGuard

from pipeline.dialects.base import Json, Meaning, as_list, as_text, own_error, tool_call
from pipeline.dialects.finish import normal_finish

_CLIENTS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "mcp_approval_request",
    }
)
"""Types of items that wait for the client, unless their output is there: the answer ended for a tool's sake."""

_TOOLS: dict[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "tool_search_call": "arguments",
    "code_interpreter_call": "code",
    "web_search_call": "action",
    "file_search_call": "queries",
    "mcp_approval_request": "arguments",
    "image_generation_call": "revised_prompt",
    "program": "code",
}
"""Types of items that are tool calls, to the member that holds what is called with."""

_CALLED_WITH = ("arguments", "input", "action")
"""Where a call of a type to come holds what is called with; the first that is there."""


def read(response: Json) -> Meaning:
    """Say what a response object means."""
    output = as_list(response.get("output"))
    calls = [_tool_call(item, kind) for item in output if _is_call(kind := as_text(item.get("type")))]
    status = as_text(response.get("status"))
    details = response.get("incomplete_details")
    reason = as_text(details.get("reason")) if isinstance(details, dict) else None
    pending = status in ("queued", "in_progress")
    reason = reason or (None if pending else status)
    return Meaning(
        model=as_text(response.get("model")),
        response_id=as_text(response.get("id")),
        choices=1 if "output" in response else None,
        finish=_finish(output, reason),
        finish_reason=reason,
        tool_calls=[call for call, _ in calls] or None,
        reasoning="\n".join(text for item in output for text in _thoughts(item)) or None,
        usage=_usage(response),
        error=own_error(response),
        incomplete=status == "incomplete",
        failed=status == "failed",
        pending=pending,
        invalid_arguments=not all(valid for _, valid in calls),
    )


def _usage(response: Json) -> Json | None:
    """Return the report, and beside it what is told of tools that the provider ran."""
    usage, tools = response.get("usage"), response.get("tool_usage")
    if not isinstance(usage, dict):
        return None
    return {**usage, "tool_usage": tools} if isinstance(tools, dict) else usage


def _finish(output: list[Json], reason: str | None) -> str | None:
    finish = normal_finish(reason)
    if finish != "stop":
        return finish
    answered = {as_text(item.get("call_id")) for item in output if _is_answer(item)} - {None}
    if any(_waits(item) and as_text(item.get("call_id")) not in answered for item in output):
        return "tool_calls"
    parts = [part for item in output for part in as_list(item.get("content"))]
    return "refusal" if any(part.get("type") == "refusal" for part in parts) else finish


def _waits(item: Json) -> bool:
    """Whether an item is a call that the client is to run; a search of tools says who does."""
    return as_text(item.get("type")) in _CLIENTS or (
        item.get("type") == "tool_search_call" and item.get("execution") == "client"
    )


def _is_answer(item: Json) -> bool:
    return (as_text(item.get("type")) or "").endswith("_output")


def _is_call(kind: str | None) -> TypeGuard[str]:
    return kind is not None and (kind in _TOOLS or kind.endswith("_call"))


def _tool_call(item: Json, kind: str) -> Any:  # noqa: ANN401 - see tool_call
    members = (_TOOLS[kind], "actions") if kind in _TOOLS else _CALLED_WITH
    called_with = next((item[member] for member in members if member in item), None)
    return tool_call(item.get("call_id") or item.get("id"), item.get("name"), called_with, kind)


def _thoughts(item: Json) -> list[str]:
    """Return the texts of a reasoning item: its summary's, else those of the reasoning itself."""
    if item.get("type") != "reasoning":
        return []
    told = (
        [as_text(part.get("text")) for part in as_list(item.get(name))] for name in ("summary", "content")
    )
    return next((said for texts in told if (said := [text for text in texts if text])), [])
