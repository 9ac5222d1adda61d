"""A text that repeats an earlier one is known by the runs of words that they share."""

import pytest

from capture.origins import EQUAL_MAX, SHARED_MAX, Origins, Source

ANSWER = "The parser was split into three files and every one of the callers was changed to match."


def origins(*texts: str) -> Origins:
    """Keep texts, each as the answer of the call of its number."""
    made = Origins()
    for number, text in enumerate(texts):
        made.add(Source(number), text)
    made.arrange(lambda source: source.call)
    return made


def sources(made: Origins, text: str) -> list[int]:
    """Return the calls whose texts this one repeats, in order."""
    return [repeated.source.call for repeated in made.of(text)]


@pytest.mark.parametrize("around", ["{}", "Summary: {} Go on.", "<summary>\n{}\n</summary>"])
def test_words_around_a_text_do_not_hide_it(around: str) -> None:
    """A harness puts a summary into a sentence of its own, and line breaks where it likes."""
    made = origins("something else was said here, by someone", ANSWER)
    assert sources(made, around.format(ANSWER)) == [1]


def test_a_preamble_that_was_dropped_does_not_hide_the_rest() -> None:
    """An agent that asks for an analysis and a summary keeps the summary."""
    analysis = " ".join(f"First I looked at file number {number} of them." for number in range(4))
    assert sources(origins(f"<analysis>{analysis}</analysis>\n{ANSWER}"), f"So far:\n{ANSWER}") == [0]


def test_a_few_words_in_common_are_no_repetition() -> None:
    """A phrase of a text is not the text."""
    assert origins(ANSWER).of("The parser was split into three files, as you know.") == ()


def test_a_short_text_must_be_all_that_is_said() -> None:
    """Fewer words than a run are found only as the whole, and only if they are no mere `OK`."""
    made = origins("Deploy the staging cluster", "OK")
    assert sources(made, "Deploy the staging cluster") == [0]
    assert made.of("Please: Deploy the staging cluster") == ()
    assert made.of("OK") == ()


def test_the_most_repeated_comes_first() -> None:
    """Of several sources the one with the most words in common is the better guess."""
    longer = ANSWER + " Then the tests were run, twice, and they all passed without a warning."
    assert sources(origins(ANSWER, longer), longer) == [1, 0]


def test_what_everybody_says_is_bounded() -> None:
    """A text of thousands of sources names only the first of them: fewer where it is not the whole text."""
    made = origins(*[ANSWER] * 1000)
    assert sources(made, ANSWER) == list(range(EQUAL_MAX))
    assert sources(made, f"Summary: {ANSWER}") == list(range(SHARED_MAX))


FRAME = "Read the file {} to its end, and report each fault that you find, by line, with the reason and a mending."


@pytest.mark.parametrize("around", ["{}", "Your task: {} Begin."])
def test_prompts_of_one_frame_are_told_apart_by_what_is_their_own(around: str) -> None:
    """Of twenty prompts that differ in one name each is repeated most by its own, whatever the frame's words hit."""
    prompts = [FRAME.format(f"module_{number}.py") for number in range(20)]
    made = origins(*prompts)
    assert [sources(made, around.format(prompt))[0] for prompt in prompts] == list(range(20))
