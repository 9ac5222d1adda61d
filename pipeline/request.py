"""The request body of an exchange to what the record says of it. Pure; no bytes make it raise.

A body that is a strict JSON object goes into the line as the bytes it is. Anything else is read as far as it can be,
flagged, and kept raw beside that.
"""

from typing import Any

import msgspec

from pipeline.exchange import RawExchange
from pipeline.sides import REQUEST, open_body, read_object

SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "top_a",
    "min_p",
    "typical_p",
    "tfs_z",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "epsilon_cutoff",
    "eta_cutoff",
    "dynatemp_range",
    "dynatemp_exponent",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "samplers",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "min_tokens",
    "min_new_tokens",
    "max_tool_calls",
    "n",
    "n_predict",
    "best_of",
    "use_beam_search",
    "length_penalty",
    "seed",
    "random_seed",
    "stop",
    "stop_sequences",
    "stop_token_ids",
    "stop_regex",
    "include_stop_str_in_output",
    "no_stop_trim",
    "ignore_eos",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "repeat_penalty",
    "repeat_last_n",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "no_repeat_ngram_size",
    "bad_words",
    "logit_bias",
    "allowed_token_ids",
    "custom_logit_processor",
    "logits_processors",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "return_token_ids",
    "return_prompt_token_ids",
    "return_tokens_as_token_ids",
    "reasoning",
    "reasoning_effort",
    "reasoning_format",
    "reasoning_budget",
    "include_reasoning",
    "separate_reasoning",
    "enable_thinking",
    "thinking",
    "thinking_budget",
    "thinking_token_budget",
    "verbosity",
    "text",
    "output_config",
    "chat_template_kwargs",
    "tool_choice",
    "parallel_tool_calls",
    "function_call",
    "response_format",
    "output_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "grammar",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
    "guardrails",
    "safety_settings",
    "safe_prompt",
    "modalities",
    "audio",
    "prediction",
    "web_search_options",
    "search_parameters",
    "plugins",
    "context_management",
    "truncation",
    "truncate_prompt_tokens",
    "skip_special_tokens",
    "continue_final_message",
    "add_generation_prompt",
    "lora_path",
    "priority",
    "speed",
    "service_tier",
    "provider",
    "models",
    "route",
    "transforms",
)
"""Members of a request that steer how the answer is made, those of open model servers included; copied into
`sampling` as they came. What the answer is about (messages, input, tools) is not among them."""

_STEERING = frozenset(SAMPLING)


class Request(msgspec.Struct, frozen=True, gc=False):
    """What a request says. `stored` goes into the line; `raw` is the body, its coding undone if it could be."""

    stored: Any
    raw: bytes
    flags: frozenset[str]
    model: str | None = None
    stream: bool | None = None
    sampling: dict[str, Any] | None = None


def read_request(exchange: RawExchange, coding: str | None) -> Request:
    """Read the request body; `coding` is its `content-encoding` header."""
    cut = exchange.request_sha256 is not None
    body = open_body(exchange.request_chunks, REQUEST, coding, cut=cut)
    value, stored = read_object(body, REQUEST) if body.raw and body.plain else (None, None)
    if not isinstance(value, dict):
        return Request(None, body.raw, frozenset(body.flags))
    model, stream = value.get("model"), value.get("stream")
    return Request(
        stored=stored,
        raw=body.raw,
        flags=frozenset(body.flags),
        model=model if isinstance(model, str) else None,
        stream=stream if isinstance(stream, bool) else None,
        sampling={name: item for name, item in value.items() if name in _STEERING} or None,
    )
