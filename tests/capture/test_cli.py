"""The command line from outside: exit codes, streams, help, and how it ends when it is stopped."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capture.cli import COMMANDS, main, parser
from pipeline.version import __version__
from tests.capture.recorded import ROOT, Call, record

Capsys = pytest.CaptureFixture[str]


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command line in a process of its own, with its usual buffering, and leave none behind."""
    command = [sys.executable, "-m", "capture", *arguments]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_version_and_help_end_well(capsys: Capsys) -> None:
    """They go to stdout with exit code 0, and the help names every command."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"model-call-capture {__version__}\n"
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(re.search(rf"^ +{name}\b", said, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches(name: str, capsys: Capsys) -> None:
    """Its help has a description, its exit codes, `--json`, and examples that its own parser accepts."""
    assert main([name, "--help"]) == 0
    said = capsys.readouterr().out
    assert COMMANDS[name].description in said
    assert "Exit codes: " in said
    assert "--json" in said
    for example in COMMANDS[name].examples:
        assert f"  {example}\n" in said
        words = re.split(r" [|&<>]", example)[0].split()
        parser().parse_args(words[words.index("capture") + 1 :])


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["show"],
        ["settle", "r", "--timeout", "-1"],
        ["settle", "r", "--timeout", "nan"],
        ["settle", "r", "--timeout", "soon"],
        ["status", "--watch", "often"],
        ["status", "--watch", "1e300"],
    ],
)
def test_wrong_arguments_are_exit_code_2(argv: list[str], capsys: Capsys) -> None:
    """They are explained on stderr with the usage, and stdout stays empty."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: capture")


READING = [["ls"], ["show", "r"], ["follow", "r"], ["status"], ["settle", "r"]]


@pytest.mark.parametrize("argv", READING)
def test_without_a_directory_one_line_says_how_to_give_one(argv: list[str], capsys: Capsys) -> None:
    """Neither given nor set: exit code 2 and one line."""
    assert main(argv) == 2
    assert capsys.readouterr() == (
        "",
        "capture: no directory: give --directory DIR, or set CAPTURE_DIRECTORY\n",
    )


@pytest.mark.parametrize("argv", READING)
def test_a_missing_directory_is_one_line(argv: list[str], tmp_path: Path, capsys: Capsys) -> None:
    """A directory that is not there, or is a file, is named: exit code 2."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "missing", tmp_path / "file"):
        assert main([*argv, "--directory", str(path)]) == 2
        assert capsys.readouterr() == ("", f"capture: there is no directory {path}\n")


def test_the_directory_comes_from_environment_or_file(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAPTURE_DIRECTORY and the file of CAPTURE_CONFIG serve as well as the argument."""
    record(tmp_path / "records", Call("a"))
    (tmp_path / "capture.toml").write_text(f'directory = "{tmp_path}/records"\n')
    for name, value in (("CAPTURE_DIRECTORY", "records"), ("CAPTURE_CONFIG", "capture.toml")):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(tmp_path / value))
            assert main(["ls", "--json"]) == 0
        assert [each["stem"] for each in json.loads(capsys.readouterr().out)] == ["a"]


def test_every_wrong_setting_has_its_line(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each problem is one line on stderr, exit code 2; a given directory makes the settings matter no more."""
    monkeypatch.setenv("CAPTURE_WORKERS", "many")
    monkeypatch.setenv("CAPTURE_NONSENSE", "1")
    for argv in (["config"], ["config", "--json"], ["ls"]):
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert sorted(re.findall(r"^capture: (\w+) is ", err, re.MULTILINE)) == [
            "CAPTURE_NONSENSE",
            "CAPTURE_WORKERS",
        ]
        assert err.count("\n") == 2


def test_settings_are_not_read_where_a_directory_is_given(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong setting of a server's keeps nobody from reading records."""
    monkeypatch.setenv("CAPTURE_WORKERS", "many")
    assert main(["ls", "--directory", str(tmp_path), "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


TABLES = [["ls"], ["show", "a"], ["status"], ["config"]]


@pytest.mark.parametrize("argv", TABLES)
def test_without_rich_a_table_names_the_extra(
    argv: list[str], tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what to install, exit code 3; with --json the same command works."""
    record(tmp_path, Call("a"))
    monkeypatch.setenv("CAPTURE_DIRECTORY", str(tmp_path))
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(argv) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "pip install 'model-call-capture[cli]'" in err
    assert main([*argv, "--json"]) == 0
    json.loads(capsys.readouterr().out)


def test_without_its_extra_the_demonstration_names_it(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with every package that is missing, exit code 3, also with --json."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["demo", "--json"]) == 3
    need = "the demonstration needs httpx and uvicorn"
    how = "install with: pip install 'model-call-capture[demo]'"
    assert capsys.readouterr() == ("", f"capture: {need}; {how}\n")


def test_follow_prints_what_is_there_and_what_comes_and_ends_quietly(tmp_path: Path) -> None:
    """Lines come while the rollout grows; Ctrl-C ends it with 130 and nothing on stderr."""
    record(tmp_path, Call("a", "one"))
    with running("follow", "a", "--json", "--directory", str(tmp_path)) as process:
        assert process.stdout is not None
        texts = [_answer(process.stdout.readline())]
        record(tmp_path, Call("a", "two"))
        texts.append(_answer(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        assert process.communicate() == (b"", b"")
        assert process.returncode == 130
    assert texts == ["one", "two"]


def test_follow_waits_for_a_rollout_that_is_not_there_yet(tmp_path: Path) -> None:
    """It says so on stderr, and the first record comes as one line that a person reads."""
    with running("follow", "a", "--directory", str(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == b"waiting for the first call of a\n"
        record(tmp_path, Call("a"))
        assert b"  chat  m-1  200  stop  7  3  " in process.stdout.readline()


MEMBERS = ["anonymous", "in_flight", "retired", "servers", "unreadable"]


def test_watching_ends_quietly(tmp_path: Path) -> None:
    """`status --watch --json` gives a line each time until Ctrl-C, which is 130 and nothing on stderr."""
    with running("status", "--watch", "0.1", "--json", "--directory", str(tmp_path)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.communicate()[1] == b""
        assert process.returncode == 130
    assert [sorted(json.loads(line)) for line in lines] == [MEMBERS] * 2


@pytest.mark.parametrize("how", [["--json"], ["--call", "1"], []])
def test_a_reader_that_leaves_is_no_error(how: list[str], tmp_path: Path) -> None:
    """What is piped into `head` ends as any other command does, by the pipe, without a word."""
    record(tmp_path, Call("a", "long " * 100_000), *(Call("a", model="m" * 1000) for _ in range(100)))
    with running("show", "a", *how, "--directory", str(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.wait() == 141
        assert process.stderr.read() == b""


@pytest.mark.parametrize("how", [["ls"], ["show", "a", "--json"], ["settle"], ["schema"]])
def test_an_answer_that_cannot_be_written_is_one_line(how: list[str], tmp_path: Path) -> None:
    """A full disk behind stdout is exit code 2 and said on stderr, with nothing of the interpreter's own."""
    record(tmp_path, Call("a"))
    command = [sys.executable, "-m", "capture", *how]
    environ = {**os.environ, "CAPTURE_DIRECTORY": str(tmp_path)}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (2, b"capture: cannot go on: No space left on device\n")


@pytest.mark.parametrize(
    ("stream", "how", "code"), [(">", "settle a", 0), ("<", "reassemble --dialect chat", 1)]
)
def test_a_stream_that_the_caller_closed_is_no_error(
    stream: str, how: str, code: int, tmp_path: Path
) -> None:
    """Without stdout there is the exit code; without stdin there is nothing to read."""
    record(tmp_path, Call("a"))
    script = f"exec {sys.executable} -m capture {how} {stream}&-"
    environ = {**os.environ, "CAPTURE_DIRECTORY": str(tmp_path)}
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (code, b"")


def _answer(line: bytes) -> str:
    text = json.loads(line)["response"]["choices"][0]["message"]["content"]
    assert isinstance(text, str)
    return text
