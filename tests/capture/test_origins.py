"""A text that repeats an earlier one is known by the runs of words that they share."""

import pytest

from capture.origins import SHARED_MAX, Origins, Source

ANSWER = "The parser was split into three files and every one of the callers was changed to match."


def origins(*texts: str) -> Origins:
    """Keep texts, each as the answer of the call of its number."""
    made = Origins()
    for number, text in enumerate(texts):
        made.add(Source(number), text)
    made.arrange(lambda source: source.call)
    return made


@pytest.mark.parametrize("around", ["{}", "Summary: {} Go on.", "<summary>\n{}\n</summary>"])
def test_words_around_a_text_do_not_hide_it(around: str) -> None:
    """A harness puts a summary into a sentence of its own, and line breaks where it likes."""
    assert origins("something else was said here, by someone", ANSWER).of(around.format(ANSWER)) == (
        Source(1),
    )


def test_a_preamble_that_was_dropped_does_not_hide_the_rest() -> None:
    """An agent that asks for an analysis and a summary keeps the summary."""
    analysis = " ".join(f"First I looked at file number {number} of them." for number in range(4))
    assert origins(f"<analysis>{analysis}</analysis>\n{ANSWER}").of(f"So far:\n{ANSWER}") == (Source(0),)


def test_a_few_words_in_common_are_no_repetition() -> None:
    """A phrase of a text is not the text."""
    assert origins(ANSWER).of("The parser was split into three files, as you know.") == ()


def test_a_short_text_must_be_all_that_is_said() -> None:
    """Fewer words than a run are found only as the whole, and only if they are no mere `OK`."""
    made = origins("Deploy the staging cluster", "OK")
    assert made.of("Deploy the staging cluster") == (Source(0),)
    assert made.of("Please: Deploy the staging cluster") == ()
    assert made.of("OK") == ()


def test_the_most_repeated_comes_first() -> None:
    """Of several sources the one with the most words in common is the better guess."""
    longer = ANSWER + " Then the tests were run, twice, and they all passed without a warning."
    assert origins(ANSWER, longer).of(longer) == (Source(1), Source(0))


def test_what_everybody_says_is_bounded() -> None:
    """A text of thousands of sources names only the first few of them."""
    assert origins(*[ANSWER] * 1000).of(ANSWER) == tuple(Source(number) for number in range(SHARED_MAX))
