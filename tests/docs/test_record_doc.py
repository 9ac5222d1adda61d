"""docs/record.md against the code: all fields, flags, categories, finishes and gap codes are there, nothing else."""

import types
import typing
from typing import Any

import msgspec
import pytest

from pipeline import gaps, record
from pipeline.dialects.finish import FINISH
from pipeline.error_codes import CODES, KIND_CATEGORIES
from pipeline.flags import FLAGS
from pipeline.provider_error import classify_status
from tests.docs.blocks import ROOT, rows

DOCUMENT = ROOT / "docs" / "record.md"
BLOCKS = ("The call", "Identity", "Meaning", "Trouble", "Transport")
PARTS: dict[str, type[msgspec.Struct]] = {
    "Correlation": record.CorrelationNote,
    "Server": record.ServerNote,
    "Usage": record.Usage,
    "Tool calls": record.ToolCall,
    "Error": record.ErrorNote,
    "Timing": record.Timing,
    "HTTP": record.HttpNote,
    "Client": record.ClientNote,
    "Trace": record.TraceNote,
}
JSON_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    Any: "any",
}


def json_type(kind: Any) -> str:  # noqa: ANN401 - an annotation
    """Name a field's type in JSON's words, null apart."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in {types.UnionType, typing.Union}:
        return " or ".join(json_type(each) for each in inner if each is not type(None))
    if origin is list:
        return f"array of {json_type(inner[0])}"
    if origin is dict:
        return "object" if inner[1] is Any else f"object of {json_type(inner[1])}"
    return JSON_TYPES.get(kind, "object")


def documented(*headings: str) -> dict[str, list[str]]:
    """Return the documented rows by the name in their first cell."""
    found = [row for heading in headings for row in rows(DOCUMENT, heading)]
    assert len(found) == len({row[0] for row in found})
    return {row[0].strip("`"): row[1:] for row in found}


def types_of(shape: type[msgspec.Struct]) -> dict[str, str]:
    """Return a type's fields with their JSON types, in order."""
    return {name: json_type(kind) for name, kind in typing.get_type_hints(shape).items()}


def test_every_field_of_the_record_is_documented() -> None:
    """The blocks of docs/record.md list each field of the record once, in the order of the line, with its type."""
    found = documented(*BLOCKS)
    expected = types_of(record.ModelCallRecord)
    assert list(found) == list(expected)
    assert {name: row[0] for name, row in found.items()} == expected


@pytest.mark.parametrize("heading", PARTS)
def test_every_field_of_a_part_is_documented(heading: str) -> None:
    """Each nested object has a table with all of its fields and their types."""
    found = documented(heading)
    assert {name: row[0] for name, row in found.items()} == types_of(PARTS[heading])


@pytest.mark.parametrize("headings", [BLOCKS, *((name,) for name in PARTS)], ids=lambda names: names[0])
def test_what_is_never_null_is_marked_so(headings: tuple[str, ...]) -> None:
    """A field is documented as never null exactly if its type does not allow null."""
    hints = typing.get_type_hints(PARTS.get(headings[0], record.ModelCallRecord))
    for name, row in documented(*headings).items():
        optional = hints[name] is Any or type(None) in typing.get_args(hints[name])
        assert row[2].startswith("never") is not optional, f"{name}: {row[2]}"


def test_every_flag_is_documented() -> None:
    """The table of flags is that of the code: kind, side and meaning."""
    expected = {name: [str(flag.kind), flag.side, flag.meaning] for name, flag in FLAGS.items()}
    assert documented("Flags") == expected


def test_every_category_and_finish_is_documented() -> None:
    """Each category that a code or a status leads to, and each normal form of a finish, is named."""
    statuses = {category for status in range(400, 600) if (category := classify_status(status))}
    assert statuses | {*CODES.values(), *KIND_CATEGORIES.values()} < set(documented("How it ended"))
    text = DOCUMENT.read_text(encoding="utf-8").partition("## Finish\n")[2].partition("\n## ")[0]
    assert all(f"`{form}`" in text for form in {*FINISH.values(), "other"})


def test_every_gap_code_is_documented() -> None:
    """The codes and the fields of gaps are those of the code."""
    codes = [gaps.DROPPED, gaps.FAILED, gaps.LOST, gaps.UNNAMED, gaps.DAMAGED, gaps.UNREADABLE]
    assert list(documented("Gaps")) == [*codes, *gaps.Gap.__struct_fields__]
