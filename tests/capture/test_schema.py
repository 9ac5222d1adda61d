"""The schemas in the distribution: current, true of real lines, and never less than they once were."""

import json
from pathlib import Path
from typing import Any

import pytest

from capture.cli import main
from capture.schema import SCHEMAS, make_schema, schema_text, write_schemas
from tests.capture.stored import line_of

PINNED = Path(__file__).with_name("pinned")
"""For each schema what its fields were when they were published, a line each. Add lines; change none."""


def word(shape: dict[str, Any]) -> str:
    """Name a field's type in a few words: `string or null`, `array of ToolCall`, `any`."""
    if "anyOf" in shape:
        return " or ".join(sorted(word(each) for each in shape["anyOf"]))
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    if shape.get("type") == "array":
        return f"array of {word(shape['items'])}"
    if isinstance(shape.get("additionalProperties"), dict):
        return f"object of {word(shape['additionalProperties'])}"
    return str(shape.get("type", "any"))


def fields(schema: dict[str, Any]) -> dict[str, str]:
    """Return `Type.field` and its type for every field of a schema."""
    return {
        f"{owner}.{name}": word(shape)
        for owner, made in schema["$defs"].items()
        for name, shape in made["properties"].items()
    }


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_what_its_type_says(name: str, tmp_path: Path) -> None:
    """The file in the distribution is the one that would be written from the type now."""
    write_schemas(tmp_path)
    assert (tmp_path / f"{name}.json").read_text(encoding="utf-8") == schema_text(name)
    assert json.loads(schema_text(name)) == make_schema(name)


@pytest.mark.parametrize("name", SCHEMAS)
def test_no_published_field_is_removed_or_retyped(name: str) -> None:
    """Every field that was published is there with its type; new ones are allowed, and are to be published, too."""
    lines = (PINNED / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    published = dict(line.split(": ") for line in lines)
    now = fields(make_schema(name))
    assert {each: now.get(each) for each in published} == published
    assert now.keys() == published.keys(), "add the new fields to the published ones"


def test_a_schema_names_exactly_what_a_line_holds() -> None:
    """The members of a real line are the properties of the schema, in their order."""
    whole = make_schema("model-call-1")["$defs"]["ModelCallRecord"]["properties"]
    assert list(json.loads(line_of(1))) == list(whole)


def test_a_schema_allows_members_that_it_does_not_know() -> None:
    """A newer writer's fields do not make a line invalid."""
    made = make_schema("model-call-1")["$defs"].values()
    assert all(each.get("additionalProperties", True) is True for each in made)


def test_the_command_prints_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    """`capture schema` prints the file as it is, and with `--json` the same on one line."""
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == schema_text("model-call-1")
    assert main(["schema", "model-call-1", "--json"]) == 0
    out = capsys.readouterr().out
    assert (out.count("\n"), json.loads(out)) == (1, make_schema("model-call-1"))


def test_an_unknown_schema_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is none is a wrong argument on the command line, and a KeyError in the library."""
    assert main(["schema", "../secrets"]) == 2
    assert "model-call-1" in capsys.readouterr().err
    with pytest.raises(KeyError):
        schema_text("../secrets")
