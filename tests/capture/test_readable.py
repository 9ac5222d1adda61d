"""JSON values as lines for a person and as one document for a program."""

import json
import math
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.readable import DEPTH_MAX, document, lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=12,
)


def test_a_value_reads_as_an_outline() -> None:
    """Members are indented under their names, items have dashes, text of several lines is a block of its own."""
    value = {"a": {"b": 1, "c": [True, None, "x"]}, "text": "one\n  two\n", "empty": [], "none": {}}
    assert list(lines(value)) == [
        "a:",
        "  b: 1",
        "  c:",
        "    - true",
        "    - null",
        "    - x",
        "text: |",
        "  one",
        "    two",
        "  ",
        "empty: []",
        "none: {}",
    ]


@pytest.mark.parametrize("text", ["", "null", "true", "false", " padded "])
def test_text_that_could_be_taken_for_something_else_is_quoted(text: str) -> None:
    """Empty text, the words of JSON and outer spaces stay visible as text."""
    assert list(lines({"a": text})) == [f'a: "{text}"']


@pytest.mark.parametrize("value", [3, "x", None, [], "two\nlines"])
def test_a_body_need_not_be_an_object(value: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    """A body of any JSON type gives at least a line."""
    assert "".join(lines(value))


@given(VALUES)
def test_lines_hold_no_control_character_but_tabs(value: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    """Whatever a body holds, a line is one line and obeyed by no terminal."""
    hidden = {unicodedata.category(sign) for line in lines(value) for sign in line if sign != "\t"}
    assert not hidden & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_depth_is_bounded() -> None:
    """A value as deep as a record can hold is written, its deepest part on one line."""
    value: Any = "core"
    for _ in range(700):
        value = [value]
    found = list(lines(value))
    assert len(found) == DEPTH_MAX
    assert "core" in found[-1]
    assert json.loads(document(value)) == value


@given(VALUES)
def test_a_document_is_one_line_of_ascii_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    """It reads back as what it was, but that numbers which JSON lacks are null."""
    text = document(value)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text, parse_constant=pytest.fail) == _finite(value)


def _finite(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def test_a_nested_text_keeps_its_indentation() -> None:
    """The name in front of a text of several lines stands under its parent."""
    assert list(lines({"a": {"text": "x\ny"}})) == ["a:", "  text: |", "    x", "    y"]
