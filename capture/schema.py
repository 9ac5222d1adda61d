"""The JSON Schemas of what is stored and of its views, made from the types and kept as files in the distribution.

The types are the contract; a schema file is what they say, for readers in other languages. `python -m capture.schema`
writes the files anew, and a test fails while one of them is not what its type says. A schema allows members it does
not know, as the format does: fields are added, never removed or retyped.
"""

import json
import sys
from collections.abc import Mapping
from importlib.resources import files
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

import msgspec

from pipeline.record import ModelCallRecord

from .merge import ModelCallCapture, TrajectoryCapture
from .metrics import RolloutMetrics
from .steps import StepRecord
from .trajectory import Trajectory

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
"""The version of JSON Schema that msgspec speaks."""

SCHEMAS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "model-call-1": ModelCallRecord,
    "step-1": StepRecord,
    "rollout-metrics-1": RolloutMetrics,
    "trajectory-1": Trajectory,
    "ng-model-call-capture-1": ModelCallCapture,
    "ng-trajectory-capture-1": TrajectoryCapture,
}
"""Name of a schema, and of its file, to the type it is made from."""


def make_schema(name: str) -> dict[str, Any]:
    """Make the schema of that name from its type. Raises KeyError for a name that is none of `SCHEMAS`."""
    made = msgspec.json.schema(SCHEMAS[name])
    for shape in made["$defs"].values():
        if "description" in shape:  # from a docstring, whose indents older releases of msgspec leave
            shape["description"] = cleandoc(shape["description"])
    return {"$schema": DRAFT, "title": name, **made}


def schema_text(name: str) -> str:
    """Return the schema of that name as its file holds it: JSON of several lines, with a line end.

    Raises KeyError for a name that is none of `SCHEMAS`.
    """
    if name not in SCHEMAS:
        raise KeyError(name)
    return (files("capture") / "schemas" / f"{name}.json").read_text(encoding="utf-8")


def write_schemas(folder: Path) -> None:
    """Write every schema into a folder, from the types."""
    folder.mkdir(exist_ok=True)
    for name in SCHEMAS:
        text = json.dumps(make_schema(name), indent=2) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_name("schemas"))
