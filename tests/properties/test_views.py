"""The views on records of any content: nothing that a request or a response holds makes them raise or lie."""

import json
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from capture import aggregate_step_records, assemble_rollout, assemble_step_records
from capture.readable import as_stored, document, lines
from capture.reading import StoredRecord, parse_line, scan_records
from tests.capture.conversing import DIALECTS, Rollout, bash, model, user

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("\ud83d")
_NAMES = (
    "role content text type id call_id tool_call_id tool_use_id name function arguments input output tool_calls"
    " message index choices summary thinking reasoning_content"
)
_WORDS = (
    "user assistant system tool message function_call function_call_output reasoning item_reference tool_use"
    " tool_result thinking text call_1 <system-reminder> </system-reminder>"
)
_MEMBERS = "messages input system instructions tools previous_response_id conversation choices output content"
NAMES, WORDS, MEMBERS = (st.sampled_from(names.split()) for names in (_NAMES, _WORDS, _MEMBERS))
VALUES = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)
BODIES = st.none() | st.dictionaries(MEMBERS, VALUES)
BASE = Rollout()
BASE.call([user("go")], model("", bash("call_1")))


@st.composite
def rollouts(draw: st.DrawFn) -> list[StoredRecord]:
    """Draw records of one rollout: any bodies, times that overlap, some failed."""
    records = []
    for number in range(draw(st.integers(0, 6))):
        started = draw(st.floats(0, 10))
        changes: dict[str, Any] = {
            "model_call_id": f"{number:032x}",
            "dialect": draw(st.sampled_from([*DIALECTS, "other"])),
            "request": draw(BODIES),
            "response": draw(BODIES),
            "response_id": draw(st.sampled_from([None, "call_1", "user"])),
            "started_at": started,
            "completed_at": started + draw(st.floats(0, 10)),
            "error_category": draw(st.sampled_from([None, "timeout"])),
        }
        records.append(msgspec.structs.replace(BASE.records[0], **changes))
    return records


@settings(max_examples=150, deadline=None)
@given(rollouts())
def test_any_rollout_has_its_views(records: list[StoredRecord]) -> None:
    """There is a step for each record; parents began earlier; branches count up; all of it is plain data."""
    account = assemble_rollout(records)
    steps = assemble_step_records(records)
    assert account.steps == steps
    assert [step.step_index for step in steps] == list(range(len(records)))
    for step in steps:
        assert step.parent_step is None or steps[step.parent_step].started_at <= step.started_at
        assert step.branch is not None or step.relation == "unknown"
    opened = sorted({step.branch for step in steps if step.branch is not None})
    assert opened == list(range(len(opened)))
    assert aggregate_step_records(steps).num_calls == len(records)
    msgspec.to_builtins(account)


LINE = as_stored(BASE.records[0])
HUGE = st.sampled_from([10**400, -(10**400), 1 << 64, float("inf"), float("nan")])


@st.composite
def odd_lines(draw: st.DrawFn) -> bytes:
    """Draw a record's line, some of whose members, or of their members, are missing or anything at all."""
    line = dict(LINE)
    for name in draw(st.sets(st.sampled_from(sorted(LINE)), max_size=4)):
        value = line[name]
        if isinstance(value, dict) and value and draw(st.booleans()):
            line[name] = {
                **value,
                draw(st.sampled_from(sorted(value)) | st.text(max_size=3)): draw(HUGE | VALUES),
            }
        elif draw(st.booleans()):
            line[name] = draw(HUGE | VALUES)
        else:
            del line[name]
    return json.dumps(line).encode()


@settings(max_examples=300, deadline=None)
@given(st.lists(odd_lines(), max_size=3))
def test_any_line_is_a_record_or_damage_and_any_record_has_its_views(texts: list[bytes]) -> None:
    """Both looks at a file agree on what can be read, and all that can is shown and summed up."""
    records = [parse_line(text) for text in texts]
    assert [scan_records(text + b"\n").damaged for text in texts] == [record is None for record in records]
    readable = [record for record in records if record is not None]
    assert len(assemble_rollout(readable).steps) == len(readable)
    assert aggregate_step_records(assemble_step_records(readable)).num_calls == len(readable)
    for record in readable:
        assert json.loads(document(as_stored(record)))
        assert list(lines(as_stored(record)))


@settings(max_examples=100, deadline=None)
@given(rollouts(), st.randoms(use_true_random=False))
def test_places_do_not_change_with_the_order_of_records(records: list[StoredRecord], random: Random) -> None:
    """Where no two calls began or ended at once, the order in which they are read does not matter."""
    spread = [
        msgspec.structs.replace(record, started_at=n * 2.0, completed_at=n * 2.0 + 3)
        for n, record in enumerate(records)
    ]
    shuffled = list(spread)
    random.shuffle(shuffled)
    assert assemble_step_records(shuffled) == assemble_step_records(spread)
