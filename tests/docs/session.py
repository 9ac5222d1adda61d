"""One session of a document's examples, run for real: its folder, its server, and what was printed last.

Only the port, the directory of records and the search paths are the test's own; everything else is as typed.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx

from capture import CaptureStore
from capture.demo.processes import LOOPBACK, free_port, stop
from tests.docs.blocks import ROOT, Block

PORT, RECORDS = "8000", "/tmp/records"  # noqa: S108 - what the documents say, replaced here
START_TIMEOUT_S = 30.0
POLL_S = 0.02
CHECKED = "check"
CALL = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}


class Session:
    """Runs blocks in order. `stop` ends the server, if one was started."""

    def __init__(self, folder: Path, records: Path) -> None:
        self._folder = folder
        self._records = records
        self._port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._printed = ""
        tools = folder.parent / f"{folder.name}-bin"
        tools.mkdir()
        command = tools / "capture"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m capture "$@"\n')
        command.chmod(0o755)
        path = [str(Path(sys.executable).parent), str(tools), os.environ.get("PATH", "")]
        self._environ = {
            **os.environ,
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "COLUMNS": "120",
        }

    def take(self, block: Block) -> None:
        """Run one block as its comment says; an assertion fails with what it printed."""
        text = block.text.replace(PORT, str(self._port)).replace(RECORDS, str(self._records))
        how, _, name = block.how.partition("=")
        if how == "serve":
            self._serve(text)
        elif how == "prints":
            assert matches(text, self._printed), f"{block.document.name}:{block.line}:\n{self._printed}"
        elif how == "file":
            (self._folder / name).write_text(text, encoding="utf-8")
        else:
            self._run(block, text)

    def stop(self) -> None:
        """End the server by its process id."""
        if self._server is not None:
            stop(self._server)

    def _run(self, block: Block, text: str) -> None:
        command = [sys.executable, "-c", text] if block.language == "python" else ["sh", "-e", "-c", text]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        assert done.returncode == 0, f"{block.document.name}:{block.line}:\n{done.stdout}{done.stderr}"
        self._printed = done.stdout

    def _serve(self, text: str) -> None:
        """Start a server, and show that a call to it is recorded."""
        log = (self._folder / "server.log").open("wb")
        with log:
            self._server = subprocess.Popen(
                ["sh", "-c", f"exec env {text}"],
                cwd=self._folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._call()
        settled = CaptureStore(self._records).settle(CHECKED, 20)
        assert settled.complete, settled
        assert CaptureStore(self._records).read(CHECKED)

    def _call(self) -> None:
        url = f"http://{LOOPBACK}:{self._port}/v1/chat/completions"
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._server is not None and self._server.poll() is None:
            with suppress(httpx.ConnectError):
                httpx.post(url, json=CALL, headers={"x-rollout-id": CHECKED}, timeout=START_TIMEOUT_S)
                return
            time.sleep(POLL_S)
        raise AssertionError((self._folder / "server.log").read_text(errors="replace"))


def matches(expected: str, printed: str) -> bool:
    """Whether something was printed as a document says: `...` is anything, and any run of blanks is one."""
    wanted, got = (re.sub(" *\n *| +", _blank, text.strip()) for text in (expected, printed))
    pattern = ".*?".join(map(re.escape, re.split(r" *\.\.\. *", wanted)))
    return re.fullmatch(pattern, got, re.DOTALL) is not None


def _blank(found: re.Match[str]) -> str:
    return "\n" if "\n" in found[0] else " "
