"""Streams cut everywhere, mixed up and grown large: one record each, the same, readable, in linear time."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.process import encode, process
from tests.exchanges import JSON_BODY, SERVER, cuts, delta, events, exchange, named, read_back, record

CHAT = events(
    delta(role="assistant", content="n\u00e9\U0001f600"),
    delta(reasoning_content="\u2028\u0085", tool_calls=[{"index": 0, "id": "a", "function": {"name": "f"}}]),
    delta(tool_calls=[{"index": 0, "function": {"arguments": '{"x":1}'}}]),
    delta("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
    done=True,
)
RESPONSES = named(
    {"type": "response.created", "response": {"id": "r", "output": [], "status": "in_progress"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "content": []}},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "\u6f22"},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "!"},
    {"type": "response.incomplete", "response": {"id": "r", "status": "incomplete", "output": []}},
)
MESSAGES = named(
    {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 2}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "input": {}}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "[1"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "]"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
)
STREAMS = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
WRITINGS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda body: body,
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "CR": lambda body: body.replace(b"\n", b"\r"),
    "raw characters": lambda body: body.decode().encode().replace(b"\\u6f22", "漢".encode()),
    "comments between": lambda body: body.replace(b"\n\n", b"\n\n: keep-alive\n\n"),
    "no space after the colon": lambda body: body.replace(b"data: ", b"data:"),
}


def timeless(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what says how the chunks came."""
    return {name: value for name, value in fields.items() if name not in {"timing", "response_chunks"}}


@pytest.mark.parametrize("writing", WRITINGS)
@pytest.mark.parametrize("dialect", STREAMS)
def test_the_record_does_not_depend_on_cuts(dialect: str, writing: str) -> None:
    """Whole, byte by byte, in pieces of 7 and 61 and cut in two everywhere: the same record, and nothing odd."""
    body = WRITINGS[writing](STREAMS[dialect])
    whole = record(dialect, body)
    assert whole["complete"]
    assert set(whole["flags"]) <= {"items_recovered"}
    for chunks in cuts(body):
        assert timeless(record(dialect, chunks)) == timeless(whole)


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_prefix_says_no_more_than_it_held(dialect: str) -> None:
    """Every prefix gives a record, and usage or text never goes back as the prefix grows."""
    body, told = STREAMS[dialect], 0
    for size in range(len(body) + 1):
        fields = record(dialect, body[:size])
        counts = sum(value is not None for value in (fields["usage"] or {}).values())
        assert counts >= told
        told = counts


PIECES = [
    *(line + b"\n\n" for body in STREAMS.values() for line in body.split(b"\n\n")),
    b"data: ",
    b"\n",
    b"\r",
    b"\xff\xfe",
    b'{"choices":',
    b"[" * 3000,
    b"null",
    b'"\\ud83d"',
    b"1e999",
    b"data: [DONE]\n\n",
    b"event: error\n",
]


@given(
    st.lists(st.sampled_from(PIECES) | st.binary(max_size=9), max_size=30).map(b"".join),
    st.sampled_from([*STREAMS]),
)
def test_any_bytes_give_a_readable_record(body: bytes, dialect: str) -> None:
    """Fragments of streams in any order, with bytes of any kind between, never fail, streamed or not."""
    for headers in ((), JSON_BODY):
        read_back(exchange(dialect, body, response_headers=headers, request_chunks=(body,)))


ITEM = {
    "type": "response.output_text.delta",
    "output_index": 0,
    "content_index": 0,
    "delta": "word",
    "logprobs": [{}],
}
BLOCK = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word"}}
LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "chat text": ("chat", delta(content="word ")),
    "chat token ids": ("chat", {"choices": [{"index": 0, "delta": {"content": "x"}, "token_ids": [1]}]}),
    "chat arguments": ("chat", delta(tool_calls=[{"index": 0, "function": {"arguments": "x"}}])),
    "chat tool calls without index": ("chat", delta(tool_calls=[{"function": {"arguments": "x"}}])),
    "chat parts": ("chat", delta(content=[{"type": "text", "text": "x"}])),
    "chat log probabilities": (
        "chat",
        {"choices": [{"index": 0, "delta": {}, "logprobs": {"content": [{}]}}]},
    ),
    "responses text": ("responses", ITEM),
    "responses without index": ("responses", {"type": "response.refusal.delta", "delta": "x"}),
    "responses annotations": (
        "responses",
        {"type": "response.output_text.annotation.added", "annotation": {}},
    ),
    "messages text": ("messages", BLOCK),
    "messages without index": ("messages", {"type": "content_block_start", "content_block": {}}),
    "messages of a kind to come": ("messages", {**BLOCK, "delta": {"type": "x_delta", "x": "word"}}),
    "comments": ("chat", {}),
}


@pytest.mark.parametrize("name", LARGE)
def test_long_streams_cost_linear_time(name: str) -> None:
    """Sixteen times the events cost far less than the square of it, for everything that grows."""
    dialect, event = LARGE[name]
    small, large = 1_000, 16_000
    bound = (large // small) ** 2 / 4
    assert cpu_seconds(dialect, event, large) < bound * cpu_seconds(dialect, event, small)


def cpu_seconds(dialect: str, event: dict[str, Any], count: int) -> float:
    """Return the least CPU time of three records of a stream of this event, over and over."""
    raw = exchange(dialect, events(*[event] * count))
    best = 9.0
    for _ in range(3):
        start = time.thread_time()
        encode(process(raw, SERVER, {}))
        best = min(best, time.thread_time() - start)
    return best
