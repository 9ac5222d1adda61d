"""An open-loop client: requests leave at their appointed moments, whatever became of those before them.

Bodies and connections are plain asyncio, so that the client costs little beside the servers it shares the machine
with. Latency counts from the appointed moment: a request that could not leave in time has waited, too.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

GIVE_UP_S = 30.0
ROLE_AND_TOKEN = 2
"""The first event of a chat stream names the role, the second has the first token."""


class Target(NamedTuple):
    """A server's address, and the model that is asked for there."""

    host: str
    port: int
    model: str

    @classmethod
    def at(cls, url: str, model: str) -> "Target":
        """Make it from the server's base URL."""
        parts = urlsplit(url)
        return cls(parts.hostname or "", parts.port or 80, model)


class Timing(NamedTuple):
    """Seconds from the appointed moment to the first token and to the last byte."""

    first_token: float
    last_byte: float


class Exchange(asyncio.Protocol):
    """One request on a connection of its own; `done` has its timing, or the exception that ended it."""

    def __init__(self, request: bytes, due: float) -> None:
        loop = asyncio.get_running_loop()
        self.clock = loop.time
        self.done: asyncio.Future[Timing] = loop.create_future()
        self.request, self.due = request, due
        self.events, self.first, self.last = 0, 0.0, 0.0
        self.tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the whole request."""
        if isinstance(transport, asyncio.WriteTransport):
            transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Count events and keep the clock."""
        self.last = self.clock()
        self.events += data.count(b"\n\n")
        if not self.first and self.events >= ROLE_AND_TOKEN:
            self.first = self.last
        self.tail = (self.tail + data)[-64:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Take a stream for whole only if it ended as one."""
        if self.done.done():
            return
        if exc is None and b"data: [DONE]" in self.tail:
            self.done.set_result(Timing(self.first - self.due, self.last - self.due))
        else:
            self.done.set_exception(exc or ConnectionError("the stream was not whole"))


async def send(target: Target, request: bytes, due: float) -> Timing:
    """Make one exchange at the moment `due` (of the loop's clock, s)."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(due - loop.time())
    _, exchange = await loop.create_connection(lambda: Exchange(request, due), target.host, target.port)
    return await asyncio.wait_for(exchange.done, GIVE_UP_S)


async def block(target: Target, rollout: str, sizes: Sequence[int], gap_s: float) -> list[Timing]:
    """Send one request of each size, `gap_s` apart, and wait for all of them."""
    requests = [render(target.model, rollout, size) for size in sizes]
    start = asyncio.get_running_loop().time() + gap_s
    return await asyncio.gather(
        *(send(target, request, start + number * gap_s) for number, request in enumerate(requests))
    )


def render(model: str, rollout: str, size: int) -> bytes:
    """Make the bytes of a streamed chat request of about `size` bytes, as an agent with a long history sends it."""
    turn = {"role": "user", "content": "The test failed again, here is what it printed. " * 40}
    turns = [turn] * max(1, size // len(json.dumps(turn)))
    body = json.dumps({"model": model, "stream": True, "messages": turns}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: loopback\r\nconnection: close\r\nx-rollout-id: {rollout}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def body_sizes(draw: random.Random, count: int) -> list[int]:
    """Draw the sizes of one block's requests, 100 to 500 kB."""
    return [draw.randint(100_000, 500_000) for _ in range(count)]
