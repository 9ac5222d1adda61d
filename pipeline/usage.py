"""A provider's usage to token counts in normal form. Null is unknown, never zero; nothing is ever added blindly.

Two families count the prompt differently, and one formula for both is wrong for one. In the *inclusive* family (chat,
responses) the prompt count holds the cached tokens; in the *exclusive* one (messages) it is what was neither read
from nor written to the cache. The members decide, not the route: `prompt_tokens` is always inclusive, `input_tokens`
beside top-level cache counts always exclusive. Gateways and clouds spell the same counts in ways of their own; a way
is a row of `PATHS`, and members of two ways in one report are read in the order of the row. Output and total are as
reported; reasoning is never added to them, because providers disagree on whether it is inside.
"""

from typing import Any

from pipeline.record import Usage

_Path = tuple[str, ...]

_TIERS: tuple[_Path, ...] = (
    ("cache_creation",),
    ("prompt_tokens_details", "cache_creation_token_details"),
    ("prompt_tokens_details", "cache_creation"),
)
"""Objects that tell the cache tokens written by how long they are kept."""

PATHS: dict[str, tuple[_Path, ...]] = {
    "input_tokens": (
        ("prompt_tokens",),
        ("input_tokens",),
        ("inputTokens",),
        ("promptTokenCount",),
        ("inputTokenCount",),
        ("tokens", "input_tokens"),
        ("billed_units", "input_tokens"),
    ),
    "output_tokens": (
        ("completion_tokens",),
        ("output_tokens",),
        ("outputTokens",),
        ("candidatesTokenCount",),
        ("outputTokenCount",),
        ("tokens", "output_tokens"),
        ("billed_units", "output_tokens"),
    ),
    "total_tokens": (("total_tokens",), ("totalTokens",), ("totalTokenCount",)),
    "cache_read_tokens": (
        ("prompt_tokens_details", "cached_tokens"),
        ("prompt_token_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
        ("input_token_details", "cached_tokens"),
        ("cache_read_input_tokens",),
        ("prompt_cache_hit_tokens",),
        ("cached_tokens",),
        ("num_cached_tokens",),
        ("cacheReadInputTokens",),
        ("cacheReadInputTokenCount",),
        ("cachedContentTokenCount",),
    ),
    "cache_write_tokens": (
        ("prompt_tokens_details", "cache_write_tokens"),
        ("prompt_tokens_details", "cache_creation_tokens"),
        ("prompt_tokens_details", "cache_creation_input_tokens"),
        ("input_tokens_details", "cache_write_tokens"),
        ("input_tokens_details", "cache_creation_tokens"),
        ("cache_creation_input_tokens",),
        ("cacheWriteInputTokens",),
        ("cacheWriteInputTokenCount",),
    ),
    "cache_write_5m_tokens": tuple((*way, "ephemeral_5m_input_tokens") for way in _TIERS),
    "cache_write_1h_tokens": tuple((*way, "ephemeral_1h_input_tokens") for way in _TIERS),
    "reasoning_tokens": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "thinking_tokens"),
        ("reasoning_tokens",),
        ("reasoning_output_tokens",),
        ("thoughtsTokenCount",),
    ),
    "input_audio_tokens": (
        ("prompt_tokens_details", "audio_tokens"),
        ("input_tokens_details", "audio_tokens"),
        ("input_token_details", "audio_tokens"),
    ),
    "output_audio_tokens": (
        ("completion_tokens_details", "audio_tokens"),
        ("output_tokens_details", "audio_tokens"),
        ("output_token_details", "audio_tokens"),
    ),
}
"""Count in normal form to the members it may be in, first one that is there wins."""

_SERVER_TOOLS: tuple[str, ...] = (
    "server_tool_use",
    "server_tool_use_details",
    "server_side_tool_usage_details",
)
_SERVER_TOOL_COUNTS: tuple[str, ...] = (
    "num_sources_used",
    "num_search_queries",
    "num_server_side_tools_used",
)
_TOOL_MEMBERS = frozenset((*_SERVER_TOOLS, *_SERVER_TOOL_COUNTS, "tool_usage"))


_WAYS: dict[str, list[tuple[str, int, _Path]]] = {}
for _name, _paths in PATHS.items():
    for _rank, (_first, *_rest) in enumerate(_paths):
        _WAYS.setdefault(_first, []).append((_name, _rank, tuple(_rest)))
"""Member of a report to the counts that may be in it: the count, its rank there, the rest of the path."""


def normalise(usage: dict[str, Any]) -> tuple[Usage, bool]:
    """Return the counts, and whether a value was there that is no count (then unknown)."""
    ranks: dict[str, int] = {}
    counts: dict[str, int | None] = {}
    for member, inside in usage.items():
        for name, rank, rest in _WAYS.get(member, ()):
            value = _at(inside, rest) if rest else inside
            if value is not None and rank < ranks.get(name, rank + 1):
                ranks[name], counts[name] = rank, _count(value)
    bad = None in counts.values()
    whole, uncached = _prompt(counts, exclusive=_is_exclusive(usage))
    counts["input_tokens"] = whole
    return Usage(input_tokens_uncached=uncached, server_tool_calls=_server_tools(usage), **counts), bad


def _at(found: Any, path: _Path) -> Any:  # noqa: ANN401 - whatever the provider put there
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _count(value: Any) -> int | None:  # noqa: ANN401 - whatever the provider put there
    if value.__class__ is float and value.is_integer():
        value = int(value)
    return value if value.__class__ is int and value >= 0 else None


def _is_exclusive(usage: dict[str, Any]) -> bool:
    if "prompt_tokens" in usage or "input_tokens_details" in usage:
        return False
    beside = _BESIDE_THE_PROMPT.intersection(usage)
    return bool(beside) and any(usage[key] is not None for key in beside)


_BESIDE_THE_PROMPT = frozenset(
    {
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "cacheReadInputTokens",
        "cacheWriteInputTokens",
        "cacheReadInputTokenCount",
        "cacheWriteInputTokenCount",
    }
)
"""Members with cache tokens that the prompt count does not hold."""


def _prompt(counts: dict[str, int | None], *, exclusive: bool) -> tuple[int | None, int | None]:
    """Return the whole prompt and its uncached part."""
    reported, read = counts.get("input_tokens"), counts.get("cache_read_tokens")
    written = counts.get("cache_write_tokens")
    cached = (read or 0) + (written or 0)
    if exclusive:
        known = reported is not None or cached > 0
        return ((reported or 0) + cached if known else None), reported
    if reported is None or read is None or cached > reported:
        return reported, None
    return reported, reported - cached


def _server_tools(usage: dict[str, Any]) -> dict[str, int] | None:
    if _TOOL_MEMBERS.isdisjoint(usage):
        return None
    found = {key: usage.get(key) for key in _SERVER_TOOL_COUNTS}
    for name in _SERVER_TOOLS:
        group = usage.get(name)
        found |= group if isinstance(group, dict) else {}
    tools = usage.get("tool_usage")
    found |= {name: _at(tools, (name, "num_requests")) for name in tools} if isinstance(tools, dict) else {}
    counts = {str(key): count for key, value in found.items() if (count := _count(value)) is not None}
    return counts or None
