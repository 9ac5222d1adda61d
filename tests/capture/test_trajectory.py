"""A rollout as one account: everything once, in the order it happened, the same in every dialect."""

import json
from typing import Any

import pytest

from capture.reading import StoredRecord, parse_line
from capture.trajectory import Trajectory, TrajectoryItem, assemble_rollout
from pipeline.process import encode, process
from tests.capture.conversing import DIALECTS, Rollout, bash, model, system, tool, user
from tests.exchanges import JSON_BODY, SERVER, exchange

ALL = pytest.mark.parametrize("dialect", DIALECTS)


def told(items: list[TrajectoryItem]) -> list[tuple[str, str | None]]:
    """Return what each item says in short: its type, and its text, or its call's id."""
    return [(item.type, item.call_id or item.text) for item in items]


def account(rollout: Rollout) -> Trajectory:
    """Assemble from an iterator: records are gone through once."""
    return assemble_rollout(iter(rollout.records))


@ALL
def test_items_come_in_the_order_of_the_conversation(dialect: str) -> None:
    """Words, thoughts and calls, then the outputs, found in the next request, before that step's own message."""
    rollout = Rollout(dialect)
    asked = [system("Be good."), user("go")]
    first = model("looking", bash("c1"), bash("c2"), thought="hm")
    rollout.call(asked, first)
    rollout.call([*asked, first, tool("c1", "a"), tool("c2", "b")], model("done"))
    found = account(rollout)
    assert told(found.items) == [
        ("message", "Be good."),
        ("message", "go"),
        ("reasoning", "hm"),
        ("message", "looking"),
        ("function_call", "c1"),
        ("function_call", "c2"),
        ("function_call_output", "c1"),
        ("function_call_output", "c2"),
        ("message", "done"),
    ]
    assert [item.role for item in found.items if item.type == "message"] == [
        "system",
        "user",
        *["assistant"] * 2,
    ]
    assert [item.step_index for item in found.items] == [0] * 6 + [1] * 3
    assert {item.source for item in found.items[2:6]} == {"response"}
    assert found.items[4].arguments == {"command": "ls"}
    assert found.items[6].text == "a"


@ALL
def test_every_output_is_told_once(dialect: str) -> None:
    """Each later request repeats the outputs before it; they are in the account once, by their call's id."""
    rollout = Rollout(dialect)
    history = [user("go")]
    for number in range(5):
        answer = model("", bash(f"c{number}"))
        rollout.call(history, answer)
        history = [*history, answer, tool(f"c{number}", "out")]
    outputs = [item.call_id for item in account(rollout).items if item.type == "function_call_output"]
    assert outputs == ["c0", "c1", "c2", "c3"]


@ALL
def test_a_retry_tells_its_request_no_second_time(dialect: str) -> None:
    """The words are told with the first attempt, the answer with the one that got it."""
    rollout = Rollout(dialect)
    rollout.call([user("go")], None)
    rollout.call([user("go")], model("done"))
    items = account(rollout).items
    assert [(item.text, item.step_index) for item in items] == [("go", 0), ("done", 1)]


@ALL
def test_branches_tell_only_what_is_their_own(dialect: str) -> None:
    """Parallel steps from one answer tell their outputs and answers apart; what they share is told once."""
    rollout = Rollout(dialect)
    first = model("", bash("c1"))
    base = [user("go"), first, tool("c1", "shared")]
    rollout.call(base[:1], first)
    rollout.call(base, model("left"), at=3)
    rollout.call(base, model("right"), at=3.1)
    found = account(rollout)
    assert told(found.branch(1)) == [("function_call_output", "c1"), ("message", "right")]
    assert told(found.branch(0)) == [
        ("message", "go"),
        ("function_call", "c1"),
        ("function_call_output", "c1"),
        ("message", "left"),
    ]


@ALL
def test_equal_prompts_of_two_conversations_are_told_in_each(dialect: str) -> None:
    """What is no branch of another shares nothing with it, however equal."""
    rollout = Rollout(dialect)
    for answer in ("one", "two"):
        rollout.call([user("go")], model(answer))
    found = account(rollout)
    assert [told(found.branch(branch)) for branch in (0, 1)] == [
        [("message", "go"), ("message", "one")],
        [("message", "go"), ("message", "two")],
    ]


def worked(rollout: Rollout, prompt: str, steps: int) -> list[Any]:
    """Make steps that each call one tool; return the history with its outputs."""
    history = [user(prompt)]
    for number in range(steps):
        answer = model("", bash(f"c{number}", f"cmd {number}"))
        rollout.call(history, answer)
        history = [*history, answer, tool(f"c{number}", "out")]
    return history


@ALL
def test_a_compaction_tells_what_is_new_in_it(dialect: str) -> None:
    """The summary is told, and the outputs since; answers and outputs that it kept are not told again."""
    rollout = Rollout(dialect)
    history = worked(rollout, "go", 3)
    rollout.call([user("(cut) the user said go"), *history[-4:]], model("done"))
    found = account(rollout)
    assert told(found.branch(1)) == [
        ("message", "(cut) the user said go"),
        ("function_call_output", "c2"),
        ("message", "done"),
    ]


@ALL
def test_words_said_again_after_a_compaction_are_told_again(dialect: str) -> None:
    """What stands behind the answer that a rewritten history kept is new, though the same was said before."""
    rollout = Rollout(dialect)
    history = worked(rollout, "go on", 2)
    rollout.call([user("(cut)"), *history[-2:], user("go on")], model("done"))
    found = account(rollout)
    assert found.steps[2].relation == "compaction"
    assert told(found.branch(1)) == [
        ("message", "(cut)"),
        ("function_call_output", "c1"),
        ("message", "go on"),
        ("message", "done"),
    ]


def test_words_that_nobody_here_said_are_told_as_the_requests() -> None:
    """Examples put into a request as a model's answers, and answers that a client edited, are in the account."""
    rollout = Rollout()
    rollout.call([user("2+2"), model("4"), user("3+3")], model("6"))
    rollout.call([user("2+2"), model("4"), user("3+3"), model("six"), user("why?")], model("because"))
    items = account(rollout).items
    assert [(item.text, item.source) for item in items] == [
        ("2+2", "request"),
        ("4", "request"),
        ("3+3", "request"),
        ("6", "response"),
        ("six", "request"),
        ("why?", "request"),
        ("because", "response"),
    ]


def choices_record() -> StoredRecord:
    """Make a record with two choices, the second one first."""
    choices = [
        {"index": n, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for n, text in ((1, "other"), (0, "first"))
    ]
    request = json.dumps({"messages": [{"role": "user", "content": "go"}], "n": 2}).encode()
    raw = exchange(
        "chat",
        json.dumps({"choices": choices}).encode(),
        request_chunks=(request,),
        response_headers=JSON_BODY,
    )
    record = parse_line(encode(process(raw, SERVER, {})))
    assert record is not None
    return record


def test_every_choice_is_told_and_named() -> None:
    """The first choice and the others are apart by their number; a branch is read with one of them."""
    found = assemble_rollout([choices_record()])
    assert [(item.text, item.choice) for item in found.items] == [("go", None), ("first", 0), ("other", 1)]
    assert told(found.branch(0, choice=1)) == [("message", "go"), ("message", "other")]


def test_a_call_that_goes_on_from_another_choice_is_a_continuation() -> None:
    """An agent that took the second choice is followed all the same."""
    rollout = Rollout()
    rollout.records.append(choices_record())
    rollout.call([user("go"), model("other"), user("more")], model("end"), at=60)
    found = account(rollout)
    step = found.steps[1]
    assert (step.relation, step.parent_step, step.parent_choice, step.evidence) == (
        "continues",
        0,
        1,
        "answer",
    )
    assert [item.text for item in found.thread(1)] == ["go", "other", "more", "end"]


@ALL
def test_a_thread_is_the_whole_conversation_down_to_a_step(dialect: str) -> None:
    """Over branches and attempts: what was asked once, the answers that were gone on from, and nothing else."""
    rollout = Rollout(dialect)
    base = [user("go"), model("", bash("c1")), tool("c1", "out")]
    rollout.call(base[:1], base[1])
    rollout.call(base, model("left"))
    rollout.call([*base, model("left"), user("again")], None)
    rollout.call([*base, model("left"), user("again")], model("end"))
    rollout.call(base, model("right"))
    found = account(rollout)
    start = [("message", "go"), ("function_call", "c1"), ("function_call_output", "c1")]
    assert told(found.thread(3)) == [*start, ("message", "left"), ("message", "again"), ("message", "end")]
    assert told(found.thread(4)) == [*start, ("message", "right")]


def test_a_handlers_timings_stand_at_the_tool_call_they_are_of() -> None:
    """An event that names a tool call's id is found at that call."""
    event = {"name": "run", "started_at": 1.0, "ended_at": 2.0, "call_id": "c1"}
    rollout = Rollout()
    rollout.call([user("go")], model("", bash("c1"), bash("c2")))
    line = json.loads(encode(rollout.records[0]))
    noted = parse_line(json.dumps({**line, "events": [event]}).encode())
    assert noted is not None
    calls = [item for item in assemble_rollout([noted]).items if item.type == "function_call"]
    assert [call.events for call in calls] == [[event], None]


def test_what_is_not_text_is_kept_as_it_came() -> None:
    """An image stands beside the words of its message."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [{"type": "text", "text": "look"}, image]
    rollout = Rollout()
    rollout.call([user("x")], model("nice")).request["messages"][0]["content"] = content
    item = account(rollout).items[0]
    assert (item.text, item.content) == ("look", [image])


def test_history_that_stays_with_the_provider_is_told_through() -> None:
    """With `previous_response_id` each request holds only what is new, and all of it is told."""
    rollout = Rollout("responses")
    rollout.call([user("one")], model("first", bash("c1")))
    rollout.call([tool("c1", "out")], model("second"), previous_response_id="resp-0")
    assert told(account(rollout).items) == [
        ("message", "one"),
        ("message", "first"),
        ("function_call", "c1"),
        ("function_call_output", "c1"),
        ("message", "second"),
    ]


def test_history_that_is_sent_whole_after_all_is_told_no_second_time() -> None:
    """A client that loses the provider's state repeats everything; only the last output is new."""
    rollout = Rollout("responses")
    history = [user("one")]
    for number in range(3):
        answer = model("", bash(f"c{number}", f"cmd {number}"))
        rollout.call(history[-1:], answer, previous_response_id=f"resp-{number - 1}" if number else None)
        history += [answer, tool(f"c{number}", "out")]
    rollout.call(history, model("done"))
    assert [item.call_id or item.text for item in account(rollout).items if item.step_index == 3] == [
        "c2",
        "done",
    ]


def test_the_account_holds_the_steps_and_numbers_its_items() -> None:
    """Steps with their notes are beside the items; ids of items count from 0."""
    rollout = Rollout()
    rollout.call([user("go")], model("done"))
    found = account(rollout)
    assert (found.rollout_id, len(found.steps)) == ("3-1", 1)
    assert [item.id for item in found.items] == ["item-0", "item-1"]
    empty: Any = assemble_rollout([])
    assert (empty.rollout_id, empty.steps, empty.items) == (None, [], [])
