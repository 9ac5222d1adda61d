"""The usage reports of public APIs and servers as they document them, each with its counts in normal form."""

from typing import Any

import pytest

from pipeline.usage import normalise

Shape = tuple[dict[str, Any], dict[str, Any]]

SHAPES: dict[str, Shape] = {
    "OpenAI API reference, chat completion object: audio in and out": (
        {
            "prompt_tokens": 19,
            "completion_tokens": 10,
            "total_tokens": 29,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 6},
        },
        {
            "input_tokens": 19,
            "input_tokens_uncached": 19,
            "cache_read_tokens": 0,
            "output_tokens": 10,
            "reasoning_tokens": 0,
            "total_tokens": 29,
            "input_audio_tokens": 4,
            "output_audio_tokens": 6,
        },
    ),
    "Anthropic API reference, Usage: two tiers of cache and server tools": (
        {
            "input_tokens": 3,
            "cache_read_input_tokens": 50,
            "cache_creation_input_tokens": 30,
            "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 4},
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
            "service_tier": "standard",
        },
        {
            "input_tokens": 83,
            "input_tokens_uncached": 3,
            "cache_read_tokens": 50,
            "cache_write_tokens": 30,
            "cache_write_5m_tokens": 10,
            "cache_write_1h_tokens": 20,
            "output_tokens": 7,
            "reasoning_tokens": 4,
            "server_tool_calls": {"web_search_requests": 2, "web_fetch_requests": 1},
        },
    ),
    "vLLM OpenAI server, UsageInfo with enable-prompt-tokens-details": (
        {
            "prompt_tokens": 9,
            "total_tokens": 12,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
        {
            "input_tokens": 9,
            "input_tokens_uncached": 1,
            "cache_read_tokens": 8,
            "output_tokens": 3,
            "total_tokens": 12,
        },
    ),
    "SGLang documentation, OpenAI APIs: reasoning at the top": (
        {
            "prompt_tokens": 36,
            "total_tokens": 44,
            "completion_tokens": 8,
            "prompt_tokens_details": None,
            "reasoning_tokens": 5,
        },
        {"input_tokens": 36, "output_tokens": 8, "total_tokens": 44, "reasoning_tokens": 5},
    ),
    "OpenRouter documentation, usage accounting": (
        {
            "prompt_tokens": 194,
            "completion_tokens": 2,
            "total_tokens": 196,
            "cost": 0.95,
            "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 50, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
            "cost_details": {"upstream_inference_cost": None},
            "server_tool_use": {"web_search_requests": 1},
        },
        {
            "input_tokens": 194,
            "input_tokens_uncached": 44,
            "cache_read_tokens": 100,
            "cache_write_tokens": 50,
            "output_tokens": 2,
            "reasoning_tokens": 0,
            "total_tokens": 196,
            "input_audio_tokens": 0,
            "server_tool_calls": {"web_search_requests": 1},
        },
    ),
    "LiteLLM documentation, prompt caching: both families' members at once, tiers inside the details": (
        {
            "prompt_tokens": 1000,
            "completion_tokens": 10,
            "total_tokens": 1010,
            "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 40,
            "prompt_tokens_details": {
                "cached_tokens": 900,
                "cache_creation_tokens": 40,
                "cache_creation_token_details": {
                    "ephemeral_5m_input_tokens": 30,
                    "ephemeral_1h_input_tokens": 10,
                },
            },
        },
        {
            "input_tokens": 1000,
            "input_tokens_uncached": 60,
            "cache_read_tokens": 900,
            "cache_write_tokens": 40,
            "cache_write_5m_tokens": 30,
            "cache_write_1h_tokens": 10,
            "output_tokens": 10,
            "total_tokens": 1010,
        },
    ),
    "Groq API reference: times beside the tokens": (
        {
            "queue_time": 0.03,
            "prompt_tokens": 18,
            "prompt_time": 0.0002,
            "completion_tokens": 556,
            "completion_time": 0.46,
            "total_tokens": 574,
            "total_time": 0.46,
        },
        {"input_tokens": 18, "output_tokens": 556, "total_tokens": 574},
    ),
    "xAI API reference, chat: reasoning beside the completion, sources": (
        {
            "prompt_tokens": 32,
            "completion_tokens": 9,
            "total_tokens": 135,
            "prompt_tokens_details": {
                "text_tokens": 32,
                "audio_tokens": 0,
                "image_tokens": 0,
                "cached_tokens": 6,
            },
            "completion_tokens_details": {"reasoning_tokens": 94, "audio_tokens": 0},
            "num_sources_used": 3,
        },
        {
            "input_tokens": 32,
            "input_tokens_uncached": 26,
            "cache_read_tokens": 6,
            "output_tokens": 9,
            "reasoning_tokens": 94,
            "total_tokens": 135,
            "input_audio_tokens": 0,
            "output_audio_tokens": 0,
            "server_tool_calls": {"num_sources_used": 3},
        },
    ),
    "xAI API reference, responses: server-side tools": (
        {
            "input_tokens": 5,
            "output_tokens": 2,
            "total_tokens": 7,
            "num_server_side_tools_used": 2,
            "server_side_tool_usage_details": {"web_search_calls": 2, "x_search_calls": 0},
        },
        {
            "input_tokens": 5,
            "output_tokens": 2,
            "total_tokens": 7,
            "server_tool_calls": {
                "num_server_side_tools_used": 2,
                "web_search_calls": 2,
                "x_search_calls": 0,
            },
        },
    ),
    "Mistral API reference, UsageInfo": (
        {
            "prompt_tokens": 16,
            "completion_tokens": 34,
            "total_tokens": 50,
            "num_cached_tokens": 8,
            "prompt_audio_seconds": None,
        },
        {
            "input_tokens": 16,
            "input_tokens_uncached": 8,
            "cache_read_tokens": 8,
            "output_tokens": 34,
            "total_tokens": 50,
        },
    ),
    "Gemini API reference, UsageMetadata": (
        {
            "promptTokenCount": 10,
            "candidatesTokenCount": 4,
            "thoughtsTokenCount": 6,
            "cachedContentTokenCount": 3,
            "totalTokenCount": 20,
        },
        {
            "input_tokens": 10,
            "input_tokens_uncached": 7,
            "cache_read_tokens": 3,
            "output_tokens": 4,
            "reasoning_tokens": 6,
            "total_tokens": 20,
        },
    ),
    "Gemini API documentation, OpenAI compatibility: thoughts only in the total": (
        {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 20},
        {"input_tokens": 10, "output_tokens": 4, "total_tokens": 20},
    ),
    "Amazon Bedrock API reference, TokenUsage": (
        {
            "inputTokens": 12,
            "outputTokens": 5,
            "totalTokens": 117,
            "cacheReadInputTokens": 100,
            "cacheWriteInputTokens": 0,
        },
        {
            "input_tokens": 112,
            "input_tokens_uncached": 12,
            "cache_read_tokens": 100,
            "cache_write_tokens": 0,
            "output_tokens": 5,
            "total_tokens": 117,
        },
    ),
    "DeepSeek API reference: hits and misses": (
        {
            "prompt_tokens": 9,
            "prompt_cache_hit_tokens": 4,
            "prompt_cache_miss_tokens": 5,
            "completion_tokens": 1,
        },
        {"input_tokens": 9, "input_tokens_uncached": 5, "cache_read_tokens": 4, "output_tokens": 1},
    ),
    "Moonshot API documentation: cached tokens at the top": (
        {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "cached_tokens": 4},
        {
            "input_tokens": 9,
            "input_tokens_uncached": 5,
            "cache_read_tokens": 4,
            "output_tokens": 1,
            "total_tokens": 10,
        },
    ),
    "Cohere API reference, chat v2: what was billed beside what was read": (
        {
            "billed_units": {"input_tokens": 5, "output_tokens": 4},
            "tokens": {"input_tokens": 71, "output_tokens": 6},
            "cached_tokens": 64,
        },
        {"input_tokens": 71, "input_tokens_uncached": 7, "cache_read_tokens": 64, "output_tokens": 6},
    ),
    "OpenAI API reference, realtime: details in the singular": (
        {
            "input_tokens": 127,
            "input_token_details": {"cached_tokens": 64, "audio_tokens": 8},
            "output_token_details": {"audio_tokens": 118},
        },
        {
            "input_tokens": 127,
            "input_tokens_uncached": 63,
            "cache_read_tokens": 64,
            "input_audio_tokens": 8,
            "output_audio_tokens": 118,
        },
    ),
    "Perplexity API reference: searches": (
        {"prompt_tokens": 8, "completion_tokens": 9, "total_tokens": 17, "num_search_queries": 2},
        {
            "input_tokens": 8,
            "output_tokens": 9,
            "total_tokens": 17,
            "server_tool_calls": {"num_search_queries": 2},
        },
    ),
}


@pytest.mark.parametrize("source", SHAPES)
def test_documented_reports(source: str) -> None:
    """Each documented report is told in normal form, what it does not say is null, and none of it is bad."""
    report, expected = SHAPES[source]
    usage, bad = normalise(report)
    found = {field: getattr(usage, field) for field in usage.__struct_fields__}
    assert {field: value for field, value in found.items() if value is not None} == expected
    assert not bad
