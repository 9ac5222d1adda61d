"""Responses as OpenAI documents it: output items built up by typed events that carry a running number.

Source: platform.openai.com/docs/api-reference/responses-streaming. The last event repeats the whole response. An
item is described once, as the events between `added` and `done`, and serves streamed and unstreamed answers.
"""

from collections.abc import Iterator, Sequence
from itertools import count, groupby
from typing import Any

import msgspec

from capture.demo.answers import CREATED, Answer, Ask, Call, weigh
from capture.demo.wire import Dialect, Json, Piece, Problem, event, openai_error, read_typed

ECHOED: Json = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "previous_response_id": None,
    "max_output_tokens": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
}
"""Members that a response repeats from its request, and what stands there if the request said nothing."""


class Request(msgspec.Struct):
    """The members of a request that decide the answer."""

    model: str
    input: str | list[dict[str, Any]]
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None


def read(body: bytes) -> Ask:
    """Understand a request; a round of tools is a run of outputs between other items."""
    request: Request = read_typed(body, Request)
    sent: Json = msgspec.json.decode(body)
    items = [{"role": "user", "content": request.input}] if isinstance(request.input, str) else request.input
    seed, tokens, cached = weigh(request.model, items)
    kinds = [kind for kind, _ in groupby(item.get("type") for item in items)]
    return Ask(
        model=request.model,
        stream=bool(request.stream),
        rounds_done=kinds.count("function_call_output"),
        tools=tuple(str(tool["name"]) for tool in request.tools or () if "name" in tool),
        seed=seed,
        input_tokens=tokens,
        cached_tokens=cached,
        fields={name: default if sent.get(name) is None else sent[name] for name, default in ECHOED.items()},
    )


def whole(ask: Ask, answer: Answer) -> Json:
    """Return the response unstreamed."""
    return _response(ask, answer, _ended(answer), [item for item, _ in _items(answer)])


def events(ask: Ask, answer: Answer) -> Iterator[Piece]:
    """Yield the response streamed."""
    for number, (value, tokens) in enumerate(_values(ask, answer)):
        yield event({"type": value["type"], "sequence_number": number} | value, tokens=tokens)


def failing(ask: Ask, answer: Answer, problem: Problem, sent: int) -> Iterator[Piece]:
    """Yield an `error` event and then the response as failed."""
    detail = openai_error(problem)["error"]
    code = detail["code"] or "server_error"
    numbers = count(sent)
    error = {"code": code, "message": problem.message}
    yield event({"type": "error", "sequence_number": next(numbers), "param": None} | error)
    failed = _response(ask, answer, "failed", []) | {"error": error}
    yield event({"type": "response.failed", "sequence_number": next(numbers), "response": failed})


Values = Iterator[tuple[Json, int]]
Steps = Sequence[tuple[Json, int]]


def _ended(answer: Answer) -> str:
    return "incomplete" if answer.choices[0].finish == "length" else "completed"


def _response(ask: Ask, answer: Answer, status: str, output: list[Json]) -> Json:
    over = status in {"completed", "incomplete"}
    return {
        "id": f"resp_{answer.key}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": answer.served,
        "output": output,
        "usage": _usage(answer) if over else None,
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
    } | ask.fields


def _usage(answer: Answer) -> Json:
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }


def _values(ask: Ask, answer: Answer) -> Values:
    started = _response(ask, answer, "in_progress", [])
    yield {"type": "response.created", "response": started}, 0
    yield {"type": "response.in_progress", "response": started}, 0
    for index, (item, steps) in enumerate(_items(answer)):
        yield (
            {
                "type": "response.output_item.added",
                "output_index": index,
                "item": item | UNBEGUN[item["type"]],
            },
            0,
        )
        for value, tokens in steps:
            yield value | {"item_id": item["id"], "output_index": index}, tokens
        yield {"type": "response.output_item.done", "output_index": index, "item": item}, 0
    yield {"type": f"response.{_ended(answer)}", "response": whole(ask, answer)}, 0


UNBEGUN: dict[str, Json] = {
    "reasoning": {"summary": [], "encrypted_content": None, "status": "in_progress"},
    "message": {"content": [], "status": "in_progress"},
    "function_call": {"arguments": "", "status": "in_progress"},
}
"""What an item says of itself when it is added."""


def _items(answer: Answer) -> Iterator[tuple[Json, Steps]]:
    """Yield each output item whole, and the steps that build it up, each with its number of tokens."""
    choice = answer.choices[0]
    if choice.reasoning:
        yield _reasoning(answer, choice.reasoning)
    for kind, member, tokens in (
        ("output_text", "text", choice.text),
        ("refusal", "refusal", choice.refusal),
    ):
        if tokens:
            yield _message(answer, kind, member, tokens)
    for call in choice.calls:
        yield _function_call(call)


def _reasoning(answer: Answer, tokens: tuple[str, ...]) -> tuple[Json, Steps]:
    part = {"type": "summary_text", "text": "".join(tokens)}
    prefix, at = "response.reasoning_summary", {"summary_index": 0}
    steps: list[tuple[Json, int]] = [({"type": f"{prefix}_part.added", "part": part | {"text": ""}} | at, 0)]
    steps += [({"type": f"{prefix}_text.delta", "delta": token} | at, 1) for token in tokens]
    steps.append(({"type": f"{prefix}_text.done", "text": part["text"]} | at, 0))
    steps.append(({"type": f"{prefix}_part.done", "part": part} | at, 0))
    item = {"id": f"rs_{answer.key}", "type": "reasoning", "summary": [part], "status": "completed"}
    return item | {"encrypted_content": answer.signature}, steps


def _message(answer: Answer, kind: str, member: str, tokens: tuple[str, ...]) -> tuple[Json, Steps]:
    extra: Json = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    noted: Json = {"logprobs": []} if extra else {}
    part = {"type": kind, member: "".join(tokens)} | extra
    at = {"content_index": 0}
    steps: list[tuple[Json, int]] = [
        ({"type": "response.content_part.added", "part": part | {member: ""}} | at, 0)
    ]
    steps += [({"type": f"response.{kind}.delta", "delta": token} | at | noted, 1) for token in tokens]
    steps.append(({"type": f"response.{kind}.done", member: part[member]} | at | noted, 0))
    steps.append(({"type": "response.content_part.done", "part": part} | at, 0))
    item = {"id": f"msg_{answer.key}", "type": "message", "role": "assistant", "content": [part]}
    return item | {"status": _ended(answer)}, steps


def _function_call(call: Call) -> tuple[Json, Steps]:
    arguments = "".join(call.pieces)
    prefix = "response.function_call_arguments"
    steps: list[tuple[Json, int]] = [
        ({"type": f"{prefix}.delta", "delta": piece}, 1) for piece in call.pieces
    ]
    steps.append(({"type": f"{prefix}.done", "name": call.name, "arguments": arguments}, 0))
    item = {"id": f"fc_{call.id}", "type": "function_call", "call_id": f"call_{call.id}", "name": call.name}
    return item | {"arguments": arguments, "status": "completed"}, steps


DIALECT = Dialect(read, whole, events, openai_error, failing, "x-request-id")
