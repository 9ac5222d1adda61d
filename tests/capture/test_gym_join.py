"""The real `nemo-gym` joins what agents observed with our calls: by exact ids, by its own code, on our files.

Needs the package, which needs Python 3.13.14; where it is absent this file is skipped.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from capture.gym import MODELS
from pipeline.gaps import record_path
from tests.capture.stored import call_id, line_of
from tests.skips import SKIPS

pytestmark = [
    pytest.mark.skipif(find_spec("nemo_gym") is None, reason=SKIPS["gym-absent"]),
    pytest.mark.filterwarnings("default"),  # the package's own, and its dependencies'
    pytest.mark.timeout(180),  # its first import takes a while
]

Json = dict[str, Any]

SERVER: Json = {"type": "responses_api_models", "name": "policy"}


def joined(directory: Path, calls: list[Json], *observed: Json) -> Json:
    """Write calls, numbered from 0, and let Gym read and join them; return its bundle as data."""
    lines = [
        line_of(number, model_ref=SERVER, **{"client_session_id": None, **call})
        for number, call in enumerate(calls)
    ]
    record_path(directory, "r").write_bytes(b"".join(line + b"\n" for line in lines))
    models = import_module(MODELS)
    records = models.read_model_call_records(models.CaptureStore(directory), "r")
    observations = import_module("nemo_gym.rollout_observability")
    bundle = observations.AgentObservationBundle(source="test", records=list(observed))
    found: Json = observations.join_model_call_observations(bundle, records).model_dump()
    return found


def invocation(name: str, *refs: Json) -> Json:
    """Write what an agent says of one conversation."""
    return {"kind": "agent_invocation", "invocation_id": name, "model_calls": list(refs)}


def by_id(number: int) -> Json:
    """Name a call by its id."""
    return {"model_call_id": call_id(number)}


def by_response(name: str) -> Json:
    """Name a call by its server and response."""
    return {"model_ref": SERVER, "response_id": name}


def gaps(bundle: Json) -> list[tuple[str, str | None]]:
    """Return the codes of what could not be joined, with the conversation."""
    return [(gap["code"], gap["invocation_id"]) for gap in bundle["gaps"]]


def owned(bundle: Json) -> list[list[str | None]]:
    """Return the ids of the calls of each conversation."""
    return [[ref["model_call_id"] for ref in one["model_calls"]] for one in bundle["records"]]


def test_exact_ids_find_their_calls(tmp_path: Path) -> None:
    """By the call's id, and by server and response id; a call that nobody names is nobody's."""
    calls = [{"response_id": f"resp-{number}"} for number in range(3)]
    bundle = joined(tmp_path, with_bodies(calls), invocation("main", by_id(0), by_response("resp-1")))
    assert owned(bundle) == [[call_id(0), call_id(1)]]
    assert gaps(bundle) == [("model_call_ownership_unavailable", None)]


def test_what_is_ambiguous_is_not_guessed(tmp_path: Path) -> None:
    """Two calls of one response id, an id of no call, and a call of two conversations: each is a gap."""
    calls = with_bodies([{"response_id": "same"}, {"response_id": "same"}])
    bundle = joined(
        tmp_path,
        calls,
        invocation("main", by_id(0), by_response("same"), by_id(9)),
        invocation("other", by_id(0), by_id(1)),
    )
    assert gaps(bundle) == [
        ("model_call_reference_ambiguous", "main"),
        ("model_call_reference_unmatched", "main"),
        ("model_call_reference_conflict", "other"),
    ]


def test_a_session_that_is_a_conversations_id_owns_its_calls(tmp_path: Path) -> None:
    """Calls that carry an invocation's id as their session are its own without being named."""
    calls = with_bodies(
        [{"client_session_id": "main"}, {"client_session_id": "sub"}, {"client_session_id": "sub"}]
    )
    bundle = joined(tmp_path, calls, invocation("main"), invocation("sub"))
    assert owned(bundle) == [[call_id(0)], [call_id(1), call_id(2)]]
    assert gaps(bundle) == []


def test_the_calls_around_a_compaction_are_found(tmp_path: Path) -> None:
    """Before, after and its own; a boundary inside another conversation is refused."""
    calls = with_bodies([{}, {}, {}, {}])
    compaction: Json = {
        "kind": "context_compaction",
        "invocation_id": "main",
        "before_model_call": by_id(0),
        "after_model_call": by_id(3),
        "model_calls": [by_id(1)],
    }
    bundle = joined(
        tmp_path, calls, invocation("main", *map(by_id, range(3))), invocation("other", by_id(3)), compaction
    )
    (found,) = [one for one in bundle["records"] if one["kind"] == "context_compaction"]
    assert found["before_model_call"]["response_id"] == "resp-0"
    assert [ref["response_id"] for ref in found["model_calls"]] == ["resp-1"]
    assert gaps(bundle) == [("model_call_reference_conflict", "main")]


def with_bodies(calls: list[Json]) -> list[Json]:
    """Give each call the response that has its id, which is where Gym looks for it."""
    named = [{"response_id": f"resp-{number}", **call} for number, call in enumerate(calls)]
    return [
        {**call, "dialect": "responses", "response": {"id": call["response_id"], "object": "response"}}
        for call in named
    ]
