"""Tables in a terminal and elsewhere."""

import io
import re

import pytest

from capture.tables import Row, Sheet, draw

SHEET = Sheet("Things", ("rollout", "calls"), [Row(["good", "1"]), Row(["bad", "22"], trouble=True)])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture(autouse=True)
def _window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test the same window, and no wish about colours."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def test_trouble_is_red_in_a_terminal() -> None:
    """The row that somebody should look at is marked, the other one is not."""
    good, bad = draw(SHEET, Terminal()).splitlines()[-3:-1]
    assert "\x1b[31m" in bad
    assert "\x1b[31m" not in good


def test_no_colour_where_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither outside of a terminal nor under NO_COLOR is anything coloured."""
    assert "\x1b" not in draw(SHEET, io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in draw(SHEET, Terminal())


def test_a_terminal_is_not_overrun_and_nothing_is_cut() -> None:
    """A long cell is folded into the window; outside of a terminal it is one line."""
    long = Sheet("Long", ("model",), [Row(["x" * 100])])
    folded = re.sub(r"\x1b\[\d+m", "", draw(long, Terminal())).splitlines()
    assert max(map(len, folded)) == 40
    assert sum(line.count("x") for line in folded) == 100
    assert any("x" * 100 in line for line in draw(long, io.StringIO()).splitlines())


def test_cells_that_must_stay_whole_are_never_cut() -> None:
    """Where the window is too narrow for times and ids, it is the window that folds the row."""
    cells = ["1", "2026-01-31 12:00:00", "x" * 30, "0123456789abcdef0123456789abcdef"]
    drawn = draw(Sheet("Wide", ("#", "completed", "model", "id"), [Row(cells)]), Terminal())
    assert all(any(cell in line for line in drawn.splitlines()) for cell in cells if cell[0] != "x")
    assert drawn.count("x") == 30


def test_numbers_are_on_the_right() -> None:
    """The columns that are said to hold numbers line up at their last digit."""
    rows = [line for line in draw(SHEET, io.StringIO()).splitlines() if line.startswith((" good", " bad"))]
    assert [row.rstrip()[-2:] for row in rows] == [" 1", "22"]
    assert len({len(row.rstrip()) for row in rows}) == 1


def test_markup_in_a_cell_is_text() -> None:
    """What looks like rich's own markup or an emoji code is shown as it was recorded."""
    assert "[red]x[/red] :smile:" in draw(Sheet("T", ("a",), [Row(["[red]x[/red] :smile:"])]), io.StringIO())
