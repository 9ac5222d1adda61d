"""A message, streamed or not, to what it means in the record's words."""

from typing import Any

from pipeline.dialects.base import Json, Meaning, as_list, as_text, own_error, tool_call, usage_in
from pipeline.dialects.finish import normal_finish


def is_call(block: Json) -> bool:
    """Whether a content block calls a tool: the client's own, the provider's or that of an MCP server."""
    return (as_text(block.get("type")) or "").endswith("tool_use")


def read(response: Json) -> Meaning:
    """Say what a message means; `error` where it is the provider's error instead."""
    blocks = as_list(response.get("content"))
    calls = [_tool_call(block) for block in blocks if is_call(block)]
    reason = as_text(response.get("stop_reason"))
    thoughts = [text for block in blocks if (text := as_text(block.get("thinking")))]
    return Meaning(
        model=as_text(response.get("model")),
        response_id=as_text(response.get("id")),
        choices=1 if "content" in response else None,
        finish=normal_finish(reason),
        finish_reason=reason,
        tool_calls=[call for call, _ in calls] or None,
        reasoning="\n".join(thoughts) or None,
        usage=usage_in(response),
        error=own_error(response),
        invalid_arguments=not all(valid for _, valid in calls),
    )


def _tool_call(block: Json) -> Any:  # noqa: ANN401 - see tool_call
    return tool_call(block.get("id"), block.get("name"), block.get("input"), block.get("type"))
