"""What each command answers, on record files of the real pipeline."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from capture import CaptureStore
from capture.cli import main
from capture.config import KNOBS
from pipeline.gaps import GAP_SUFFIX, RECORD_SUFFIX
from tests.capture.recorded import Call, open_call, record, serving
from tests.clients.servers import captured

Run = Callable[..., tuple[int, str, str]]
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\u202e\x9b2J\r[bold]bold[/bold]"


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs a command on the test's directory: exit code, stdout, stderr."""

    def run(*argv: str) -> tuple[int, str, str]:
        code = main([*argv, "--directory", str(tmp_path)])
        return (code, *capsys.readouterr())

    return run


def answer(run: Run, *argv: str) -> Any:  # noqa: ANN401 - whatever the command says
    """Run a command that goes well with `--json` and return its one document."""
    code, out, err = run(*argv, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    return json.loads(out)


def test_ls_sums_each_rollout_up(tmp_path: Path, run: Run) -> None:
    """Calls, dialects, models, tokens, errors, gaps, damage, last call and size: of each rollout."""
    record(tmp_path, Call("a"), Call("a", model="m-2"), Call("a", error="no"), Call("b/c"), Call(None))
    path = tmp_path / f"a{RECORD_SUFFIX}"
    path.write_bytes(path.read_bytes() + b"torn\n")
    (tmp_path / f"gone{GAP_SUFFIX}").write_text('{"model_call_id":"%s","code":"lost"}\n' % ("0" * 32))
    found = answer(run, "ls")
    assert [each["rollout_id"] for each in found] == ["a", "b/c", "gone", None]
    assert found[0] == {
        "rollout_id": "a",
        "stem": "a",
        "calls": 3,
        "dialects": ["chat"],
        "models": ["m-1", "m-2"],
        "input_tokens": 14,
        "output_tokens": 6,
        "errors": 1,
        "gaps": 0,
        "damaged": 1,
        "last_call_at": CaptureStore(tmp_path).read("a")[-1].completed_at,
        "file_bytes": path.stat().st_size,
    }
    assert (found[2]["calls"], found[2]["gaps"], found[2]["input_tokens"], found[2]["file_bytes"]) == (
        0,
        1,
        None,
        0,
    )
    rows = run("ls")[1].splitlines()
    assert [row.split()[:6] for row in rows if row.startswith((" a ", " b/c "))] == [
        ["a", "3", "chat", "m-1", "m-2", "14"],
        ["b/c", "1", "chat", "m-1", "7", "3"],
    ]


def test_ls_of_nothing_says_so(tmp_path: Path, run: Run) -> None:
    """An empty directory is one sentence, and an empty list in JSON."""
    assert run("ls") == (0, f"no calls are recorded in {tmp_path}\n", "")
    assert answer(run, "ls") == []


def test_show_gives_a_row_for_each_call(tmp_path: Path, run: Run) -> None:
    """Rows are numbered in order of completion; a failed call's error is in its row."""
    record(tmp_path, Call("a"), Call("a", error="no"))
    code, out, err = run("show", "a")
    rows = [row.split() for row in out.splitlines() if " chat " in row]
    assert (code, err) == (0, "")
    assert [(row[0], row[5], row[6]) for row in rows] == [("1", "200", "stop"), ("2", "400", "-")]
    assert "client_error" in rows[1]


def test_show_as_json_gives_the_lines_as_stored(tmp_path: Path, run: Run) -> None:
    """Every member of every line comes back, those of a newer writer among them, with gaps and damage beside."""
    record(tmp_path, Call("a"), Call("a", "two"))
    path = tmp_path / f"a{RECORD_SUFFIX}"
    path.write_bytes(path.read_bytes().replace(b'"schema":', b'"newer":[1],"schema":') + b"torn\n")
    (tmp_path / f"a{GAP_SUFFIX}").write_text('{"model_call_id":"%s","code":"dropped"}\n' % ("0" * 32))
    found = answer(run, "show", "a")
    assert found["records"] == [json.loads(line) for line in path.read_bytes().splitlines()[:2]]
    assert found["records"][0]["newer"] == [1]
    assert (found["rollout_id"], found["damaged"], found["gaps"][0]["code"]) == ("a", 1, "dropped")
    out = run("show", "a")[1]
    assert f"gap  {'0' * 32}  dropped  -\n1 lines cannot be read\n" in out


@pytest.mark.parametrize("by", ["row", "id", "beginning"])
def test_show_one_call_in_full(by: str, tmp_path: Path, run: Run) -> None:
    """A call is named by its row, its id, or the beginning of it; several lines of text read as they were written."""
    record(tmp_path, Call("a", "first\n\tindented\nlast"))
    name = CaptureStore(tmp_path).read("a")[0].model_call_id
    code, out, err = run("show", "a", "--call", {"row": "1", "id": name, "beginning": name[:9]}[by])
    assert (code, err) == (0, "")
    assert f"model_call_id: {name}\n" in out
    assert "content: |\n          first\n          \tindented\n          last\n" in out
    assert "null" not in out.split("\nrequest:")[0]
    assert answer(run, "show", "a", "--call", name)["model_call_id"] == name


def test_what_cannot_be_shown_is_one_line(tmp_path: Path, run: Run) -> None:
    """An unknown rollout, an unknown call and an ambiguous one: exit code 1, nothing on stdout."""
    record(tmp_path, Call("a"), Call("a"))
    common = CaptureStore(tmp_path).read("a")[0].model_call_id[:16]
    assert run("show", "b") == (1, "", f"capture: no call of rollout b is recorded in {tmp_path}\n")
    for call in ("0", "3", "zzz"):
        assert run("show", "a", "--call", call) == (1, "", f"capture: no call matches {call} in rollout a\n")
    assert run("show", "a", "--call", common) == (1, "", f"capture: 2 calls match {common} in rollout a\n")


def test_calls_without_a_rollout_are_shown_by_the_name_that_ls_gives(tmp_path: Path, run: Run) -> None:
    """They have no id; the name of their file stands in for it."""
    record(tmp_path, Call(None, "alone"))
    name = answer(run, "ls")[0]["stem"]
    assert name.startswith("uncorrelated~")
    assert [each["rollout_id"] for each in answer(run, "show", name)["records"]] == [None]
    assert run("settle", name)[0] == 2


def test_nothing_recorded_reaches_the_terminal_as_a_command(tmp_path: Path, run: Run) -> None:
    """Escape sequences in ids, models and answers come out as text, in tables, in full and in JSON; no colours."""
    rollout = f"r {HOSTILE[2:9]}"
    record(tmp_path, Call(rollout, HOSTILE, model=HOSTILE))
    stem = CaptureStore(tmp_path).stems()[0]
    for argv in (
        ["ls"],
        ["show", stem],
        ["show", stem, "--call", "1"],
        ["show", stem, "--json"],
        ["ls", "--json"],
    ):
        out = run(*argv)[1]
        assert "bold]bold[/bold]" in out
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)
    assert "\\x1b]0;owned\\x07" in run("show", stem)[1]
    assert run("show", "\x1b[31m")[2].startswith("capture: no call of rollout \\x1b[31m is")


def test_rows_are_whole_where_there_is_no_terminal(tmp_path: Path, run: Run) -> None:
    """A row is one line, however long, so that it can be searched."""
    record(tmp_path, Call("a", model="m" * 500))
    assert any("m" * 500 in line and " a " in line for line in run("ls")[1].splitlines())


def test_status_shows_the_living_and_the_ended(tmp_path: Path, run: Run) -> None:
    """A row for the server process, one for the call in flight, and a sentence on those that ended."""
    record(tmp_path, Call("a"))

    async def look() -> tuple[str, Any]:
        async with serving(tmp_path, worker_kind="thread", server_name="east") as server:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: server.call(Call("held"), hold=True))
                await anyio.wait_all_tasks_blocked()
                seen = run("status")[1], answer(run, "status")
                server.release.set()
            return seen

    out, found = anyio.run(look)
    assert re.search(rf"^ east +{os.getpid()} +alive +1 +0 +1 ", out, re.MULTILINE)
    assert re.search(rf"^ held +open +\S+ s +{os.getpid()} ", out, re.MULTILINE)
    assert "ended server processes: 1 (started 1, committed 1, captured bytes " in out
    assert (found["servers"][0]["name"], found["servers"][0]["counts"]["open"]) == ("east", 1)
    assert (found["in_flight"][0]["stem"], found["retired"]["processes"], found["anonymous"]) == (
        "held",
        1,
        [],
    )
    assert run("status")[1].startswith("no server process writes here now\nended server processes: 2 (")


def test_settle_says_by_its_exit_code_how_it_stands(tmp_path: Path, run: Run) -> None:
    """0 complete, 1 gaps or unknown, 4 pending, of one rollout and of all."""
    record(tmp_path, Call("a"))
    (tmp_path / f"g{GAP_SUFFIX}").write_text('{"model_call_id":"%s","code":"lost"}\n' % ("0" * 32))

    async def hold() -> tuple[int, str, str]:
        async with serving(tmp_path, worker_kind="thread") as server, anyio.create_task_group() as group:
            group.start_soon(lambda: server.call(Call("a"), hold=True))
            await anyio.wait_all_tasks_blocked()
            seen = run("settle", "a", "--timeout", "0")
            server.release.set()
        return seen

    code, out, err = run("settle", "a")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"rollout a: complete after \d+\.\d{3} s\n", out)
    code, out, _ = run("settle", "g")
    assert (code, out.splitlines()[1]) == (1, f"gap  {'0' * 32}  lost  -")
    assert run("settle")[0] == 1
    assert run("settle", "b") == (1, "", f"capture: no call of rollout b is recorded in {tmp_path}\n")
    code, out, _ = anyio.run(hold)
    assert code == 4
    assert re.search(rf"^pending  [0-9a-f]{{32}}  open in process {os.getpid()}  20", out, re.MULTILINE)


def test_settle_names_what_a_killed_server_process_lost(tmp_path: Path, run: Run) -> None:
    """Of the calls that a process died with, only those of the rollout are named; the answered one is there."""
    with (
        captured(tmp_path, tmp_path, workers=1) as server,
        open_call(server.url, "whole", "scripted") as whole,
        open_call(server.url, "cut"),
        open_call(server.url, "other"),
    ):
        while whole.recv(1 << 16):
            pass
        assert run("settle", "whole")[0] == 0
        before = answer(run, "status")["in_flight"]
        server.process.kill()
        server.process.wait()
        code, out, err = run("settle", "cut")
    assert (code, err) == (1, "")
    assert out.splitlines()[0].startswith("rollout cut: not complete after ")
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [
        ["gap", before[0]["model_call_id"], "lost"]
    ]
    assert run("settle", "whole")[0] == 0
    assert {each["stem"]: each["gaps"] for each in answer(run, "ls")} == {"cut": 1, "other": 1, "whole": 0}


def test_settle_as_json(tmp_path: Path, run: Run) -> None:
    """The document holds what `Settled` holds."""
    record(tmp_path, Call("a"))
    found = answer(run, "settle", "a")
    assert sorted(found) == ["complete", "gaps", "pending", "unaccountable", "waited_s"]
    assert (found["complete"], found["gaps"], found["pending"]) == (True, [], [])


def test_config_says_what_and_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every setting with value, source and reason; values of JSON's types in JSON."""
    monkeypatch.setenv("CAPTURE_WORKERS", "3")
    monkeypatch.setenv("CAPTURE_LABELS", "run=7")
    assert main(["config", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(found) == list(KNOBS)
    assert (found["workers"]["value"], found["workers"]["source"]) == (3, "environment CAPTURE_WORKERS")
    assert (found["labels"]["value"], found["directory"]["value"]) == ({"run": "7"}, None)
    assert main(["config"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert any(re.match(r" workers +3 +environment CAPTURE_WORKERS +\S", row) for row in rows)
    assert all(
        any(row.startswith(f" {name} ") and knob.reason in row for row in rows)
        for name, knob in KNOBS.items()
    )


def test_the_demonstration_as_json(tmp_path: Path, run: Run) -> None:
    """One document on stdout says that all agrees and what was recorded; the table goes to stderr."""
    code, out, err = run("demo", "--json")
    found = json.loads(out)
    assert (code, found["agrees"], found["directory"]) == (0, True, str(tmp_path))
    assert sum(each["calls"] for each in found["rollouts"]) == 27
    assert "Every record agrees with what its client saw." in err


def test_a_demonstration_that_cannot_record_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A directory that cannot be made is named with the reason: exit code 2."""
    assert main(["demo", "--directory", "/proc/records"]) == 2
    assert capsys.readouterr() == (
        "",
        "capture: cannot record into /proc/records: No such file or directory\n",
    )
