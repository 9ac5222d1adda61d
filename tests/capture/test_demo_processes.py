"""Server processes of our own: they are there when the context begins and gone when it ends."""

import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from capture.demo.processes import LOOPBACK, ServerStartError, free_port, serve, stop

DEAF_TO_SIGTERM = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
)


def test_a_server_answers_inside_and_is_gone_after(tmp_path: Path) -> None:
    """Both processes have started and answer within the context; after it nobody listens on the port."""
    log = tmp_path / "server.log"
    with serve("capture.demo.served:app", log=log, workers=2, environ={"SCRIPTED_TOKENS": "1"}) as server:
        assert httpx.get(f"{server.url}/health").json()["status"] == "ok"
        body = {"model": "scripted", "messages": []}
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body).json()
        assert answer["usage"]["completion_tokens"] == 1
        assert log.read_text().count("Application startup complete") == 2
    assert server.process.returncode is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, urlsplit(server.url).port or 0), timeout=1)


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    """A target that does not exist is an error at once, with what the server said about it."""
    with (
        pytest.raises(ServerStartError, match="no_such_attribute"),
        serve("capture.demo.served:no_such_attribute", log=tmp_path / "server.log"),
    ):
        pass


def test_a_server_is_stopped_when_its_user_fails(tmp_path: Path) -> None:
    """An exception inside of the context ends the server, too."""
    with pytest.raises(KeyError), serve("capture.demo.served:app", log=tmp_path / "server.log") as server:
        raise KeyError
    assert server.process.returncode is not None


def test_what_ignores_sigterm_is_killed() -> None:
    """A process that does not heed SIGTERM ends by SIGKILL after the timeout."""
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF_TO_SIGTERM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        stop(process, timeout_s=0.1)
    assert process.returncode == -signal.SIGKILL


def test_free_ports_are_kept_from_others() -> None:
    """Twenty ports are twenty different ones, each free for a server that names it."""
    ports = {free_port() for _ in range(20)}
    assert len(ports) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOOPBACK, port))
