"""Streams made up by each dialect's event grammar: random content, order and interleaving, all of it allowed.

Each maker takes a seeded source of randomness and returns the stream's events as objects, oldest first.
"""

import json
import random
from itertools import pairwise
from typing import Any

Json = dict[str, Any]


def words(chance: random.Random) -> list[str]:
    """Return up to five pieces of text, empty ones and awkward characters among them."""
    letters = 'ab \u00e9\U0001f600\n"\\\u2028'
    return ["".join(chance.choices(letters, k=chance.randrange(5))) for _ in range(chance.randrange(6))]


def pieces(chance: random.Random, text: str) -> list[str]:
    """Cut a text into pieces of one to five characters."""
    cuts = [0]
    while cuts[-1] < len(text):
        cuts.append(cuts[-1] + chance.randrange(1, 6))
    return [text[at:end] for at, end in pairwise(cuts)]


def interleaved(chance: random.Random, scripts: list[list[Json]], *, apart: bool) -> list[Json]:
    """Mix scripts, keeping the order within each and the order of their first events; one by one if `apart`."""
    if apart:
        return [event for script in scripts for event in script]
    queues, opened, mixed = [list(script) for script in scripts if script], 0, []
    while any(queues):
        live = [queue for queue in queues[:opened] if queue]
        if opened < len(queues) and (not live or chance.random() < 0.4):
            live, opened = [queues[opened]], opened + 1
        mixed.append(chance.choice(live).pop(0))
    return mixed


def with_extras(chance: random.Random, made: list[Json]) -> list[Json]:
    """Add members to events that no SDK knows, as vendors do."""
    extras: list[Json] = [{}, {}, {"x_vendor": {"a": [1]}}, {"x_cost": 0.5}, {"x_note": "n", "x_null": None}]
    return [{**event, **chance.choice(extras)} for event in made]


def chat(chance: random.Random) -> list[Json]:
    """Make a chat stream of one to three choices with text, reasoning, refusal, parallel calls and usage."""
    base: Json = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "service_tier": "default",
    }
    base |= {"system_fingerprint": "fp"} if chance.random() < 0.5 else {}
    count = chance.choice((1, 1, 2, 3))
    scripts = [_choice(chance, index) for index in range(count)]
    opening = [script.pop(0) for script in scripts]
    closing = [
        {"index": at, "delta": {}, "finish_reason": _reason(chance)}
        for at in chance.sample(range(count), count)
    ]
    choices = [*opening, *interleaved(chance, scripts, apart=False), *closing]
    usage = {"prompt_tokens": 3, "completion_tokens": chance.randrange(9), "total_tokens": 9}
    return [{**base, "choices": [choice]} for choice in choices] + [{**base, "choices": [], "usage": usage}]


def _reason(chance: random.Random) -> str:
    return chance.choice(("stop", "length", "tool_calls", "content_filter"))


def _choice(chance: random.Random, index: int) -> list[Json]:
    kinds = ("content", "content", "reasoning_content", "refusal")
    calls = interleaved(chance, [_call(chance, at) for at in range(chance.randrange(3))], apart=False)
    deltas: list[Json] = [{"role": "assistant", "content": chance.choice((None, ""))}]
    deltas += [{chance.choice(kinds): text} for text in words(chance)]
    deltas += [{"tool_calls": [call]} for call in calls]
    choices: list[Json] = [{"index": index, "delta": delta, "finish_reason": None} for delta in deltas]
    for choice in choices[1:] if index == 0 else ():
        entry = {"token": "t", "logprob": -0.5, "bytes": None, "top_logprobs": []}
        choice["logprobs"] = {"content": chance.choice(([entry], [entry, entry], None)), "refusal": None}
    return choices


def _call(chance: random.Random, index: int) -> list[Json]:
    opening = {
        "index": index,
        "id": f"call{index}",
        "type": "function",
        "function": {"name": "f", "arguments": ""},
    }
    arguments = pieces(chance, json.dumps({"x": words(chance)}))
    return [opening, *({"index": index, "function": {"arguments": piece}} for piece in arguments)]


def messages(chance: random.Random) -> list[Json]:
    """Make a Messages stream of up to four blocks, in turn or interleaved, with pings and running totals."""
    usage = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": chance.choice((None, 4))}
    tools: list[Json] = [{}, {"server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0}}]
    usage = {**usage, **chance.choice(tools)}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": usage}
    scripts = [_block(chance, index) for index in range(chance.randrange(5))]
    body = interleaved(chance, scripts, apart=chance.random() < 0.5)
    body.insert(chance.randrange(len(body) + 1), {"type": "ping"})
    deltas: list[Json] = [
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": chance.choice(("end_turn", "tool_use", "max_tokens")),
                "stop_sequence": None,
            },
            "usage": {"output_tokens": chance.randrange(50), "input_tokens": chance.choice((None, 12))},
        }
        for _ in range(chance.choice((1, 2)))
    ]
    return [{"type": "message_start", "message": message}, *body, *deltas, {"type": "message_stop"}]


_RESULT: Json = {
    "type": "web_search_result",
    "url": "u",
    "title": "t",
    "encrypted_content": "E",
    "page_age": None,
}
_CITATION: Json = {
    "type": "char_location",
    "cited_text": "c",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
    "file_id": None,
}


def _block(chance: random.Random, index: int) -> list[Json]:
    kind = chance.choice(
        ("text", "thinking", "tool_use", "server_tool_use", "redacted_thinking", "web_search_tool_result")
    )
    tool: Json = {"id": f"t{index}", "name": "f" if kind == "tool_use" else "web_search", "input": {}}
    fields: Json = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "redacted_thinking": {"data": "R"},
        "web_search_tool_result": {"tool_use_id": "t", "content": [_RESULT]},
    }
    deltas: list[Json] = []
    if kind == "text":
        deltas = [{"type": "text_delta", "text": text} for text in words(chance)]
        cited = {"type": "citations_delta", "citation": _CITATION}
        deltas += [dict(cited) for _ in range(chance.choice((0, 0, 1, 2)))]
    elif kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": text} for text in words(chance)]
        deltas.append({"type": "signature_delta", "signature": f"S{index}"})
    elif kind.endswith("tool_use"):
        parts = ["", *pieces(chance, json.dumps({"q": words(chance)}))]
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return [
        {
            "type": "content_block_start",
            "index": index,
            "content_block": {"type": kind, **fields.get(kind, tool)},
        },
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def responses(chance: random.Random) -> list[Json]:
    """Make a Responses stream of up to three items, interleaved, whose last event has the output or leaves it out."""
    made = [
        chance.choice((_text, _function, _reasoning, _custom, _code, _mcp, _search))(chance, index)
        for index in range(chance.randrange(4))
    ]
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    envelope: Json = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": [],
        "tools": [],
    }
    envelope |= {"tool_choice": "auto", "parallel_tool_calls": True, "status": "in_progress", "usage": None}
    output = chance.choice((None, [item for item, _ in made]))
    body = [
        {"type": "response.created", "response": envelope},
        {"type": "response.in_progress", "response": envelope},
        *interleaved(chance, [script for _, script in made], apart=False),
        {
            "type": "response.completed",
            "response": {**envelope, "status": "completed", "output": output, "usage": usage},
        },
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(body)]


def _item(index: int, opened: Json, item: Json, inside: list[Json]) -> tuple[Json, list[Json]]:
    where = {"output_index": index, "item_id": item["id"]}
    return item, [
        {"type": "response.output_item.added", "output_index": index, "item": opened},
        *({**where, **event} for event in inside),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _text(chance: random.Random, index: int) -> tuple[Json, list[Json]]:
    opened: Json = {
        "id": f"i{index}",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    inside: list[Json] = []
    content: list[Json] = []
    for at in range(chance.randrange(1, 3)):
        texts = words(chance)
        part = {"type": "output_text", "text": "".join(texts), "annotations": []}
        kind = "response.output_text"
        place = {"content_index": at}
        inside += [
            {**place, "type": "response.content_part.added", "part": {**part, "text": ""}},
            *({**place, "type": f"{kind}.delta", "delta": text, "logprobs": []} for text in texts),
            {**place, "type": f"{kind}.done", "text": part["text"], "logprobs": []},
            {**place, "type": "response.content_part.done", "part": part},
        ]
        content.append(part)
    return _item(index, opened, {**opened, "status": "completed", "content": content}, inside)


def _function(chance: random.Random, index: int) -> tuple[Json, list[Json]]:
    opened: Json = {
        "id": f"i{index}",
        "type": "function_call",
        "call_id": f"c{index}",
        "name": "f",
        "arguments": "",
    }
    arguments = json.dumps({"x": words(chance)})
    kind = "response.function_call_arguments"
    inside: list[Json] = [{"type": f"{kind}.delta", "delta": piece} for piece in pieces(chance, arguments)]
    inside.append({"type": f"{kind}.done", "arguments": arguments, "name": "f"})
    return _item(index, opened, {**opened, "arguments": arguments, "status": "completed"}, inside)


def _custom(chance: random.Random, index: int) -> tuple[Json, list[Json]]:
    item: Json = {"id": f"i{index}", "type": "custom_tool_call", "call_id": "c", "name": "py", "input": ""}
    return _written(chance, index, item, ("input", "response.custom_tool_call_input"))


def _code(chance: random.Random, index: int) -> tuple[Json, list[Json]]:
    item: Json = {"id": f"i{index}", "type": "code_interpreter_call", "container_id": "k", "code": ""}
    item |= {"outputs": [], "status": "in_progress"}
    made, script = _written(chance, index, item, ("code", "response.code_interpreter_call_code"))
    state = {"type": "response.code_interpreter_call.interpreting", "item_id": f"i{index}"}
    return made, [script[0], {**state, "output_index": index}, *script[1:]]


def _mcp(chance: random.Random, index: int) -> tuple[Json, list[Json]]:
    item: Json = {"id": f"i{index}", "type": "mcp_call", "server_label": "s", "name": "f", "arguments": ""}
    return _written(chance, index, item, ("arguments", "response.mcp_call_arguments"), json.dumps({"x": 1}))


def _search(_chance: random.Random, index: int) -> tuple[Json, list[Json]]:
    item: Json = {"id": f"i{index}", "type": "web_search_call", "status": "in_progress"}
    states = [
        {"type": f"response.web_search_call.{state}"} for state in ("in_progress", "searching", "completed")
    ]
    done = {**item, "status": "completed", "action": {"type": "search", "query": "q", "sources": []}}
    return _item(index, item, done, states)


def _written(
    chance: random.Random, index: int, item: Json, what: tuple[str, str], text: str | None = None
) -> tuple[Json, list[Json]]:
    """Make an item one member of which is written in pieces, of any text or of the one that is given.

    `what` is the member, and the type of the events about it.
    """
    member, kind = what
    texts = words(chance) if text is None else pieces(chance, text)
    whole = "".join(texts)
    inside: list[Json] = [{"type": f"{kind}.delta", "delta": text} for text in texts]
    inside.append({"type": f"{kind}.done", member: whole})
    return _item(index, item, {**item, member: whole}, inside)


def _reasoning(chance: random.Random, index: int) -> tuple[Json, list[Json]]:
    opened: Json = {"id": f"i{index}", "type": "reasoning", "summary": []}
    texts, place = words(chance), {"summary_index": 0}
    part = {"type": "summary_text", "text": "".join(texts)}
    inside = [
        {**place, "type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}},
        *({**place, "type": "response.reasoning_summary_text.delta", "delta": text} for text in texts),
        {**place, "type": "response.reasoning_summary_part.done", "part": part},
    ]
    return _item(index, opened, {**opened, "summary": [part], "encrypted_content": "E"}, inside)
