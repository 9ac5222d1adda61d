from typing import Any

import pytest

from pipeline.usage import normalise

SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "messages, all of it cached": (
        {"cache_read_input_tokens": 40, "output_tokens": 1},
        {"input_tokens": 40, "cache_read_tokens": 40, "output_tokens": 1},
    ),
    "messages, no cache told": (
        {"input_tokens": 5, "output_tokens": 2},
        {"input_tokens": 5, "output_tokens": 2},
    ),
    "chat behind a gateway that adds the exclusive family's members": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 1,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 30,
        },
        {
            "input_tokens": 100,
            "input_tokens_uncached": 10,
            "cache_read_tokens": 60,
            "cache_write_tokens": 30,
            "output_tokens": 1,
        },
    ),
    "more cached than there is": (
        {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}},
        {"input_tokens": 3, "cache_read_tokens": 5},
    ),
    "a whole number written as a real": ({"prompt_tokens": 12.0}, {"input_tokens": 12}),
    "only what was billed": ({"billed_units": {"input_tokens": 5}}, {"input_tokens": 5}),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_counts_in_normal_form(name: str) -> None:
    """Every family's counts are told as what they are, and what was not told is null."""
    reported, expected = SHAPES[name]
    usage, bad = normalise(reported)
    found = {field: getattr(usage, field) for field in usage.__struct_fields__}
    assert {field: value for field, value in found.items() if value is not None} == expected
    assert not bad


@pytest.mark.parametrize("value", ["12", -1, True, 1.5, [], {}, "x"])
def test_what_is_no_count_is_unknown_and_told(value: object) -> None:
    """A counter that is no natural number is null, said to be bad, and harms no other."""
    usage, bad = normalise({"prompt_tokens": value, "completion_tokens": 4})
    assert (usage.input_tokens, usage.output_tokens, bad) == (None, 4, True)


def test_counts_of_any_depth_and_type_never_raise() -> None:
    """Members that should be objects may be anything."""
    values: list[Any] = [7, "x", [], None, {"cached_tokens": {}}]
    for value in values:
        normalise({"prompt_tokens_details": value, "cache_creation": value, "server_tool_use": value})
