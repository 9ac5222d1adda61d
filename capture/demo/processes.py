"""Server processes of our own: `python -m uvicorn` on a free loopback port, there when asked, gone afterwards.

A server is ready when all of its processes have said so in their log and a connection is answered; it is waited
for at a deadline, and a server that dies before is an error that shows its log. It is ended by SIGTERM, and by
SIGKILL if that is not enough, always by its own pid.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 12.0
"""Longer than uvicorn lets its own processes take, and than capture's `shutdown_timeout_ms`."""

POLL_S = 0.02
STARTED = "Started server process"
"""What uvicorn logs once for each server process, before the application's own start-up."""


class ServerStartError(RuntimeError):
    """The server ended, or did not answer in time; the text ends with what it logged."""


class Server(NamedTuple):
    """A running server: its base URL without a slash at the end, its parent process, and its log."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


def free_port() -> int:
    """Return a loopback port that nobody else is given for a minute.

    A connection closed from its own end lingers in TIME_WAIT: the system then gives that port to nobody who asks
    for any, while a server that names it may still listen there.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, 0))
        listener.listen(1)
        with socket.create_connection(listener.getsockname()) as peer:
            accepted, _ = listener.accept()
            accepted.close()
            return int(peer.getpeername()[1])


@contextmanager
def serve(
    target: str,
    *,
    log: Path,
    workers: int = 1,
    environ: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[Server]:
    """Run `uvicorn target` with so many server processes; `environ` is added to this process's own."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", target, "--host", LOOPBACK, "--port", str(port)]
    command += ["--workers", str(workers), "--no-access-log", *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environ or {})},
        )
    server = Server(f"http://{LOOPBACK}:{port}", process, log)
    try:
        wait_until_ready(server, port, workers)
        yield server
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes], timeout_s: float = STOP_TIMEOUT_S) -> None:
    """End a process: SIGTERM, and SIGKILL if it is still there after the timeout."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_ready(server: Server, port: int, workers: int = 0) -> None:
    """Return once a server answers, and has said that so many of its processes run; raises ServerStartError."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise ServerStartError(f"the server ended with {server.process.returncode}:\n{_tail(server.log)}")
        if _tail(server.log).count(STARTED) >= workers and _answers(port):
            return
        time.sleep(POLL_S)
    raise ServerStartError(f"the server did not answer in {START_TIMEOUT_S:g} s:\n{_tail(server.log)}")


def _answers(port: int) -> bool:
    """Ask with a request of our own: a listening socket alone may belong to a process still starting."""
    with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1) as peer:
        peer.sendall(b"GET /health HTTP/1.1\r\nhost: loopback\r\nconnection: close\r\n\r\n")
        return peer.recv(5) == b"HTTP/"
    return False


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-20_000:]
