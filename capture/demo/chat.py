"""Chat Completions as OpenAI documents it, with `reasoning_content` as vLLM, SGLang and DeepSeek send it.

Source: platform.openai.com/docs/api-reference/chat. With `n` choices the chunks of all of them are interleaved.
"""

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Annotated, Any

import msgspec

from capture.demo.answers import CREATED, Answer, Ask, Call, Choice, weigh
from capture.demo.wire import Dialect, Json, Piece, Problem, event, openai_error, read_typed

FINISH = {"stop": "stop", "calls": "tool_calls", "length": "length", "refusal": "stop"}


class Request(msgspec.Struct):
    """The members of a request that decide the answer."""

    model: str
    messages: list[dict[str, Any]]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=16)] | None = None
    tools: list[dict[str, Any]] | None = None


def read(body: bytes) -> Ask:
    """Understand a request; a round of tools is an assistant's message that made calls."""
    request: Request = read_typed(body, Request)
    seed, tokens, cached = weigh(request.model, request.messages)
    functions = [tool.get("function") for tool in request.tools or ()]
    return Ask(
        model=request.model,
        stream=bool(request.stream),
        stream_usage=bool((request.stream_options or {}).get("include_usage")),
        choices=request.n or 1,
        rounds_done=sum(1 for message in request.messages if message.get("tool_calls")),
        tools=tuple(
            str(function["name"])
            for function in functions
            if isinstance(function, dict) and "name" in function
        ),
        seed=seed,
        input_tokens=tokens,
        cached_tokens=cached,
    )


def whole(_ask: Ask, answer: Answer) -> Json:
    """Return the response unstreamed."""
    choices = [
        {
            "index": index,
            "message": _message(choice),
            "logprobs": None,
            "finish_reason": FINISH[choice.finish],
        }
        for index, choice in enumerate(answer.choices)
    ]
    return _head(answer, "chat.completion") | {"choices": choices, "usage": _usage(answer)}


def events(ask: Ask, answer: Answer) -> Iterator[Piece]:
    """Yield the response streamed, `[DONE]` included."""
    head = _head(answer, "chat.completion.chunk")
    pending = {"usage": None} if ask.stream_usage else {}
    streams = [_deltas(index, choice) for index, choice in enumerate(answer.choices)]
    for found in chain.from_iterable(zip_longest(*streams)):
        if found is not None:
            choice, tokens = found
            yield event(head | {"choices": [choice]} | pending, tokens=tokens, named=False)
    if ask.stream_usage:
        yield event(head | {"choices": [], "usage": _usage(answer)}, named=False)
    yield Piece(b"data: [DONE]\n\n")


def failing(_ask: Ask, _answer: Answer, problem: Problem, _sent: int) -> Iterator[Piece]:
    """Yield an error in place of a chunk, after which OpenAI and vLLM close the stream."""
    yield event(openai_error(problem), named=False)


def _head(answer: Answer, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{answer.key}",
        "object": kind,
        "created": CREATED,
        "model": answer.served,
        "system_fingerprint": f"fp_{answer.key[:10]}",
    }


def _message(choice: Choice) -> Json:
    message: Json = {
        "role": "assistant",
        "content": "".join(choice.text) if choice.text else None,
        "refusal": "".join(choice.refusal) if choice.refusal else None,
    }
    if choice.reasoning:
        message["reasoning_content"] = "".join(choice.reasoning)
    if choice.calls:
        message["tool_calls"] = [_call(call, "".join(call.pieces)) for call in choice.calls]
    return message


def _call(call: Call, arguments: str) -> Json:
    return {
        "id": f"call_{call.id}",
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _deltas(index: int, choice: Choice) -> Iterator[tuple[Json, int]]:
    """Yield each chunk's choice and its number of tokens."""
    for delta, tokens in _contents(choice):
        yield {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}, tokens
    yield {"index": index, "delta": {}, "logprobs": None, "finish_reason": FINISH[choice.finish]}, 0


def _contents(choice: Choice) -> Iterator[tuple[Json, int]]:
    yield {"role": "assistant", "content": "" if choice.text else None, "refusal": None}, 0
    for member, tokens in (
        ("reasoning_content", choice.reasoning),
        ("content", choice.text),
        ("refusal", choice.refusal),
    ):
        for token in tokens:
            yield {member: token}, 1
    for number, call in enumerate(choice.calls):
        yield {"tool_calls": [{"index": number} | _call(call, "")]}, 0
        for piece in call.pieces:
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}, 1


def _usage(answer: Answer) -> Json:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens, "audio_tokens": 0},
    }


DIALECT = Dialect(read, whole, events, openai_error, failing, "x-request-id")
