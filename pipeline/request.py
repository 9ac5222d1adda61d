"""The request body of an exchange to what the record says of it. Pure; no bytes make it raise.

A body that is a strict JSON object goes into the line as the bytes it is. Anything else is read as far as it can be,
flagged, and kept raw beside that.
"""

from typing import Any, NamedTuple

from pipeline.bodies import BodyError, decode, embed, heal
from pipeline.codings import CodingError, undo
from pipeline.exchange import RawExchange

SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n",
    "seed",
    "stop",
    "stop_sequences",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "reasoning",
    "reasoning_effort",
    "thinking",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "service_tier",
)
"""Members of a request that steer how the answer is sampled; copied into `sampling` as they came."""


class Request(NamedTuple):
    """What a request says. `stored` goes into the line; `raw` is the body, its coding undone if it could be."""

    stored: Any
    raw: bytes
    flags: frozenset[str]
    model: str | None = None
    stream: bool | None = None
    sampling: dict[str, Any] | None = None


def read_request(exchange: RawExchange, coding: str | None) -> Request:
    """Read the request body; `coding` is its `content-encoding` header."""
    flags: set[str] = set()
    chunks: list[bytes] = list(exchange.request_chunks)
    if exchange.request_sha256 is not None:
        flags.add("request_body_cut")
    if coding:
        try:
            chunks = undo(chunks, coding)
            flags.add("request_encoded")
        except CodingError:
            return Request(None, b"".join(chunks), frozenset(flags | {"undecodable_request"}))
    raw = b"".join(chunks)
    return _read(raw, flags) if raw else Request(None, raw, frozenset(flags))


def _read(raw: bytes, flags: set[str]) -> Request:
    try:
        found = decode(raw)
    except BodyError:
        return Request(None, raw, frozenset(flags | {"undecodable_request"}))
    value = heal(found.value)[0] if found.halves else found.value
    if found.lenient:
        flags.add("lenient_request")
    if found.byte_order_mark:
        flags.add("byte_order_mark")
    if not isinstance(value, dict):
        return Request(None, raw, frozenset(flags | {"request_not_object"}))
    plain = not found.lenient and not found.byte_order_mark
    stored = (embed(raw) if plain else None) or value
    model, stream = value.get("model"), value.get("stream")
    return Request(
        stored=stored,
        raw=raw,
        flags=frozenset(flags),
        model=model if isinstance(model, str) else None,
        stream=stream if isinstance(stream, bool) else None,
        sampling={name: value[name] for name in SAMPLING if name in value} or None,
    )
