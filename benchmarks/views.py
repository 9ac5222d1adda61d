"""What the views of a rollout cost: time in proportion to the file, memory in proportion to what is said once.

Two rollouts at half and at full size: turns that each repeat a history of 1 MB, and thousands of small calls. Each
view is made in a process of its own from a stream of records; its time is compared with reading the same file
and nothing else, its peak of memory with the file's size. Then a collector's event loop is watched while a rollout is
merged in it, by a task that wants to run every millisecond: its longest wait is compared with the blocking merge.

    python -m benchmarks.views [--quick]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from capture import (
    CaptureStore,
    aggregate_rollout_metrics,
    amerge_capture_into_record,
    assemble_rollout,
    assemble_step_records,
    merge_capture_into_record,
)
from capture.streaming import RecordStream
from pipeline.exchange import Correlation, RawExchange
from pipeline.gaps import record_path
from pipeline.process import encode, process
from pipeline.settings import ServerIdentity

Json = dict[str, Any]

HISTORY_BYTES = 1 << 20
"""What each request of the long histories begins with, in messages of 4 kB."""

CONVERSATION_CALLS = 20
"""Calls of one of the many conversations of the small calls."""

OUTPUT_WORDS = 80
SERVER = ServerIdentity("benchmark", "1", "host", 1)
HEADERS = ((b"content-type", b"application/json"),)

LINEAR_MAX = 1.3
"""Time for each byte at full size, over that at half size."""

OVER_READING_MAX = 10.0
"""Time of a view over that of reading the records and nothing else, which for a large history is one string."""

MEMORY_MAX = 0.5
"""Peak of memory over what an idle process has, by the size of a file that repeats its history."""

LOOP_WAIT_MAX = 0.25
"""The loop's longest wait during a merge, by the duration of the blocking merge."""

TICK_S = 0.001

VIEWS: dict[str, Callable[[Iterable[Any]], object]] = {
    "read": lambda records: sum(1 for _ in records),
    "steps": assemble_step_records,
    "metrics": aggregate_rollout_metrics,
    "trajectory": assemble_rollout,
}


class Cost(NamedTuple):
    """What one view of one file took."""

    seconds: float
    peak_mb: float


def long_histories(turns: int) -> Iterator[bytes]:
    """Make the lines of one conversation, each request of which holds 1 MB of history and what came since."""
    history = [{"role": "user", "content": _words(0, 500)}]
    while len(json.dumps(history)) < HISTORY_BYTES:
        history.append(
            {"role": ("assistant", "user")[len(history) % 2], "content": _words(len(history), 500)}
        )
    yield from _conversation(history, range(turns))


def many_calls(calls: int) -> Iterator[bytes]:
    """Make the lines of many short conversations."""
    for first in range(0, calls, CONVERSATION_CALLS):
        history = [{"role": "user", "content": _words(first, OUTPUT_WORDS)}]
        yield from _conversation(history, range(first, min(first + CONVERSATION_CALLS, calls)))


def _conversation(history: list[Json], numbers: range) -> Iterator[bytes]:
    for number in numbers:
        function = {"name": "bash", "arguments": json.dumps({"command": f"step {number}"})}
        call = {"id": f"call-{number}", "type": "function", "function": function}
        answer = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": answer, "finish_reason": "tool_calls"}
        yield _line(number, {"messages": history}, {"choices": [choice], "usage": {"prompt_tokens": number}})
        output = {"role": "tool", "tool_call_id": f"call-{number}", "content": _words(number, OUTPUT_WORDS)}
        history += [answer, output]


def _words(seed: int, count: int) -> str:
    return " ".join(f"word{(seed * 7919 + at) % 999:03d}" for at in range(count))


def _line(number: int, request: Json, response: Json) -> bytes:
    body = json.dumps(response).encode()
    raw = RawExchange(
        call_id=number.to_bytes(16, "big"),
        seq=number,
        rollout_id="r",
        stem="r",
        dialect="chat",
        correlation=Correlation("none"),
        method="POST",
        path="/v1/chat/completions",
        query="",
        request_chunks=(json.dumps(request).encode(),),
        response_headers=HEADERS,
        response_chunks=(body,),
        response_bytes=len(body),
        response_times_ns=(1,),
        status_code=200,
        started_at=1000.0 + number,
        ended_ns=500_000_000,
        response_complete=True,
    )
    return encode(process(raw, SERVER, {})) + b"\n"


def write(directory: Path, lines: Iterator[bytes]) -> int:
    """Write a rollout's file; return its size."""
    directory.mkdir()
    with record_path(directory, "r").open("wb") as file:
        return sum(file.write(line) for line in lines)


def measure(directory: Path, view: str) -> Cost:
    """Make one view in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.views", "--view", view, "--directory", str(directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Cost(*json.loads(done.stdout))


def make_view(directory: Path, view: str) -> Cost:
    """Make one view in this process; memory is the growth of its peak."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = peak_kb()
    began = time.process_time()
    made = VIEWS[view](iter(RecordStream(directory, "r")))
    seconds = time.process_time() - began
    after = peak_kb()
    del made
    return Cost(seconds, (after - before) / 1024)


def peak_kb() -> int:
    """Return the peak of this process's memory since it was last cleared. Linux."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def compare(
    title: str, folder: Path, make: Callable[[int], Iterator[bytes]], size: int, *, repeats: bool
) -> bool:
    """Measure every view at half and full size; whether all figures are within their targets."""
    sizes = {n: write(folder / f"{make.__name__}-{n}", make(n)) / 1e6 for n in (size // 2, size)}
    costs = {(n, view): measure(folder / f"{make.__name__}-{n}", view) for n in sizes for view in VIEWS}
    print(f"{title}: {sizes[size]:.0f} MB")
    good = True
    for view in VIEWS:
        half, full = costs[size // 2, view], costs[size, view]
        linear = (full.seconds / sizes[size]) / (half.seconds / sizes[size // 2])
        over = full.seconds / costs[size, "read"].seconds
        memory = full.peak_mb / sizes[size]
        print(
            f"  {view:10} {full.seconds:6.2f} s, {over:5.2f} times reading, {linear:4.2f} times as much for each"
            f" byte as at half the size; {full.peak_mb:5.1f} MB, {memory:.2f} of the file"
        )
        good &= linear <= LINEAR_MAX and over <= OVER_READING_MAX and (memory <= MEMORY_MAX or not repeats)
    return good


async def longest_wait(work: Callable[[], Any]) -> float:
    """Return the longest time that a task which wants to run every millisecond had to wait, in seconds."""
    longest = 0.0
    async with anyio.create_task_group() as group:

        async def tick() -> None:
            nonlocal longest
            while True:
                began = time.perf_counter()
                await anyio.sleep(TICK_S)
                longest = max(longest, time.perf_counter() - began - TICK_S)

        group.start_soon(tick)
        await anyio.sleep(10 * TICK_S)
        await work()
        group.cancel_scope.cancel()
    return longest


def watch_loop(directory: Path) -> bool:
    """Compare what a loop waits for while a rollout is merged with how long the blocking merge takes."""
    store = CaptureStore(directory)
    began = time.perf_counter()
    merge_capture_into_record({}, store, "r")
    blocking = time.perf_counter() - began
    waited = anyio.run(longest_wait, lambda: amerge_capture_into_record({}, store, "r"))
    share = waited / blocking
    print(
        f"merge: {blocking * 1e3:.0f} ms blocking; the loop's longest wait {waited * 1e3:.1f} ms, {share:.3f} of it"
    )
    return share <= LOOP_WAIT_MAX


def main() -> int:
    """Print the figures; 0 if each is within its target."""
    parser = argparse.ArgumentParser(description="What the views of a rollout cost.")
    parser.add_argument("--quick", action="store_true", help="a fifth of the size")
    parser.add_argument("--view", choices=VIEWS, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.view:
        print(json.dumps(make_view(options.directory, options.view)))
        return 0
    turns, calls = (20, 2_000) if options.quick else (100, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        good = compare(f"{turns} turns of 1 MB", place, long_histories, turns, repeats=True)
        good &= compare(f"{calls} calls", place, many_calls, calls, repeats=False)
        good &= watch_loop(place / f"{long_histories.__name__}-{turns}")
    print("within all targets" if good else "NOT within all targets")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
