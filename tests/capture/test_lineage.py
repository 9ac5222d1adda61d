"""Each call gets the place that a person would give it: the prefix tree on scripted rollouts, in every dialect."""

import random

import pytest

from capture.steps import assemble_step_records, lineage_of
from tests.capture.conversing import DIALECTS, Rollout, Turn, bash, model, places, system, thread, tool, user

SYSTEM = system("You are an agent.")
ALL = pytest.mark.parametrize("dialect", DIALECTS)


@ALL
def test_a_linear_thread_is_one_branch_whose_turns_are_the_users_messages(dialect: str) -> None:
    """Tool rounds stay in their turn, each later message of the user begins another, and each step continues."""
    rollout = Rollout(dialect)
    history = thread(
        rollout, [SYSTEM, user("one")], model("", bash("c1")), model("", bash("c2")), model("done")
    )
    thread(rollout, [*history, user("two")], model("", bash("c3")), model("done again"))
    steps = assemble_step_records(rollout.records)
    assert places(steps) == [
        ("root", 0, None, 0),
        ("continues", 0, 0, 0),
        ("continues", 0, 1, 0),
        ("continues", 0, 2, 1),
        ("continues", 0, 3, 1),
    ]
    assert {step.evidence for step in steps[1:]} == {"answer"}


@ALL
def test_a_sub_agent_is_a_conversation_of_its_own_and_names_the_tool_call_that_spawned_it(
    dialect: str,
) -> None:
    """Its branch and turns are its own; the main thread goes on as if it had not been."""
    rollout = Rollout(dialect)
    prompt = "Find all callers of the function parse and report them one by line."
    spawn = model("", ("t1", "task", {"prompt": prompt}))
    main = [SYSTEM, user("refactor parse")]
    rollout.call(main, spawn)
    thread(
        rollout,
        [system("You search."), user(f"Your task:\n{prompt}")],
        model("", bash("s1")),
        model("found 3"),
    )
    rollout.call([*main, spawn, tool("t1", "found 3")], model("done"))
    steps = assemble_step_records(rollout.records)
    assert places(steps) == [
        ("root", 0, None, 0),
        ("subagent", 1, 0, 0),
        ("continues", 1, 1, 0),
        ("continues", 0, 0, 0),
    ]
    assert [step.spawned_by for step in steps] == [None, "t1", None, None]


@ALL
def test_a_sub_agent_whose_prompt_nobody_passed_on_is_a_root(dialect: str) -> None:
    """A conversation that shares only its instructions with another is not derived from it."""
    rollout = Rollout(dialect)
    thread(rollout, [SYSTEM, user("one")], model("first"))
    thread(rollout, [SYSTEM, user("other")], model("second"))
    assert places(assemble_step_records(rollout.records)) == [("root", 0, None, 0), ("root", 1, None, 0)]


@ALL
def test_sub_agents_with_the_same_prompt_each_have_their_own_tool_call(dialect: str) -> None:
    """Two tools are given the same words at once; the conversations are two, and so are the calls that they name."""
    rollout = Rollout(dialect)
    prompt = "Read every file of the folder and say what it is for."
    rollout.call(
        [user("go")], model("", ("t1", "task", {"prompt": prompt}), ("t2", "task", {"prompt": prompt}))
    )
    for at in (5.0, 5.1):
        rollout.call([user(prompt)], model(f"done at {at}"), at=at)
    steps = assemble_step_records(rollout.records)
    assert [(step.relation, step.branch, step.spawned_by) for step in steps] == [
        ("root", 0, None),
        ("subagent", 1, "t1"),
        ("subagent", 2, "t2"),
    ]


@ALL
def test_many_sub_agents_of_one_frame_each_name_their_own_tool_call(dialect: str) -> None:
    """Prompts that differ in a file's name only, begun in another order than they were passed."""
    rollout = Rollout(dialect)
    frame = (
        "Read {}.py to its end and report each fault by its line, with the reason and with a mending of it."
    )
    prompts = {f"t{number}": frame.format(f"module_{number}") for number in range(12)}
    rollout.call([user("go")], model("", *((t, "task", {"prompt": prompt}) for t, prompt in prompts.items())))
    order = sorted(prompts, key=lambda name: name[::-1])
    for number, name in enumerate(order):
        rollout.call([user(prompts[name])], model(f"of {name}"), at=5.0 + number / 100)
    assert [step.spawned_by for step in assemble_step_records(rollout.records)[1:]] == order


@ALL
def test_a_sub_agent_that_is_sent_once_more_still_names_the_tool_call_of_its_prompt(dialect: str) -> None:
    """A prompt given twice is no other tool call's, though that one's is nearly the same and was not begun."""
    rollout = Rollout(dialect)
    prompts = [f"Read every file of folder {name} and say what it is for, one by line." for name in "ab"]
    calls = ((f"t{number}", "task", {"prompt": prompt}) for number, prompt in enumerate(prompts))
    rollout.call([user("go")], model("", *calls))
    for _ in range(2):
        rollout.call([user(prompts[0])], model("done"))
    assert [step.spawned_by for step in assemble_step_records(rollout.records)[1:]] == ["t0", "t0"]


@ALL
@pytest.mark.parametrize("instructions", [[SYSTEM], []])
def test_a_judge_that_is_shown_an_answer_is_no_compaction(dialect: str, instructions: list[Turn]) -> None:
    """A conversation with other instructions, or where nobody has any, is one of its own whatever it quotes."""
    rollout = Rollout(dialect)
    thread(rollout, [*instructions, user("refactor")], model(SUMMARY))
    judge = [system("You judge.")] if instructions else []
    thread(rollout, [*judge, user(f"Is this good?\n{SUMMARY}")], model("yes"))
    assert places(assemble_step_records(rollout.records))[1] == ("root", 1, None, 0)


SUMMARY = "The user wants the parser refactored; so far the callers were listed and two tests were fixed."


@ALL
def test_a_compaction_by_summary_is_a_branch_that_goes_on_from_the_call_that_wrote_it(dialect: str) -> None:
    """The history starts anew with the summary inside a user's message; the turn is still its parent's."""
    rollout = Rollout(dialect)
    history = thread(rollout, [SYSTEM, user("refactor")], model("", bash("c1")), model("", bash("c2")))
    thread(rollout, [*history, user("Summarise all of this.")], model(SUMMARY))
    again = [SYSTEM, user(f"This continues an earlier conversation:\n{SUMMARY}\nGo on.")]
    history = thread(rollout, again, model("", bash("c3")), model("done"))
    thread(rollout, [*history, user("and now?")], model("nothing"))
    assert places(assemble_step_records(rollout.records))[3:] == [
        ("compaction", 1, 2, 1),
        ("continues", 1, 3, 1),
        ("continues", 1, 4, 2),
    ]


@ALL
def test_a_history_whose_beginning_was_cut_off_is_a_compaction(dialect: str) -> None:
    """A window that slides keeps the last answers, and by them it is known whom it goes on from."""
    rollout = Rollout(dialect)
    history = thread(
        rollout,
        [SYSTEM, user("go")],
        *(model("", bash(f"c{number}", f"cmd {number}")) for number in range(4)),
    )
    thread(rollout, [SYSTEM, user("(earlier messages were removed)"), *history[-2:]], model("done"))
    steps = assemble_step_records(rollout.records)
    assert places(steps)[4:] == [("compaction", 1, 3, 0)]
    assert steps[4].evidence == "answer"


@ALL
def test_a_rewritten_first_message_does_not_end_the_thread_for_the_others(dialect: str) -> None:
    """Where the linear rule gives null for all, the calls before and after keep their places and turns."""
    rollout = Rollout(dialect)
    history = thread(rollout, [SYSTEM, user("go  on")], model("", bash("c1")), model("", bash("c2")))
    thread(rollout, [SYSTEM, user("go on"), *history[2:]], model("done"))
    assert [step.turn_index for step in assemble_step_records(rollout.records)] == [0, 0, 0]


@ALL
def test_a_retry_is_the_same_request_after_a_failure(dialect: str) -> None:
    """It is a branch of its own beside the attempt that failed, in its turn; what follows goes on from it."""
    rollout = Rollout(dialect)
    history = thread(rollout, [SYSTEM, user("go")], model("", bash("c1")))
    rollout.call(history, None)
    rollout.call(history, None)
    thread(rollout, history, model("", bash("c2")), model("done"))
    steps = assemble_step_records(rollout.records)
    assert places(steps) == [
        ("root", 0, None, 0),
        ("continues", 0, 0, 0),
        ("retry", 1, 1, 0),
        ("retry", 2, 2, 0),
        ("continues", 2, 3, 0),
    ]
    assert [step.step_index for step in lineage_of(steps, 4)] == [0, 3, 4]


@ALL
def test_a_client_that_counts_its_attempts_is_believed(dialect: str) -> None:
    """A request made again after a time limit of the client's is a retry, though its first attempt succeeded."""
    rollout = Rollout(dialect)
    rollout.call([user("go")], model("late"), at=0, seconds=30, headers={"x-stainless-retry-count": 0})
    rollout.call([user("go")], model("here"), at=10, headers={"x-stainless-retry-count": 1})
    steps = sorted(assemble_step_records(rollout.records), key=lambda step: step.started_at)
    assert [step.relation for step in steps] == ["root", "retry"]
    assert steps[1].parent_step == steps[0].step_index


@ALL
def test_an_answer_that_was_gone_on_from_was_not_tried_again(dialect: str) -> None:
    """A second sample, whose first attempt never reached the server, is no retry of the first one."""
    rollout = Rollout(dialect)
    history = thread(rollout, [user("go")], model("one"))
    thread(rollout, [*history, user("more")], model("end"))
    rollout.call([user("go")], model("two"), headers={"x-stainless-retry-count": 1})
    assert places(assemble_step_records(rollout.records))[2] == ("root", 1, None, 0)


@ALL
def test_an_equal_request_after_a_success_is_no_retry(dialect: str) -> None:
    """Sampling the same prompt twice makes two conversations that do not merge, even with equal answers."""
    rollout = Rollout(dialect)
    for call_id in ("a1", "b1"):
        rollout.call([user("go")], model("", bash(call_id)))
    for call_id in ("a1", "b1"):
        rollout.call([user("go"), model("", bash(call_id)), tool(call_id, "out")], model("done"))
    assert places(assemble_step_records(rollout.records)) == [
        ("root", 0, None, 0),
        ("root", 1, None, 0),
        ("continues", 0, 0, 0),
        ("continues", 1, 1, 0),
    ]


@ALL
def test_identical_conversations_in_parallel_do_not_merge(dialect: str) -> None:
    """Two agents with equal prompts, answers and outputs, side by side: each step finds its own."""
    rollout = Rollout(dialect)
    rollout.call([user("go")], model("same answer"), at=0)
    rollout.call([user("go")], model("same answer"), at=0.1, seconds=3)
    after = [user("go"), model("same answer"), user("more")]
    rollout.call(after, model("end"), at=2)
    rollout.call(after, model("end"), at=4)
    steps = sorted(assemble_step_records(rollout.records), key=lambda step: step.started_at)
    assert [(step.relation, step.branch) for step in steps] == [
        ("root", 0),
        ("root", 1),
        ("continues", 0),
        ("continues", 1),
    ]


@ALL
def test_two_parallel_branches_from_one_step(dialect: str) -> None:
    """The first to go on from a step continues its branch, the second opens another; both stay in the turn."""
    rollout = Rollout(dialect)
    history = thread(rollout, [SYSTEM, user("go")], model("", bash("c1")))
    rollout.call(history, model("", bash("left")), at=2)
    rollout.call(history, model("", bash("right")), at=2.1)
    for at, name in ((4.0, "right"), (4.1, "left")):
        rollout.call([*history, model("", bash(name)), tool(name, "out")], model(f"done {name}"), at=at)
    assert places(assemble_step_records(rollout.records)) == [
        ("root", 0, None, 0),
        ("continues", 0, 0, 0),
        ("branch", 1, 0, 0),
        ("continues", 1, 2, 0),
        ("continues", 0, 1, 0),
    ]


@ALL
def test_a_fork_back_into_the_past_is_a_branch(dialect: str) -> None:
    """A user who edits an earlier message opens a branch from the step before it."""
    rollout = Rollout(dialect)
    history = thread(rollout, [user("one")], model("first answer"))
    thread(rollout, [*history, user("two")], model("second answer"))
    thread(rollout, [*history, user("two, but otherwise")], model("third answer"))
    assert places(assemble_step_records(rollout.records))[2] == ("branch", 1, 0, 1)


@ALL
def test_the_order_of_the_records_does_not_matter(dialect: str) -> None:
    """A file of several server processes is in no order of cause: a summary may stand behind what repeats it."""
    rollout = Rollout(dialect)
    history = thread(rollout, [SYSTEM, user("refactor")], model("", bash("c1")), model("", bash("c2")))
    thread(rollout, [*history, user("Summarise all of this.")], model(SUMMARY))
    thread(rollout, [SYSTEM, user(f"So far: {SUMMARY}")], model("", bash("c3")), model("done"))
    for seed in range(5):
        shuffled = list(rollout.records)
        random.Random(seed).shuffle(shuffled)
        assert assemble_step_records(iter(shuffled)) == assemble_step_records(rollout.records)
