"""One rollout in which everything happens, told alike in every dialect, once and twice over.

The script: a main agent hands work to a sub-agent whose first call fails, goes on, has its conversation summarised,
goes on from the summary with another failure, and is then continued twice from the same answer.
"""

import json

import pytest

from capture import assemble_step_records
from capture.reading import StoredRecord, parse_line
from pipeline.process import encode
from tests.capture.conversing import DIALECTS, Rollout, bash, model, system, tool, user

PROMPT = "Go through the tests folder and say which of the tests are flaky and why."
FOUND = "Test seven is flaky since it sleeps for a second."
SUMMARY = "Summary of the work: test seven was flaky, it slept for a second, and the sleep was replaced by an event."
CODER = system("You are a coder.")


def scripted(dialect: str) -> Rollout:
    """Make the rollout."""
    rollout = Rollout(dialect)
    task, look, again = (
        model("", ("t1", "Task", {"prompt": PROMPT})),
        model("", bash("m1")),
        model("", bash("m2")),
    )
    main = [CODER, user("Fix the flaky tests please.")]
    rollout.call(main, task)
    helper = [system("You are a helper."), user(PROMPT)]
    rollout.call(helper, None)
    rollout.call(helper, model("", bash("s1")))
    rollout.call([*helper, model("", bash("s1")), tool("s1", "three files")], model(FOUND))
    main += [task, tool("t1", FOUND)]
    rollout.call(main, look)
    main += [look, tool("m1", "ok")]
    rollout.call([*main, user("Summarise the conversation, for another agent to go on.")], model(SUMMARY))
    after = [CODER, user(f"This session continues an earlier one. {SUMMARY}")]
    rollout.call(after, again)
    after += [again, tool("m2", "fine")]
    rollout.call(after, None)
    rollout.call(after, model("All done."))
    for words in ("thanks, one more", "no, another"):
        rollout.call([*after, model("All done."), user(words)], model(f"to {words}"))
    return rollout


def changed(record: StoredRecord, **members: object) -> StoredRecord:
    """Return the record with other members."""
    again = parse_line(json.dumps({**json.loads(encode(record)), **members}).encode())
    assert again is not None
    return again


@pytest.mark.parametrize("dialect", DIALECTS)
def test_everything_in_one_rollout_has_the_place_a_person_would_give_it(dialect: str) -> None:
    """Sub-agent, retries, compaction and fork in one rollout: relation, branch, parent and turn of each call."""
    steps = assemble_step_records(scripted(dialect).records)
    assert [(s.relation, s.branch, s.parent_step, s.turn_index) for s in steps] == [
        ("root", 0, None, 0),
        ("subagent", 1, 0, 0),
        ("retry", 2, 1, 0),
        ("continues", 2, 2, 0),
        ("continues", 0, 0, 0),
        ("continues", 0, 4, 1),
        ("compaction", 3, 5, 1),
        ("continues", 3, 6, 1),
        ("retry", 4, 7, 1),
        ("continues", 4, 8, 2),
        ("branch", 5, 8, 2),
    ]
    assert [s.spawned_by for s in steps if s.spawned_by] == ["t1"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_two_rollouts_of_equal_words_side_by_side_have_equal_places(dialect: str) -> None:
    """The same script again, minutes later, in one file: no call of the second goes on from one of the first."""
    first, later = scripted(dialect).records, scripted(dialect).records
    for number, record in enumerate(later):
        times = {"started_at": record.started_at + 500.0, "completed_at": record.completed_at + 500.0}
        ids = {"model_call_id": f"{100 + number:032x}", "response_id": f"other-{number}"}
        later[number] = changed(record, **times, **ids)
    alone = assemble_step_records(first)
    both = assemble_step_records([*first, *later])
    assert both[: len(alone)] == alone
    count = len(alone)
    assert [(s.relation, s.parent_step) for s in both[count:]] == [
        (s.relation, None if s.parent_step is None else s.parent_step + count) for s in alone
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_at_the_token_limit_is_no_failure_to_retry(dialect: str) -> None:
    """The same prompt asked again after an answer that was cut by its limit is another sample, in every dialect."""
    rollout = Rollout(dialect)
    rollout.call([user("go")], model("and so"))
    rollout.call([user("go")], model("and so on"))
    said = "incomplete" if dialect == "responses" else None
    first = changed(rollout.records[0], finish="length", error_category=said)
    assert first.complete
    steps = assemble_step_records([first, rollout.records[1]])
    assert [(step.relation, step.branch) for step in steps] == [("root", 0), ("root", 1)]
