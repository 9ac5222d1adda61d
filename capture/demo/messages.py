"""Messages as Anthropic documents it: content blocks, thinking with its signature, input JSON in pieces.

Source: platform.claude.com/docs/en/build-with-claude/streaming. `input_tokens` leaves out what came from the cache,
and a stream reports its usage twice: at the start and, with the output, at the end.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from capture.demo.answers import Answer, Ask, Call, Choice, weigh
from capture.demo.wire import Dialect, Json, Piece, Problem, event, read_typed

STOP = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal"}

ERRORS = {
    "bad_request": "invalid_request_error",
    "context_length": "invalid_request_error",
    "not_found": "not_found_error",
    "rate_limit": "rate_limit_error",
    "server_error": "api_error",
    "overloaded": "overloaded_error",
}


class Request(msgspec.Struct):
    """The members of a request that decide the answer."""

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int | None = None
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None


def read(body: bytes) -> Ask:
    """Understand a request; a round of tools is a user's message with results in it."""
    request: Request = read_typed(body, Request)
    seed, tokens, cached = weigh(request.model, request.messages)
    return Ask(
        model=request.model,
        stream=bool(request.stream),
        rounds_done=sum(1 for message in request.messages if _has_results(message)),
        tools=tuple(str(tool["name"]) for tool in request.tools or () if "name" in tool),
        seed=seed,
        input_tokens=tokens,
        cached_tokens=cached,
    )


def whole(_ask: Ask, answer: Answer) -> Json:
    """Return the response unstreamed."""
    choice = answer.choices[0]
    content = [block for block, _ in _blocks(answer, choice)]
    return _message(answer, content, _stop(choice), answer.output_tokens)


def events(_ask: Ask, answer: Answer) -> Iterator[Piece]:
    """Yield the response streamed, with the ping that follows the first block's start."""
    choice = answer.choices[0]
    yield event({"type": "message_start", "message": _message(answer, [], NOT_STOPPED, 1)})
    for index, (block, deltas) in enumerate(_blocks(answer, choice)):
        yield event(
            {"type": "content_block_start", "index": index, "content_block": block | EMPTY[block["type"]]}
        )
        if index == 0:
            yield event({"type": "ping"})
        for delta, tokens in deltas:
            yield event({"type": "content_block_delta", "index": index, "delta": delta}, tokens=tokens)
        yield event({"type": "content_block_stop", "index": index})
    yield event(
        {"type": "message_delta", "delta": _stop(choice), "usage": _usage(answer, answer.output_tokens)}
    )
    yield event({"type": "message_stop"})


def error(problem: Problem) -> Json:
    """Return the body of a failed call."""
    return {"type": "error", "error": {"type": ERRORS[problem.kind], "message": problem.message}}


def failing(_ask: Ask, _answer: Answer, problem: Problem, _sent: int) -> Iterator[Piece]:
    """Yield the `error` event, which is the last one."""
    yield event(error(problem))


NOT_STOPPED: Json = {"stop_reason": None, "stop_sequence": None}

EMPTY: dict[str, Json] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}
"""What a block says of itself before its first delta."""

Deltas = list[tuple[Json, int]]


def _has_results(message: Json) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)


def _stop(choice: Choice) -> Json:
    return {"stop_reason": STOP[choice.finish], "stop_sequence": None}


def _message(answer: Answer, content: list[Json], stop: Json, output_tokens: int) -> Json:
    head: Json = {"id": f"msg_{answer.key}", "type": "message", "role": "assistant", "model": answer.served}
    return head | {"content": content} | stop | {"usage": _usage(answer, output_tokens)}


def _usage(answer: Answer, output_tokens: int) -> Json:
    return {
        "input_tokens": answer.input_tokens - answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": output_tokens,
    }


def _blocks(answer: Answer, choice: Choice) -> Iterator[tuple[Json, Deltas]]:
    """Yield each content block whole, and the deltas that build it up, each with its number of tokens."""
    if choice.reasoning:
        yield _thinking(answer, choice)
    for tokens in (choice.text, choice.refusal):
        if tokens:
            deltas: Deltas = [({"type": "text_delta", "text": token}, 1) for token in tokens]
            yield {"type": "text", "text": "".join(tokens)}, deltas
    for call in choice.calls:
        yield _tool_use(call)


def _thinking(answer: Answer, choice: Choice) -> tuple[Json, Deltas]:
    deltas: Deltas = [({"type": "thinking_delta", "thinking": token}, 1) for token in choice.reasoning]
    deltas.append(({"type": "signature_delta", "signature": answer.signature}, 0))
    block = {"type": "thinking", "thinking": "".join(choice.reasoning), "signature": answer.signature}
    return block, deltas


def _tool_use(call: Call) -> tuple[Json, Deltas]:
    """Give the pieces after an empty one, as Anthropic's streams start."""
    deltas: Deltas = [({"type": "input_json_delta", "partial_json": ""}, 0)]
    deltas += [({"type": "input_json_delta", "partial_json": piece}, 1) for piece in call.pieces]
    arguments = msgspec.json.decode("".join(call.pieces))
    return {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": arguments}, deltas


DIALECT = Dialect(read, whole, events, error, failing, "request-id")
