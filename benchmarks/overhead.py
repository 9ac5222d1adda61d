"""What capture costs the event loop's thread: CPU time of one exchange over a bare pass-through middleware.

The application is driven in this process without sockets, so that nothing but the middleware differs. Only the
loop's own thread is counted (`time.thread_time_ns`): the pipeline's thread and its workers are not on the path.
Runs with and without capture alternate, and the figure is the median difference; beside it stands the difference to
a middleware that wraps receive and send and does no more. Between runs everything is
settled, so that no run meets a full queue; a call that is not recorded makes the figure worthless and the run fail.

    python -m benchmarks.overhead
"""

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from capture import CaptureConfig, CaptureMiddleware, CaptureStore

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

RUNS = 21
EXCHANGES = {1: 300, 200: 60, 2000: 12}
"""Exchanges of a run by their number of chunks: enough to last some milliseconds each."""

TARGET_US = 10.0
TARGET_US_PER_CHUNK = 0.3

REQUEST = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"' + b"x" * 20_000 + b'"}]}'
CHUNK = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"accept", b"application/json"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"content-type", b"application/json"),
    (b"user-agent", b"OpenAI/Python 2.0.0"),
    (b"authorization", b"Bearer none"),
    (b"x-stainless-lang", b"python"),
    (b"x-stainless-retry-count", b"0"),
    (b"content-length", str(len(REQUEST)).encode()),
]
SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.3"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": "/v1/chat/completions",
    "raw_path": b"/v1/chat/completions",
    "query_string": b"",
    "root_path": "",
    "headers": HEADERS,
    "client": ("127.0.0.1", 50000),
    "server": ("127.0.0.1", 8000),
}


class Cost(NamedTuple):
    """Median CPU time of one exchange, us: bare, what capture adds to it, and what to a middleware that wraps."""

    bare_us: float
    added_us: float
    over_wrapping_us: float


def pass_through(app: App) -> App:
    """Make the middleware that does nothing."""

    async def middleware(scope: Message, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return middleware


def wrapping(app: App) -> App:
    """Make the middleware that passes each message on, as any must that looks at messages, and does no more."""

    async def middleware(scope: Message, receive: Receive, send: Send) -> None:
        async def wrapped_receive() -> Message:
            return await receive()

        async def wrapped_send(message: Message) -> None:
            await send(message)

        await app(scope, wrapped_receive, wrapped_send)

    return middleware


def streaming(chunks: int) -> App:
    """Make an application that reads a request and streams so many chunks."""
    start = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/event-stream")],
    }

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        await receive()
        await send(start)
        for _ in range(chunks):
            await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def _live(receive: Receive, send: Send) -> None:
    for moment in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{moment}.complete"})


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """Start and end an application as a server does; capture drains at the end."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()
    task = asyncio.create_task(_as_task(app, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    await from_app.get()
    yield
    await to_app.put({"type": "lifespan.shutdown"})
    await task


async def _as_task(app: App, receive: Receive, send: Send) -> None:
    await app({"type": "lifespan", "asgi": SCOPE["asgi"]}, receive, send)


async def _receive() -> Message:
    return {"type": "http.request", "body": REQUEST, "more_body": False}


async def _send(_message: Message) -> None:
    return


def warm_up(exchanges: int) -> int:
    """Return how many exchanges come before the counted ones."""
    return max(2, exchanges // 4)


async def measure(app: App, exchanges: int, rollout: str) -> float:
    """Return the thread's CPU time for one exchange, us, after a quarter of them uncounted: a server is warm."""
    scope = SCOPE | {"headers": [*HEADERS, (b"x-rollout-id", rollout.encode())]}
    gc.collect()
    for _ in range(warm_up(exchanges)):
        await app(dict(scope), _receive, _send)
    started = time.thread_time_ns()
    for _ in range(exchanges):
        await app(dict(scope), _receive, _send)
    return (time.thread_time_ns() - started) / 1000 / exchanges


async def compare(chunks: int, config: CaptureConfig, store: CaptureStore, runs: int) -> Cost:
    """Alternate runs without and with capture; the first round warms up and is not counted."""
    app = streaming(chunks)
    bare, wrapped, captured = pass_through(app), wrapping(app), CaptureMiddleware(app, config)
    rounds = []
    async with lifespan(captured):
        for number in range(runs + 1):
            rollout = f"overhead-{chunks}-{number}"
            without, passed, with_capture = [
                await measure(each, EXCHANGES[chunks], rollout) for each in (bare, wrapped, captured)
            ]
            await store.asettle(rollout)
            rounds.append((without, with_capture - without, with_capture - passed))
    counted = rounds[1:]
    return Cost(*(statistics.median(column) for column in zip(*counted, strict=True)))


def report(costs: dict[int, Cost]) -> bool:
    """Print the table and whether every figure is within the target."""
    print(
        f"{'chunks':>7} {'bare us':>10} {'added us':>10} {'target us':>10} {'over a wrapping middleware us':>31}"
    )
    within = True
    for chunks, cost in costs.items():
        target = TARGET_US + TARGET_US_PER_CHUNK * chunks
        within &= cost.added_us <= target
        figures = (
            f"{cost.bare_us:>10.1f} {cost.added_us:>10.1f} {target:>10.1f} {cost.over_wrapping_us:>31.1f}"
        )
        print(f"{chunks:>7} {figures}")
    least, most = min(costs), max(costs)
    slope = (costs[most].added_us - costs[least].added_us) / (most - least)
    print(f"slope: {slope:.3f} us per chunk")
    print(
        f"target: <= {TARGET_US:g} us + {TARGET_US_PER_CHUNK:g} us per chunk: {'met' if within else 'MISSED'}"
    )
    return within


async def run(directory: Path, runs: int) -> bool:
    """Measure all sizes; return whether the target is met and every exchange is recorded."""
    config, store = CaptureConfig(enabled=True, directory=directory), CaptureStore(directory)
    costs = {chunks: await compare(chunks, config, store, runs) for chunks in EXCHANGES}
    within = report(costs)
    driven, kept = (
        sum(count + warm_up(count) for count in EXCHANGES.values()) * (runs + 1),
        sum(len(store.read(rollout)) for rollout in store.rollouts()),
    )
    print(f"recorded: {kept} of {driven} exchanges")
    return within and kept == driven


def main() -> int:
    """Run the benchmark; 0 if the target is met."""
    parser = argparse.ArgumentParser(description="CPU time that capture adds to the event loop's thread")
    parser.add_argument(
        "--runs", type=int, default=RUNS, help="pairs of runs that are counted (default %(default)s)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="capture-overhead-") as folder:
        return 0 if asyncio.run(run(Path(folder), arguments.runs)) else 1


if __name__ == "__main__":
    sys.exit(main())
