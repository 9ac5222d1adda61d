"""The command line: `capture COMMAND`. Parses, calls, and turns what is raised into lines on stderr and exit codes.

What the commands are is the table `COMMANDS`; what they do is in `commands.py`. Answers go to stdout, everything
else to stderr, so that a pipe gets answers only.
"""

import io
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pipeline.version import __version__

from . import commands, debugging
from .arguments import DIRECTORY, JSON, ROLLOUT, Command, Option, interval, seconds, status
from .commands import INTERRUPTED, PIPE_CLOSED, USAGE, CommandError
from .errors import CaptureConfigError
from .reassembly import PATHS
from .schema import SCHEMAS
from .wording import plain

COMMANDS: Final[Mapping[str, Command]] = {
    "demo": Command(
        commands.demo,
        "see it work: a scripted model server, recorded and checked",
        "Start a scripted model server with capture on and two server processes, drive a dozen rollouts against it\n"
        "over HTTP, wait until all is on disk, and compare every record with what its client saw. Needs no account\n"
        "and no network. The records stay in DIR (default: a new temporary directory, which is named at the end).\n\n"
        "Exit codes: 0 every record agrees; 1 one does not; 3 the extra `demo` is not installed.",
        ("capture demo", "capture demo --directory /tmp/records"),
        (Option("--directory", {"metavar": "DIR", "help": "where to record; made if it is not there"}), JSON),
    ),
    "ls": Command(
        commands.ls,
        "list the rollouts that are recorded",
        "List the rollouts of a directory: their calls, tokens, errors, and what is missing. Calls that named no\n"
        "rollout are in files of their own, listed as `uncorrelated~...`.\n\n"
        "Exit codes: 0; 2 no such directory; 3 the extra `cli` is not installed.",
        ("capture ls --directory /tmp/records", "capture ls --json | jq '.[] | select(.gaps > 0).stem'"),
        (DIRECTORY, JSON),
    ),
    "show": Command(
        commands.show,
        "show the calls of a rollout, or one of them in full",
        "Show one row for each call of a rollout, in order of completion, and what is known to be missing. With\n"
        "--call show one call whole: request, response and all else that is stored.\n\n"
        "Exit codes: 0; 1 no such rollout or call; 2 no such directory; 3 the extra `cli` is not installed.",
        (
            "capture show 17-2",
            "capture show 17-2 --call 3",
            "capture show 17-2 --json | jq '.records[].response.usage'",
        ),
        (
            ROLLOUT,
            Option("--call", {"metavar": "ID", "help": "a row's number, or an id or the beginning of one"}),
            DIRECTORY,
            JSON,
        ),
    ),
    "follow": Command(
        commands.follow,
        "print the calls of a rollout as they are recorded",
        "Print one line for each call of a rollout, those that are there and then those that come, until Ctrl-C. A\n"
        "rollout that has no calls yet is waited for. With --json each line is a whole record.\n\n"
        "Exit codes: 130 interrupted; 2 no such directory.",
        ("capture follow 17-2", "capture follow 17-2 --json | jq --unbuffered .error"),
        (ROLLOUT, DIRECTORY, JSON),
    ),
    "status": Command(
        commands.status,
        "show the server processes and what is in flight",
        "Show what each server process that writes to a directory has counted, what waits in its queue, and the\n"
        "calls that are not on disk yet. A server process that died is accounted for on the way: what it lost is\n"
        "named as gaps. The counts are read while the servers run and may be off by calls in motion.\n\n"
        "Exit codes: 0; 2 no such directory; 3 the extra `cli` is not installed; 130 interrupted while watching.",
        ("capture status", "capture status --watch 1", "capture status --json | jq '.in_flight | length'"),
        (
            Option(
                "--watch",
                {
                    "metavar": "SECONDS",
                    "nargs": "?",
                    "const": 2.0,
                    "type": interval,
                    "help": "again every so many seconds (2), until Ctrl-C; with --json a line each time",
                },
            ),
            DIRECTORY,
            JSON,
        ),
    ),
    "settle": Command(
        commands.settle,
        "wait until a rollout is whole on disk",
        "Wait until every call of a rollout that started before now is on disk, or is known to be missing. Without\n"
        "ROLLOUT wait for the calls of all rollouts whose response is over.\n\n"
        "Exit codes: 0 complete; 1 something is missing (gaps), or the rollout is not known; 2 no such directory;\n"
        "4 calls were still pending at the timeout, or a server process cannot be accounted for from here.",
        ("capture settle 17-2", "capture settle 17-2 --timeout 5 && train 17-2", "capture settle --json"),
        (
            Option(
                ROLLOUT.flag, {**ROLLOUT.how, "nargs": "?", "help": "a rollout's id; default: all of them"}
            ),
            Option(
                "--timeout",
                {"metavar": "S", "type": seconds, "default": 30.0, "help": "seconds to wait at most (30)"},
            ),
            DIRECTORY,
            JSON,
        ),
    ),
    "config": Command(
        commands.config,
        "show every setting, where it comes from and why",
        "Show the settings that a server started in this environment would use: CAPTURE_* variables over the file\n"
        "that CAPTURE_CONFIG names over the defaults. Wrong settings are all named.\n\n"
        "Exit codes: 0; 2 settings that cannot be used; 3 the extra `cli` is not installed.",
        (
            "capture config",
            "CAPTURE_CONFIG=capture.toml capture config",
            "capture config --json | jq '.[] | select(.source != \"default\")'",
        ),
        (JSON,),
    ),
    "reassemble": Command(
        debugging.reassemble,
        "show what the bytes of a response amount to, and what is odd about them",
        "Read the body of one response from stdin, an event stream or a JSON object, and show what a record would\n"
        "hold: the response as it would have come unstreamed, how it ended, what it used, and each oddity with what\n"
        "it means. For finding out why a server's stream is not read as it should be.\n\n"
        "Exit codes: 0 the response is complete and nothing of it is lost; 1 it is not; 2 wrong arguments.",
        (
            "capture reassemble --dialect chat < stream.txt",
            "capture reassemble --dialect messages --json < stream.txt | jq .response",
            "capture reassemble --dialect responses --content-encoding gzip < stream.gz",
        ),
        (
            Option(
                "--dialect",
                {"choices": tuple(PATHS), "required": True, "help": "the wire format of the model API"},
            ),
            Option(
                "--content-type",
                {"metavar": "TYPE", "help": "the header it came with; default: what the first bytes say"},
            ),
            Option(
                "--content-encoding", {"metavar": "CODING", "help": "gzip, deflate, br or zstd, if coded"}
            ),
            Option(
                "--status",
                {
                    "metavar": "N",
                    "type": status,
                    "default": 200,
                    "help": "the HTTP status it came with (200)",
                },
            ),
            JSON,
        ),
    ),
    "schema": Command(
        debugging.schema,
        "print the JSON Schema of what is stored",
        "Print the JSON Schema of a record's line, for readers in other languages. It allows members it does not\n"
        "know: fields are added over time, never removed or retyped.\n\n"
        "Exit codes: 0; 2 wrong arguments.",
        ("capture schema", "capture schema model-call-1 > model-call-1.json"),
        (
            Option(
                "name",
                {
                    "metavar": "NAME",
                    "nargs": "?",
                    "choices": tuple(SCHEMAS),
                    "default": "model-call-1",
                    "help": f"one of: {', '.join(SCHEMAS)} (model-call-1)",
                },
            ),
            JSON,
        ),
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is without the program's name, by default the process's."""
    try:
        options = parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE
    _stand_in()
    _tolerate(sys.stdout, sys.stderr)
    try:
        code = COMMANDS[options.command].run(options, os.environ)
        sys.stdout.flush()
    except CaptureConfigError as error:
        return _complain(USAGE, error.problems)
    except CommandError as error:
        return _complain(error.code, error.said)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _hush()
        left = isinstance(error, BrokenPipeError)
        return PIPE_CLOSED if left else _complain(USAGE, [f"cannot go on: {error.strerror or error}"])
    return code


def parser() -> ArgumentParser:
    """Make the parser of the whole command line from `COMMANDS`."""
    whole = ArgumentParser(
        prog="capture",
        description="Look at the model calls that were recorded, and at the servers that record them.",
        epilog=_examples(("capture demo", "capture ls --directory /tmp/records", "capture COMMAND --help")),
        formatter_class=RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"model-call-capture {__version__}")
    each = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        part = each.add_parser(
            name,
            help=command.summary,
            description=command.description,
            epilog=_examples(command.examples),
            formatter_class=RawDescriptionHelpFormatter,
        )
        for option in command.options:
            part.add_argument(option.flag, **option.how)
    return whole


def _examples(examples: Sequence[str]) -> str:
    return "\n  ".join(("Examples:", *examples))


def _complain(code: int, said: Sequence[str]) -> int:
    for line in said:
        sys.stderr.write(f"capture: {plain(line)}\n")
    return code


def _stand_in() -> None:
    """Stand in for streams that the caller closed: nothing is there to be read, and answers go nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - it is the process's from now on
            setattr(sys, name, nowhere)


def _tolerate(*streams: object) -> None:
    """Have characters that the terminal's encoding lacks escaped, rather than end the program."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _hush() -> None:
    """Send what is still buffered nowhere: it cannot be written, and the interpreter flushes once more."""
    with suppress(io.UnsupportedOperation), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
