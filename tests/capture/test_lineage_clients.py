"""What clients do to the history that they repeat, or leave with the provider, does not cost a call its place."""

import msgspec
import pytest

from capture.steps import assemble_step_records
from tests.capture.conversing import DIALECTS, Rollout, bash, model, places, thread, tool, user

ALL = pytest.mark.parametrize("dialect", DIALECTS)


@pytest.mark.parametrize("retold", [True, False])
def test_a_request_that_names_its_previous_response_goes_on_from_it(*, retold: bool) -> None:
    """On the Responses API the history may stay with the provider; turns are counted through all the same."""
    rollout = Rollout("responses")
    rollout.call([user("one")], model("first"))
    rollout.call([user("two")], model("second"), previous_response_id="resp-0")
    name = "resp-1" if retold else "resp-of-nobody"
    rollout.call([user("three")], model("third"), previous_response_id=name)
    steps = assemble_step_records(reversed(rollout.records))
    expected = ("continues", 0, 1, 2) if retold else ("unknown", 1, None, None)
    assert places(steps)[1:] == [("continues", 0, 0, 1), expected]
    assert steps[1].evidence == "response_id"


def test_a_call_whose_request_cannot_be_read_is_still_gone_on_from_by_its_name() -> None:
    """What the next request names is there; only turns cannot be counted through it."""
    rollout = Rollout("responses")
    rollout.call([user("one")], model("first"))
    rollout.call([user("two")], model("second"), previous_response_id="resp-0")
    rollout.call([user("three")], model("third"), previous_response_id="resp-1")
    rollout.records[0] = msgspec.structs.replace(rollout.records[0], request=None)
    assert places(assemble_step_records(rollout.records)) == [
        ("unknown", None, None, None),
        ("continues", 0, 0, None),
        ("continues", 0, 1, None),
    ]


def test_a_request_that_names_a_conversation_goes_on_from_its_last_call() -> None:
    """On the Responses API a conversation may have a name instead of a history."""
    rollout = Rollout("responses")
    for word in ("one", "two", "three"):
        rollout.call([user(word)], model(f"to {word}"), conversation={"id": "conv-1"})
    assert places(assemble_step_records(rollout.records)) == [
        ("root", 0, None, 0),
        ("continues", 0, 0, 1),
        ("continues", 0, 1, 2),
    ]


def test_tool_results_in_the_role_of_the_user_are_no_turns() -> None:
    """On the Messages API a tool round stays in its turn, also with a reminder that the agent put beside it."""
    rollout = Rollout("messages")
    rollout.call([user("go")], model("", bash("c1")))
    record = rollout.call([user("go"), model("", bash("c1")), tool("c1", "out")], model("done"))
    reminder = {"type": "text", "text": "<system-reminder>\nuse the list\n</system-reminder>"}
    record.request["messages"][-1]["content"].append(reminder)
    assert [step.turn_index for step in assemble_step_records(rollout.records)] == [0, 0]


def test_cache_marks_and_text_blocks_are_the_same_history() -> None:
    """A client that moves its cache mark, and writes text now as a string and now as a block, tells one story."""
    rollout = Rollout("messages")
    first = rollout.call([user("go")], model("", bash("c1"), thought="hm"))
    first.request["messages"][0]["content"] = "go"
    second = rollout.call([user("go"), model("", bash("c1")), tool("c1", "out")], model("done"))
    second.request["messages"][-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
    third = rollout.call(
        [user("go"), model("", bash("c1")), tool("c1", "out"), model("done"), user("more")], model("end")
    )
    third.request["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    assert [step.relation for step in assemble_step_records(rollout.records)] == ["root", *["continues"] * 2]


def test_reasoning_that_a_client_cuts_out_does_not_matter() -> None:
    """An answer is known again without its reasoning, be it in a member of its own or in the text."""
    rollout = Rollout()
    rollout.call([user("go")], model("<think>\nso\n</think>\n\nthe answer", thought="really"))
    rollout.call([user("go"), model("the answer"), user("more")], model("end"))
    step = assemble_step_records(rollout.records)[1]
    assert (step.relation, step.evidence) == ("continues", "answer")


def test_an_edited_answer_is_still_what_the_next_call_goes_on_from() -> None:
    """Where only the history before the answer agrees, the evidence says so."""
    rollout = Rollout()
    rollout.call([user("go")], model("the answer"))
    rollout.call([user("go"), model("another answer"), user("more")], model("end"))
    step = assemble_step_records(rollout.records)[1]
    assert (step.relation, step.parent_step, step.evidence) == ("continues", 0, "prefix")


def test_a_request_that_cannot_be_read_costs_only_its_own_place() -> None:
    """Without a history there is no branch and no turn, for this call alone."""
    rollout = Rollout()
    thread(rollout, [user("go")], model("", bash("c1")))
    rollout.call([], None)
    thread(rollout, [user("go"), model("", bash("c1")), tool("c1", "out c1")], model("done"))
    assert places(assemble_step_records(rollout.records)) == [
        ("root", 0, None, 0),
        ("unknown", None, None, None),
        ("continues", 0, 0, 0),
    ]


@ALL
def test_repeated_texts_count_by_their_position(dialect: str) -> None:
    """A user who says the same twice has two turns."""
    rollout = Rollout(dialect)
    history = thread(rollout, [user("go on")], model("done"))
    history = thread(rollout, [*history, user("go on")], model("done"))
    thread(rollout, [*history, user("go on")], model("done"))
    steps = assemble_step_records(rollout.records)
    assert [(step.turn_index, step.relation) for step in steps] == [
        (0, "root"),
        (1, "continues"),
        (2, "continues"),
    ]


@ALL
def test_a_request_that_ends_with_an_answer_has_the_model_go_on_with_it(dialect: str) -> None:
    """An answer cut by its limit, or a paused turn, is sent back to be finished; a failed try is made again."""
    rollout = Rollout(dialect)
    rollout.call([user("write")], model("part one of"))
    rollout.call([user("write"), model("part one of")], None)
    rollout.call([user("write"), model("part one of")], model(" it, and part two"))
    thread(rollout, [user("write"), model("part one of it, and part two"), user("more")], model("end"))
    assert places(assemble_step_records(rollout.records)) == [
        ("root", 0, None, 0),
        ("continues", 0, 0, 0),
        ("retry", 1, 1, 0),
        ("continues", 1, 2, 1),
    ]


@ALL
def test_words_put_into_the_models_mouth_are_nobodys_answer(dialect: str) -> None:
    """A request that ends with the beginning of an answer which nobody gave begins a conversation of its own."""
    rollout = Rollout(dialect)
    for _ in range(2):
        rollout.call([user("as JSON"), model("{")], model('"a": 1}'))
    assert places(assemble_step_records(rollout.records)) == [("root", 0, None, 0), ("root", 1, None, 0)]


@ALL
def test_outputs_that_come_together_may_change_their_order(dialect: str) -> None:
    """A client that sorts the outputs of parallel calls later on tells the same history."""
    rollout = Rollout(dialect)
    first, outputs = model("", bash("c1"), bash("c2")), [tool("c1", "a"), tool("c2", "b")]
    rollout.call([user("go")], first)
    rollout.call([user("go"), first, *reversed(outputs)], model("ok"))
    rollout.call([user("go"), first, *outputs, model("ok"), user("more")], model("end"))
    steps = assemble_step_records(rollout.records)
    assert places(steps)[1:] == [("continues", 0, 0, 0), ("continues", 0, 1, 1)]
    assert {step.evidence for step in steps[1:]} == {"answer"}
