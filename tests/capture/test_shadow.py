"""The user's own files by our names: found first, they are refused with the file named; found later, no harm.

Real processes, started in a folder that holds `pipeline.py`, `capture.py` and `sitecustomize.py`, with this checkout
on PYTHONPATH in the place of an installation.
"""

import os
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from capture import CaptureStore
from tests.clients.hosts import ROOT, launched

BODY = b'{"model":"scripted","messages":[]}'
SHADOWING = "raise SystemExit('the user's own file was run')\n"
SITE = """
import os, pathlib
print("hello from sitecustomize", flush=True)
with pathlib.Path(__file__).with_name("pids").open("a") as pids:
    pids.write(f"{os.getpid()}\\n")
"""
UVICORN = ["-m", "uvicorn", "capture.asgi:app", "--port", "1"]


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run Python in a folder to its end; return its status, and what it said."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "CAPTURE_APP": "capture.demo.served:app"}
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "arguments", [UVICORN, ["-P", *UVICORN], ["-c", "import capture"]], ids=["-m", "-P", "-c"]
)
def test_a_pipeline_of_the_users_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    """Where the user's `pipeline.py` is found first, capture does not run it, and its refusal names the file."""
    (tmp_path / "pipeline.py").write_text(SHADOWING)
    status, said = run(tmp_path, *arguments)
    assert status == 1
    assert f"{tmp_path / 'pipeline.py'} is found first" in said
    assert "was run" not in said


def test_a_loaded_pipeline_of_the_users_is_refused(tmp_path: Path) -> None:
    """A `pipeline` that the user's program imported before capture is refused with its file, too."""
    (tmp_path / "pipeline.py").write_text("")
    status, said = run(tmp_path, "-c", "import pipeline, capture")
    assert status == 1
    assert str(tmp_path / "pipeline.py") in said


def test_a_capture_of_the_users_is_named_by_python(tmp_path: Path) -> None:
    """Where the user's `capture.py` is found first, no code of ours is run; an import from it names the file."""
    (tmp_path / "capture.py").write_text("")
    status, said = run(tmp_path, "-c", "from capture import install")
    assert status == 1
    assert str(tmp_path / "capture.py") in said


def test_files_that_are_found_later_do_no_harm(tmp_path: Path) -> None:
    """With the user's files behind ours, server and worker process run our own, whatever `sitecustomize` prints."""
    user = tmp_path / "user"
    user.mkdir()
    (user / "pipeline.py").write_text(SHADOWING)
    (user / "capture.py").write_text(SHADOWING)
    (user / "sitecustomize.py").write_text(SITE)
    environ = {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{user}",
        "CAPTURE_APP": "capture.demo.served:app",
        "CAPTURE_ENABLED": "1",
        "CAPTURE_DIRECTORY": str(tmp_path / "records"),
    }
    arguments = ["-P", "-m", "uvicorn", "capture.asgi:app", "--app-dir", str(ROOT), "--port", "{port}"]
    with launched(arguments, tmp_path, environ, user) as server:
        call = Request(f"{server.url}/ng-rollout/r/v1/chat/completions", BODY)  # noqa: S310 - a loopback URL
        with urlopen(call) as answered:  # noqa: S310 - as above
            answered.read()
        store = CaptureStore(tmp_path / "records")
        assert store.settle("r").complete
        (record,) = store.read("r")
        pids = {int(line) for line in (user / "pids").read_text().split()}
    assert record.complete
    assert record.server.pid in pids
    assert len(pids) > 1, "no worker process was started"
