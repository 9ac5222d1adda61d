"""What a command of the command line is, and the arguments that several of them share.

A command is a row: what runs, what its help says, and its options as argparse takes them. The readers of values
raise `ArgumentTypeError` with a sentence that argparse prints behind the argument's name.
"""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

Run = Callable[[Namespace, Mapping[str, str]], int]


class Option(NamedTuple):
    """One argument of a command, as argparse takes it."""

    flag: str
    how: Mapping[str, Any]


class Command(NamedTuple):
    """One command: what it is for, in a line and at length, and examples to copy."""

    run: Run
    summary: str
    description: str
    examples: Sequence[str]
    options: Sequence[Option]


SECONDS_MAX: Final = 10**9
"""Thirty years: more than anybody waits, and less than clocks can take."""


def seconds(text: str) -> float:
    """Read a number of seconds that a clock can take."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= SECONDS_MAX:
        raise ArgumentTypeError(f"{text!r} is no number of seconds from 0 to {SECONDS_MAX}")
    return value


def status(text: str) -> int:
    """Read an HTTP status."""
    if not text.isdecimal() or not 100 <= int(text) <= 599:  # noqa: PLR2004 - RFC 9110, section 15
        raise ArgumentTypeError(f"{text!r} is no HTTP status, 100 to 599")
    return int(text)


def interval(text: str) -> float:
    """Read a number of seconds that is worth waiting for."""
    return max(seconds(text), 0.1)


DIRECTORY: Final = Option(
    "--directory",
    {
        "metavar": "DIR",
        "help": "where the records are; default: CAPTURE_DIRECTORY, or the CAPTURE_CONFIG file",
    },
)
JSON: Final = Option("--json", {"action": "store_true", "help": "print JSON for programs and nothing else"})
ROLLOUT: Final = Option(
    "rollout",
    {"metavar": "ROLLOUT", "help": "a rollout's id; for calls that named none, what `capture ls` calls them"},
)
