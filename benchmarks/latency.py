"""Does capture make anyone wait? Paired latency of real servers, with two controls that must come out right.

Three servers run side by side for each number of server processes: two without capture, one with. A round sends a
block of requests to each of four arms, one after another in a shuffled order: off, off again (must be the same), on,
and on with a script that is 2 % slower (must be found out). First token and last byte are compared as `paired` says.
p99 is shown, and judged only without --quick, which is too short for it. The load is bounded and stays on loopback.

    python -m benchmarks.latency --quick        about three minutes
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import Target, Timing, block, body_sizes
from benchmarks.paired import difference, percentile, verdict
from capture import CaptureStore
from capture.demo.processes import serve

THINK_TIME_MS = 40.0
TOKENS = 1000
TOKENS_PER_S = 5000.0
INJECTED = 1.02
GAP_S = 0.04
"""25 requests a second within a block, which keep a server busy for about half of a core: queueing shows."""

PAUSE_S = 0.25
"""Between blocks, longer than capture's flush interval, so that one arm's work is not done in another's time."""

REQUESTS = 10
ROLLOUT = "latency"
ARMS = ("off", "off again", "on", "on + 2 %")
P99_LIMIT = 1.05
BARE, CAPTURED = "capture.demo.served:app", "capture.asgi:app"

Latencies = dict[str, list[list[Timing]]]
"""By arm, a list of blocks."""


class Plan(NamedTuple):
    """One comparison: server processes, rounds, and the share that counts as no difference."""

    workers: int
    rounds: int
    limit: float


QUICK = (Plan(1, 20, 0.01), Plan(2, 20, 0.01))
FULL = (Plan(1, 120, 0.01), Plan(2, 120, 0.01), Plan(4, 120, 0.02))


def model(slower: float = 1.0) -> str:
    """Name the script, its times stretched by a factor."""
    think, rate = THINK_TIME_MS * slower, TOKENS_PER_S / slower
    return f"scripted?tokens={TOKENS}&think_time_ms={think:g}&tokens_per_s={rate:g}"


@contextmanager
def arms(folder: Path, workers: int) -> Iterator[dict[str, Target]]:
    """Run the three servers of one comparison, their records and logs in `folder`."""
    recording = {"CAPTURE_ENABLED": "1", "CAPTURE_DIRECTORY": str(folder), "CAPTURE_APP": BARE}
    with (
        serve(BARE, log=folder / "off.log", workers=workers) as off,
        serve(BARE, log=folder / "again.log", workers=workers) as again,
        serve(CAPTURED, log=folder / "on.log", workers=workers, environ=recording) as on,
    ):
        targets = (off.url, model()), (again.url, model()), (on.url, model()), (on.url, model(INJECTED))
        yield {name: Target.at(*target) for name, target in zip(ARMS, targets, strict=True)}


async def collect(targets: dict[str, Target], rounds: int, seed: int = 7) -> Latencies:
    """Send all blocks of all rounds; the first round warms up and is not kept."""
    draw = random.Random(seed)
    found: Latencies = {name: [] for name in ARMS}
    for _ in range(rounds + 1):
        sizes = body_sizes(draw, REQUESTS)
        for name in draw.sample(ARMS, len(ARMS)):
            found[name].append(await block(targets[name], ROLLOUT, sizes, GAP_S))
            await asyncio.sleep(PAUSE_S)
    return {name: blocks[1:] for name, blocks in found.items()}


def judge(latencies: Latencies, plan: Plan, metric: str, *, tail: bool) -> str:
    """Print one metric's comparison and return its verdict."""
    values = {
        name: [[getattr(timing, metric) for timing in timings] for timings in blocks]
        for name, blocks in latencies.items()
    }
    off = values["off"]
    intervals = {name: difference(off, values[name]) for name in ARMS[1:]}
    p99 = {name: percentile(values[name], 0.99) / percentile(off, 0.99) for name in ARMS[1:]}
    print(f"  {metric.replace('_', ' ')}: off p50 {percentile(off, 0.5) * 1000:.1f} ms")
    for name in ARMS[1:]:
        print(f"    {name:<10} p50 {intervals[name]}   p99 x{p99[name]:.3f}")
    found = verdict(intervals["on"], intervals["off again"], intervals["on + 2 %"], plan.limit)
    if tail and found == "pass" and p99["on"] > P99_LIMIT:
        found = "fail" if p99["off again"] <= P99_LIMIT else "inconclusive"
    print(f"    within {plan.limit:.0%}: {found}")
    return found


def compare(plan: Plan, *, tail: bool) -> list[str]:
    """Run one comparison; calls that were not recorded make it inconclusive, since they may have cost nothing."""
    print(f"num_workers={plan.workers}, {plan.rounds} rounds of {REQUESTS} requests an arm")
    with (
        tempfile.TemporaryDirectory(prefix="capture-latency-") as name,
        arms(Path(name), plan.workers) as targets,
    ):
        latencies = asyncio.run(collect(targets, plan.rounds))
        store = CaptureStore(name)
        store.settle(ROLLOUT)
        kept, made = len(store.read(ROLLOUT)), 2 * (plan.rounds + 1) * REQUESTS
    print(f"  recorded: {kept} of {made} calls")
    verdicts = [judge(latencies, plan, metric, tail=tail) for metric in Timing._fields]
    return verdicts if kept == made else ["inconclusive"]


def main() -> int:
    """Run the comparisons; 0 if all pass, 1 if one fails, 2 if one is inconclusive."""
    parser = argparse.ArgumentParser(
        description="Latency with capture on, against off, paired and controlled"
    )
    parser.add_argument(
        "--quick", action="store_true", help="num_workers 1 and 2 only, fewer rounds, p99 not judged"
    )
    quick = parser.parse_args().quick
    verdicts = [found for plan in (QUICK if quick else FULL) for found in compare(plan, tail=not quick)]
    overall = next((found for found in ("fail", "inconclusive") if found in verdicts), "pass")
    print(f"verdict: {overall}")
    return {"pass": 0, "fail": 1, "inconclusive": 2}[overall]


if __name__ == "__main__":
    sys.exit(main())
