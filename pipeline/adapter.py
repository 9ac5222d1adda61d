"""What a handler declares of its own exchange, to the record's fields of a proxy: a table of annotations.

A handler that stands in front of a model knows what no byte of the exchange says: whether the model was asked at all,
which status it gave, whether the answer was made up on the spot and why. It says so by annotations of the fields'
names. A value of another type than the field's stays an annotation only.
"""

from collections.abc import Callable
from typing import Any

from pipeline.record import OVERFLOW


def _is_text_map(value: Any) -> bool:  # noqa: ANN401 - whatever the handler noted
    return isinstance(value, dict) and all(isinstance(part, str) for pair in value.items() for part in pair)


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "model_ref": _is_text_map,
    "upstream_attempted": lambda value: isinstance(value, bool),
    "response_source": lambda value: value in ("upstream", "local"),
    "upstream_status_code": lambda value: value.__class__ is int,
    "local_response_reason": lambda value: isinstance(value, str),
}
"""Field to what its value must be."""


def adapter_fields(annotations: dict[str, Any] | None) -> dict[str, Any]:
    """Return the record's fields that the annotations fill."""
    if not annotations:
        return {}
    return {
        name: annotations[name]
        for name, fits in _FIELDS.items()
        if name in annotations and fits(annotations[name])
    }


def local_overflow(annotations: dict[str, Any] | None) -> bool:
    """Whether the handler answered by itself because the prompt did not fit; the record then says so as its error."""
    return annotations is not None and annotations.get("local_response_reason") == OVERFLOW
