"""What decoding costs: events per second and records per CPU second, beside the obvious program that does the same.

Three questions, each a ratio within one run on one machine, CPU time of one thread, medians of interleaved runs:

- Chat events per second, Server-Sent Events and merging included, unknown members kept. The obvious program splits
  the lines, calls `json.loads` on each and merges the deltas with the same rules.
- Records per CPU second, from the exchange's bytes to a synced line. The obvious program does what a simple capture
  does for each call: join and split the whole body, `json.loads`, `json.dumps`, lock, write, sync; its record has the
  id, the status, request and response. Ours writes by the batch, as the worker does. Calls of one chunk are measured
  with the obvious program's record, too, which has four members of our seventy: that is what the road itself costs.
- Linearity: the cost of a byte in a stream of 100,000 events, and in one event of 2 MB that comes in chunks of 4 KB,
  against that in small streams.

    python -m benchmarks.reassembly
"""

import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.obvious import merge_obviously, record_obviously
from pipeline.answer import read_answer
from pipeline.append import append
from pipeline.bodies import decode, embed
from pipeline.exchange import Correlation, RawExchange
from pipeline.process import encode, process
from pipeline.settings import ServerIdentity

RUNS = 15
EVENTS = 2_000
SERVER = ServerIdentity(name="bench", instance="1", host="host", pid=1)

TARGET_EVENTS = 1.2
TARGET_ROAD = 10.0
ROAD = ("small", 1)
"""The calls with which the road is measured by itself: of a large body, the kernel's copy is most, for both alike."""
CALLS = {1: 256, 200: 32, 2000: 8}
"""Chunks of a call to the calls of one run, which are one batch: enough to last some milliseconds."""
TARGET_RECORDS = {("small", 1): 3.0, ("agent's", 1): 3.0, ("agent's", 200): 1.5, ("agent's", 2000): 1.5}
"""Request and chunks of a call to the ratio to reach with the whole record; docs/decisions.md has the reasons."""
TARGET_LINEAR = 1.1


def chunk(number: int) -> bytes:
    """Make one chat event as a server of open models sends it, a member that no SDK knows among them."""
    event = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "delta": {"content": f" word{number}"},
                "logprobs": None,
                "finish_reason": None,
                "token_ids": [number],
            }
        ],
    }
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def stream(count: int) -> list[bytes]:
    """Make a chat stream, one chunk for each event, with its end."""
    return [*(chunk(number) for number in range(count)), b"data: [DONE]\n\n"]


TURN = {"role": "user", "content": "So it was said, and nobody asked why. " * 50}
REQUESTS = {
    name: json.dumps({"model": "m", "stream": True, "messages": [TURN] * turns}).encode()
    for name, turns in (("small", 1), ("agent's", 10))
}
"""One question of 2 kB; and a short history of 20 kB, as in the other benchmarks."""

WHOLE = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "word " * 40}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 500, "completion_tokens": 40, "total_tokens": 540},
    }
).encode()


def exchange(chunks: list[bytes], request: str = "agent's") -> RawExchange:
    """Make the raw exchange of a call that went well."""
    streamed = len(chunks) > 1
    return RawExchange(
        call_id=os.urandom(16),
        seq=1,
        rollout_id="1-0",
        stem="1-0",
        dialect="chat",
        correlation=Correlation("none"),
        method="POST",
        path="/v1/chat/completions",
        query="",
        started_at=1.0,
        ended_ns=1_000_000,
        status_code=200,
        response_headers=((b"content-type", b"text/event-stream" if streamed else b"application/json"),),
        response_complete=True,
        listened=True,
        request_chunks=(REQUESTS[request],),
        response_chunks=tuple(chunks),
        response_times_ns=tuple(1000 * at for at in range(len(chunks))),
        response_bytes=sum(map(len, chunks)),
    )


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time that this thread needs for some work, without the collector of garbage."""
    gc.collect()
    gc.disable()
    start = time.thread_time()
    work()
    took = time.thread_time() - start
    gc.enable()
    return took


def compared(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Return the median CPU seconds of both, run in turn."""
    times = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(RUNS)]
    return statistics.median(one for one, _ in times), statistics.median(other for _, other in times)


def show(name: str, figure: float, target: float, *, at_least: bool, more: str = "") -> bool:
    """Print one line; return whether the target is met."""
    met = figure >= target if at_least else figure <= target
    sign = ">=" if at_least else "<="
    print(f"{name:46} {figure:7.2f}x  target {sign} {target}x  {'met' if met else 'MISSED'}  {more}")
    return met


def compare_events() -> bool:
    """Compare events per second."""
    raw = exchange(stream(EVENTS))
    body = b"".join(raw.response_chunks)
    ours, theirs = compared(
        lambda: read_answer(raw, "text/event-stream", None), lambda: merge_obviously(body)
    )
    more = f"{EVENTS / ours:,.0f} against {EVENTS / theirs:,.0f} events/s"
    return show("chat events per second", theirs / ours, TARGET_EVENTS, at_least=True, more=more)


def compare_records(folder: Path, request: str, chunks: int) -> bool:
    """Compare records per CPU second for calls with this request and of this many chunks."""
    count = CALLS[chunks]
    raws = [exchange(stream(chunks) if chunks > 1 else [WHOLE], request) for _ in range(count)]

    def with_each(record: Callable[[RawExchange], bytes]) -> None:
        with anew(folder) as path:
            append_lines(path, [record(raw) for raw in raws])

    def theirs() -> None:
        with anew(folder) as path:
            for raw in raws:
                record_obviously(raw, path)

    def shown(what: str, record: Callable[[RawExchange], bytes], target: float) -> bool:
        one, other = compared(partial(with_each, record), theirs)
        more = f"{count / one:,.0f} against {count / other:,.0f} records/CPU s"
        name = f"{what}, {request} request, {chunks} chunks"
        return show(name, other / one, target, at_least=True, more=more)

    road = (request, chunks) != ROAD or shown("the road", record_barely, TARGET_ROAD)
    return shown("records", record_wholly, TARGET_RECORDS[request, chunks]) and road


def record_wholly(raw: RawExchange) -> bytes:
    """Make the line of a call."""
    return encode(process(raw, SERVER, {}))


def record_barely(raw: RawExchange) -> bytes:
    """Make a line that says no more than the obvious program's: both bodies decoded, and put in as they are."""
    bodies = b"".join(raw.request_chunks), b"".join(raw.response_chunks)
    for body in bodies:
        decode(body)
    request, response = map(embed, bodies)
    record = {"id": raw.call_id.hex(), "status": raw.status_code, "request": request, "response": response}
    return msgspec.json.encode(record)


@contextmanager
def anew(folder: Path) -> Iterator[Path]:
    """Give a file that is not there, and remove it: the memory of its pages is then used again.

    On a virtual machine, pages of memory that were never used cost many times those that were.
    """
    path = folder / "a.jsonl"
    path.touch()
    try:
        yield path
    finally:
        path.unlink()


def append_lines(path: Path, lines: list[bytes]) -> None:
    """Append a batch as the worker does: one lock, one write, one sync."""
    written = append(path, lines, mode=0o600, patience_s=1.0)
    os.fsync(written.descriptor)
    os.close(written.descriptor)


def compare_sizes() -> bool:
    """Compare the cost of a byte in large and in small streams."""
    small, many = exchange(stream(1_000)), exchange(stream(100_000))
    text = json.dumps({"choices": [{"index": 0, "delta": {"content": "word " * 400_000}}]}).encode()
    large = b"data: " + text + b"\n\n"
    pieces = [large[at : at + 4096] for at in range(0, len(large), 4096)]
    rows = {
        "per byte, 100,000 events": (many, small),
        "per byte, one event of 2 MB in 4 KB chunks": (exchange(pieces), small),
    }
    met = []
    for name, pair in rows.items():
        costs = [
            min(cpu_seconds(partial(read_answer, raw, "text/event-stream", None)) for _ in range(5))
            / raw.response_bytes
            for raw in pair
        ]
        met.append(show(name, costs[0] / costs[1], TARGET_LINEAR, at_least=False))
    return all(met)


def main() -> int:
    """Ask all questions; end with 0 if every target is met."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        met = [
            compare_events(),
            *(compare_records(Path(folder), request, chunks) for request, chunks in TARGET_RECORDS),
            compare_sizes(),
        ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
