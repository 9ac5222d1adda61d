"""docs/views.md against the code: relations, evidence, gap codes, keys, and the fields it names."""

import re
import typing

from capture import merge
from capture.calls import Evidence, Relation
from capture.metrics import RolloutMetrics
from capture.schema import SCHEMAS
from capture.steps import SAME_NAME, StepRecord
from tests.docs.blocks import ROOT, rows

DOCUMENT = ROOT / "docs" / "views.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")


def names(heading: str) -> list[str]:
    """Return every name in the first cells of the tables below a heading."""
    return [name for row in rows(DOCUMENT, heading) for name in re.findall(r"`(\w+)`", row[0])]


def test_every_relation_is_documented() -> None:
    """The table of relations is that of the code, in its meaning's order, and every kind of evidence is named."""
    assert sorted(names("The place of a step")) == sorted(typing.get_args(Relation))
    assert all(f"`{kind}`" in TEXT for kind in typing.get_args(Evidence))


def test_every_field_that_is_not_the_records_is_documented() -> None:
    """A step's own fields have a row; the others are the record's, but for the one from inside its response."""
    own = [name for name in StepRecord.__struct_fields__ if name not in SAME_NAME]
    assert sorted(names("Steps")) == sorted([*own, "latency_ttft_ms"])


def test_every_gap_code_and_key_is_documented() -> None:
    """The keys with their forms, and what may be missing."""
    codes = [
        value
        for value in vars(merge).values()
        if isinstance(value, str) and re.match("model_call_capture_", value)
    ]
    assert set(names("Merge")) == {*codes, *merge.FORMS}


def test_what_the_page_names_is_there() -> None:
    """Metrics and schemas that the page speaks of exist."""
    spoken = re.findall(r"`(\w+)`", TEXT.partition("## Metrics")[2].partition("## Trajectory")[0])
    assert set(spoken) - set(RolloutMetrics.__struct_fields__) == {"RolloutMetrics"}
    assert all(f"{name}`" in TEXT for name in SCHEMAS if name != "model-call-1")
