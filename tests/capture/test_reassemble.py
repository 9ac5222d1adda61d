"""What the bytes of a response amount to, by the library and by the command."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from capture.cli import main
from capture.reassembly import PATHS, reassemble
from pipeline.flags import FLAGS
from tests.answers import stream, whole

WORDS = {"chat": "stop", "responses": "completed", "messages": "end_turn"}
"""How each dialect says that an answer is over."""
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs the command on some bytes: exit code and stdout."""

    def run(body: bytes, *argv: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(body)))
        code = main(["reassemble", *argv])
        return code, capsys.readouterr().out

    return run


def text_in(response: Any) -> bool:  # noqa: ANN401 - a response of any dialect
    """Tell whether the answer's text is in the response, in one piece."""
    return '"Hello"' in json.dumps(response)


@pytest.mark.parametrize("dialect", PATHS)
def test_a_stream_amounts_to_its_response(dialect: str) -> None:
    """The pieces of each dialect are one response, complete and finished, and nothing is known of a client."""
    record = reassemble(stream(dialect, "Hel", "lo"), dialect)
    assert text_in(record.response)
    assert (record.stream, record.complete, record.finish) == (True, True, "stop")
    assert (record.request, record.rollout_id, record.server.pid) == (None, None, 0)


@pytest.mark.parametrize("dialect", PATHS)
def test_a_whole_body_is_the_response(dialect: str) -> None:
    """An unstreamed body, compressed as its header says, is what it holds."""
    body = gzip.compress(whole(dialect, "Hello"))
    record = reassemble(body, dialect, content_type="application/json", content_encoding="gzip")
    assert text_in(record.response)
    assert (record.stream, record.complete, record.flags) == (False, True, ["response_encoded"])


def test_another_dialect_is_a_wrong_call() -> None:
    """Only the three dialects are read; anything else is named with what is allowed."""
    with pytest.raises(ValueError, match="chat, responses, messages"):
        reassemble(b"", "gemini")


@pytest.mark.parametrize("dialect", PATHS)
def test_the_command_says_what_a_stream_is(dialect: str, run: Run) -> None:
    """The response as JSON, then how it ended: exit code 0 for a whole stream without losses."""
    code, out = run(stream(dialect, "Hel", "lo"), "--dialect", dialect)
    response, end = json.JSONDecoder().raw_decode(out)
    assert code == 0
    assert text_in(response)
    assert out[end:].splitlines()[1:3] == [
        "complete: yes",
        f"finish: stop ({WORDS[dialect]})",
    ]


def test_the_command_tells_each_oddity_with_its_sentence(run: Run) -> None:
    """An odd stream is still exit code 0, with the flag, its kind and its sentence on a line."""
    code, out = run(stream("chat", "Hi").replace(b"data: [DONE]\n\n", b""), "--dialect", "chat")
    assert code == 0
    assert f"odd: no_done: {FLAGS['no_done'].meaning}\n" in out


@pytest.mark.parametrize(
    "body",
    [stream("chat", "Hi")[:100], stream("chat", "Hi") + b"data: {broken\n\n", b"", b"<html>"],
    ids=["cut", "lossy", "empty", "page"],
)
def test_the_command_fails_for_what_is_cut_or_lossy(body: bytes, run: Run) -> None:
    """A stream that is cut, that held what cannot be read, or that is no response at all: exit code 1."""
    assert run(body, "--dialect", "chat")[0] == 1
    assert run(body, "--dialect", "chat", "--json")[0] == 1


def test_the_command_as_json(run: Run) -> None:
    """One document: how it ended, the flags as rows, and the response; the status is taken into account."""
    body = b'{"error":{"message":"slow down","type":"rate","code":"x"}}'
    code, out = run(body, "--dialect", "chat", "--status", "429", "--json")
    found = json.loads(out)
    assert (code, out.count("\n")) == (1, 1)
    assert (found["complete"], found["error"]["category"], found["error"]["message"]) == (
        False,
        "rate_limit",
        "slow down",
    )
    assert found["response"] == json.loads(body)
    code, out = run(body + b"]", "--dialect", "chat", "--json")
    (flag,) = [each for each in json.loads(out)["flags"] if each["kind"] == "lossy"]
    assert flag == {"name": flag["name"], **FLAGS[flag["name"]]._asdict()}


def test_nothing_in_the_bytes_reaches_the_terminal_as_a_command(run: Run) -> None:
    """Escape sequences in an answer come out as text."""
    out = run(whole("chat", "\x1b]0;owned\x07\x9b2J"), "--dialect", "chat")[1]
    assert "owned" in out
    assert not any(sign in out for sign in "\x1b\x07\x9b")


@pytest.mark.parametrize("argv", [[], ["--dialect", "gemini"], ["--dialect", "chat", "--status", "99"]])
def test_wrong_arguments_are_exit_code_2(argv: list[str], run: Run) -> None:
    """The dialect must be given, and be one; a status is one of HTTP's."""
    assert run(b"", *argv) == (2, "")
