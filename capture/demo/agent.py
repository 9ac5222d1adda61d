"""The client's side of the three dialects, written apart from the recorder's: what an agent says and hears.

A speaker makes a request's body from the turns so far, folds a stream's events into a whole response, tells what
it heard in one, and takes the turn that follows from it. All of it is pure; `drive` owns the connections. The
demonstration holds what was heard here against what was heard in the records.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from capture.demo.wire import Json

Turns = list[Json]

TOOLS = ("read_file", "run_tests")
SCHEMA = {"type": "object", "properties": {"about": {"type": "string"}, "limit": {"type": "integer"}}}
RESULT = "3 passed in 0.12s"
MAX_TOKENS = 1024


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent takes from a response; `calls` are pairs of a tool's name and its parsed arguments."""

    reasoning: str = ""
    text: str = ""
    calls: list[tuple[str, Any]] = []
    input_tokens: int | None = None
    output_tokens: int | None = None


class Speaker(msgspec.Struct, frozen=True):
    """One dialect as a client speaks it.

    `ask` makes a body from turns, `fold` a whole response from a stream's events, `hear` reads a whole response,
    `follow` gives the turns that answer its tool calls or just repeat it.
    """

    path: str
    ask: Callable[[Turns], Json]
    fold: Callable[[Sequence[Json]], Json]
    hear: Callable[[Json], Heard]
    follow: Callable[[Json], Turns]


def user_turn(text: str) -> Json:
    """Say something; all three dialects take it in the same form."""
    return {"role": "user", "content": text}


def parsed(stream: bytes) -> list[Json]:
    """Read the data of a whole stream's events, or of the events of a broken one that arrived whole."""
    blocks = stream.split(b"\n\n")[:-1]
    lines = [line for block in blocks for line in block.split(b"\n") if line.startswith(b"data: ")]
    return [msgspec.json.decode(line[6:]) for line in lines if line != b"data: [DONE]"]


def _ask_chat(turns: Turns) -> Json:
    functions = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS]
    return {"messages": turns, "tools": functions, "stream_options": {"include_usage": True}}


def _fold_chat(events: Sequence[Json]) -> Json:
    message: Json = {"role": "assistant", "content": "", "tool_calls": []}
    usage = None
    for chunk in events:
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices", ()):
            _add_delta(message, choice["delta"])
    return {"choices": [{"message": message}], "usage": usage}


def _add_delta(message: Json, delta: Json) -> None:
    for member in ("content", "reasoning_content"):
        if delta.get(member):
            message[member] = message.get(member, "") + delta[member]
    for call in delta.get("tool_calls", ()):
        if "id" in call:
            message["tool_calls"].append({"id": call["id"], "type": "function", "function": call["function"]})
        else:
            message["tool_calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]


def _hear_chat(response: Json) -> Heard:
    message = response["choices"][0]["message"]
    usage = response.get("usage") or {}
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return Heard(
        reasoning=message.get("reasoning_content") or "",
        text=message.get("content") or "",
        calls=[(function["name"], _loads(function["arguments"])) for function in functions],
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
    )


def _follow_chat(response: Json) -> Turns:
    message = response["choices"][0]["message"]
    calls = message.get("tool_calls") or ()
    return [message, *({"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls)]


def _ask_responses(turns: Turns) -> Json:
    functions = [{"type": "function", "name": name, "parameters": SCHEMA} for name in TOOLS]
    return {"input": turns, "tools": functions, "store": False}


def _fold_responses(events: Sequence[Json]) -> Json:
    """Take the terminal event's response, or what items were done before there was none."""
    whole = [event["response"] for event in events if event["type"] == "response.completed"]
    return (
        whole[-1]
        if whole
        else {"output": [e["item"] for e in events if e["type"] == "response.output_item.done"]}
    )


def _hear_responses(response: Json) -> Heard:
    items: list[Json] = response["output"]
    usage = response.get("usage") or {}
    return Heard(
        reasoning="".join(part["text"] for item in items for part in item.get("summary", ())),
        text="".join(part.get("text", "") for item in items for part in item.get("content") or ()),
        calls=[
            (item["name"], _loads(item["arguments"])) for item in items if item["type"] == "function_call"
        ],
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
    )


def _follow_responses(response: Json) -> Turns:
    calls = [item["call_id"] for item in response["output"] if item["type"] == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call_id, "output": RESULT} for call_id in calls]
    return [*response["output"], *outputs]


def _ask_messages(turns: Turns) -> Json:
    return {
        "messages": turns,
        "tools": [{"name": name, "input_schema": SCHEMA} for name in TOOLS],
        "max_tokens": MAX_TOKENS,
    }


def _fold_messages(events: Sequence[Json]) -> Json:
    blocks: list[Json] = []
    usage: Json = {}
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"] | {"input": ""})
        elif event["type"] == "content_block_delta":
            _add_to_block(blocks[event["index"]], event["delta"])
        usage |= event.get("usage") or event.get("message", {}).get("usage") or {}
    for block in blocks:
        block["input"] = _loads(block["input"] or "{}")
    return {"content": [_only_its_members(block) for block in blocks], "usage": usage}


DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}
"""From a delta's type to its own member, and to the member of the block that it adds to."""

MEMBERS = {"text": ("text",), "thinking": ("thinking", "signature"), "tool_use": ("id", "name", "input")}


def _add_to_block(block: Json, delta: Json) -> None:
    source, target = DELTAS[delta["type"]]
    block[target] += delta[source]


def _only_its_members(block: Json) -> Json:
    return {"type": block["type"]} | {name: block[name] for name in MEMBERS[block["type"]]}


def _hear_messages(response: Json) -> Heard:
    blocks: list[Json] = response["content"]
    usage = response.get("usage") or {}
    cached = usage.get("cache_read_input_tokens") or 0
    return Heard(
        reasoning="".join(block.get("thinking", "") for block in blocks),
        text="".join(block.get("text", "") for block in blocks),
        calls=[(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
        input_tokens=usage["input_tokens"] + cached if usage else None,
        output_tokens=usage.get("output_tokens"),
    )


def _follow_messages(response: Json) -> Turns:
    made = {"role": "assistant", "content": response["content"]}
    calls = [block["id"] for block in response["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call_id, "content": RESULT} for call_id in calls]
    return [made, {"role": "user", "content": results}] if results else [made]


def _loads(text: str) -> Any:  # noqa: ANN401 - whatever the arguments are
    return msgspec.json.decode(text)


SPEAKERS = {
    "chat": Speaker("/v1/chat/completions", _ask_chat, _fold_chat, _hear_chat, _follow_chat),
    "responses": Speaker(
        "/v1/responses", _ask_responses, _fold_responses, _hear_responses, _follow_responses
    ),
    "messages": Speaker("/v1/messages", _ask_messages, _fold_messages, _hear_messages, _follow_messages),
}
