"""ASGI servers of every make with capture on, as real processes, and a client that can hang up.

The client speaks HTTP/1.1 on a raw socket, so that it alone decides when the connection ends and how: by FIN as a
program that closes, or by RST as one that dies. In-process clients and SDKs hide both.
"""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketStream

from capture.demo.processes import LOOPBACK, Server, free_port, stop, wait_until_ready

TARGET = "capture.asgi:app"
ROOT = Path(__file__).resolve().parent.parent.parent
RECEIVE_BYTES = 1 << 16
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, for 0 s: closing sends RST."""

GUNICORN = ("-k", "uvicorn_worker.UvicornWorker", "-w", "2")
"""Two processes that are forked after the application was built."""

HOSTS: dict[str, list[str]] = {
    "uvicorn-h11": ["uvicorn", TARGET, "--http", "h11", "--port", "{port}"],
    "uvicorn-httptools": ["uvicorn", TARGET, "--http", "httptools", "--port", "{port}"],
    "uvicorn-no-lifespan": ["uvicorn", TARGET, "--lifespan", "off", "--port", "{port}"],
    "hypercorn-asyncio": ["hypercorn", TARGET, "--worker-class", "asyncio", "--bind", "127.0.0.1:{port}"],
    "hypercorn-trio": ["hypercorn", TARGET, "--worker-class", "trio", "--bind", "127.0.0.1:{port}"],
    "granian": ["granian", TARGET, "--interface", "asgi", "--port", "{port}"],
    "gunicorn-preload": ["gunicorn", TARGET, "--preload", *GUNICORN, "-b", "127.0.0.1:{port}"],
}
"""Name to the arguments of `python -m`."""


@contextmanager
def hosted(kind: str, folder: Path, environ: Mapping[str, str]) -> Iterator[Server]:
    """Run one of `HOSTS`; its log is `folder/server.log`."""
    with launched(["-m", *HOSTS[kind]], folder, environ, ROOT) as server:
        yield server


@contextmanager
def launched(
    arguments: Sequence[str], folder: Path, environ: Mapping[str, str], working_folder: Path
) -> Iterator[Server]:
    """Run Python with arguments that start a server on `{port}`; its log is `folder/server.log`."""
    port = free_port()
    command = [sys.executable, *(part.format(port=port) for part in arguments)]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environ},
            cwd=working_folder,
        )
    server = Server(f"http://{LOOPBACK}:{port}", process, log)
    try:
        wait_until_ready(server, port)
        yield server
    finally:
        stop(process)


@asynccontextmanager
async def connected(url: str, *, reset: bool = False) -> AsyncIterator[SocketStream]:
    """Open a connection, and end it at once at the end of the block: by RST where `reset` says so, else as usual."""
    stream = await anyio.connect_tcp(LOOPBACK, int(url.rpartition(":")[2]))
    if reset:
        raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - a socket's attribute, no query
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    try:
        yield stream
    finally:
        await anyio.aclose_forcefully(stream)


def post(path: str, body: bytes, number: int) -> bytes:
    """Write a request; `number` is its request id, by which its record is found again."""
    head = f"POST {path} HTTP/1.1\r\nhost: loopback\r\nx-request-id: {number}\r\ncontent-length: {len(body)}"
    return f"{head}\r\ncontent-type: application/json\r\n\r\n".encode() + body


async def read_until(stream: SocketStream, mark: bytes, count: int = 1) -> bytes:
    """Read a chunked response until `mark` came so often, and return its body so far, without chunk marks."""
    head, _, rest = await _read_past(stream, b"", b"\r\n\r\n", 1)
    assert b"transfer-encoding: chunked" in head.lower()
    return dechunked(b"".join(await _read_past(stream, rest, mark, count)))


async def read_mark(stream: SocketStream, mark: bytes) -> None:
    """Read until `mark` has come."""
    await _read_past(stream, b"", mark, 1)


async def _read_past(
    stream: SocketStream, data: bytes, mark: bytes, count: int
) -> tuple[bytes, bytes, bytes]:
    while data.count(mark) < count:
        data += await stream.receive(RECEIVE_BYTES)
    return data.partition(mark)


def dechunked(data: bytes) -> bytes:
    """Take the chunk marks out; a chunk that has not come whole counts as far as it came."""
    parts = []
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        parts.append(data[:length])
        data = data[length + 2 :]
    return b"".join(parts)


async def read_whole(stream: SocketStream) -> bytes:
    """Read a response that says its length, and return its body."""
    head, _, body = await _read_past(stream, b"", b"\r\n\r\n", 1)
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += await stream.receive(RECEIVE_BYTES)
    return body
