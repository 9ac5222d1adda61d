"""Values as a person reads them."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture import wording

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(st.characters()))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    """Of any text, half surrogates included, no hidden character remains, and what is not hidden is unchanged."""
    said = wording.plain(text)
    assert not {unicodedata.category(sign) for sign in said} & HIDDEN
    assert wording.plain(said) == said
    kept = "".join(sign for sign in text if unicodedata.category(sign) not in HIDDEN)
    assert wording.plain(kept) == kept


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain x² 数 🙂", "plain x² 数 🙂"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x7f\x9b\u202e\u2028", "\\x7f\\x9b\\u202e\\u2028"),
        ("\ud800", "\\ud800"),
        (12, "12"),
    ],
)
def test_what_is_escaped_reads_as_python_writes_it(text: object, said: str) -> None:
    """Controls, direction marks, line ends and half surrogates are escaped, letters of any script are not."""
    assert wording.plain(text) == said


def test_kept_characters_stay() -> None:
    """A tab may stay where it does no harm."""
    assert wording.plain("a\tb\n", keep="\t") == "a\tb\\n"


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (1 << 60, "1048576.0 TiB")],
)
def test_sizes(count: int, said: str) -> None:
    """Bytes get the largest binary unit that leaves at least one, and no unit that nobody has."""
    assert wording.size(count) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "0.0 s"), (9.94, "9.9 s"), (59.0, "59 s"), (60.0, "1 min"), (3599.0, "60 min"), (5400.0, "1.5 h")],
)
def test_spans(seconds: float, said: str) -> None:
    """Durations are as exact as they are short."""
    assert wording.span(seconds) == said


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time is told in this machine's zone; one that no calendar has is told as the number it is."""
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        assert wording.moment(0.9) == "1970-01-01 02:00:00"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert wording.moment(1e300) == "1e+300"
    assert wording.moment(float("nan")) == "nan"


def test_unknown_is_a_dash() -> None:
    """Null is never shown as zero."""
    assert (
        wording.known(None)
        == wording.moment(None)
        == wording.milliseconds(None)
        == wording.age(None, 1.0)
        == "-"
    )
    assert wording.known(0) == "0"


def test_ages_are_never_negative() -> None:
    """A clock that was set back makes nothing younger than now."""
    assert (wording.age(10.0, 12.5), wording.age(12.5, 10.0)) == ("2.5 s", "0.0 s")


def test_milliseconds_show_tenths_where_they_matter() -> None:
    """A short latency keeps its tenth."""
    assert (wording.milliseconds(3.14), wording.milliseconds(314.15)) == ("3.1", "314")
