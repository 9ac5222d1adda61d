from typing import Any

import pytest

from pipeline.adapter import adapter_fields
from tests.answers import DIALECTS, Json, stream, unstreamed, whole
from tests.exchanges import record

DECLARED: Json = {
    "model_ref": {"type": "responses_api_models", "name": "policy"},
    "upstream_attempted": True,
    "response_source": "upstream",
    "upstream_status_code": 503,
    "local_response_reason": "empty_assistant",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_handler_declares_is_in_the_records_own_fields(dialect: str) -> None:
    """A proxy's annotations fill the fields of their names and stay annotations; others are annotations only."""
    notes = {**DECLARED, "other": 1}
    fields = record(dialect, stream(dialect, "x"), annotations=notes)
    assert {name: fields[name] for name in DECLARED} == DECLARED
    assert fields["annotations"] == notes
    assert (fields["error_category"], fields["complete"]) == (None, True)
    silent = record(dialect, stream(dialect, "x"), annotations={"other": 1})
    assert all(silent[name] is None for name in DECLARED)


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("value", [None, 7.5, [], {"a": 1}, b"x", "odd"])
def test_what_does_not_fit_its_field_stays_an_annotation(name: str, value: Any) -> None:  # noqa: ANN401
    """A value of another type fills no field, since readers rely on the types."""
    if (name, value) == ("local_response_reason", "odd"):
        assert adapter_fields({name: value}) == {name: value}
    else:
        assert adapter_fields({name: value}) == {}


def test_numbers_are_no_booleans_and_booleans_no_numbers() -> None:
    """The two that Python takes for each other are told apart."""
    assert adapter_fields({"upstream_attempted": 1, "upstream_status_code": True}) == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_made_up_since_the_prompt_did_not_fit(dialect: str) -> None:
    """The declared reason is the call's category, streamed or not, and the made-up answer is no complete one."""
    notes = {"local_response_reason": "context_length_exceeded", "response_source": "local"}
    for fields in (
        record(dialect, stream(dialect, "x"), annotations=notes),
        unstreamed(dialect, whole(dialect, "x"), annotations=notes),
    ):
        assert (fields["error_category"], fields["complete"]) == ("context_length_exceeded", False)
        assert (fields["error"]["kind"], fields["error"]["source"]) == ("context_length", "app")
        assert fields["error"]["retryable"] is False
