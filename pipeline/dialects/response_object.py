"""A response object, streamed or not, to what it means in the record's words.

The object names its own state, so nothing has to be guessed: `status` and `incomplete_details` say how it ended, the
types of its items what was called. Which item is a tool call is a table, `_TOOLS`.
"""

from typing import Any

from pipeline.dialects.base import Json, Meaning, as_list, as_text, normal_finish, own_error, tool_call

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
"""Types of items that wait for the client: an answer that ends with them ended for a tool's sake."""

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
}
"""Types of items that are tool calls, to the member that holds what is called with."""


def read(response: Json) -> Meaning:
    """Say what a response object means."""
    output = as_list(response.get("output"))
    calls = [_tool_call(item) for item in output if as_text(item.get("type")) in _TOOLS]
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
    if any(as_text(item.get("type")) in _CLIENTS for item in output):
        return "tool_calls"
    parts = [part for item in output for part in as_list(item.get("content"))]
    return "refusal" if any(part.get("type") == "refusal" for part in parts) else finish


def _tool_call(item: Json) -> Any:  # noqa: ANN401 - see tool_call
    kind = item["type"]
    called_with = item.get(_TOOLS[kind], item.get("actions"))
    return tool_call(item.get("call_id") or item.get("id"), item.get("name"), called_with, kind)


def _thoughts(item: Json) -> list[str]:
    if item.get("type") != "reasoning":
        return []
    parts = as_list(item.get("summary")) or as_list(item.get("content"))
    return [text for part in parts if (text := as_text(part.get("text")))]
