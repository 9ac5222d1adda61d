"""Many threads of one process, each with an event loop of its own, that write into few rollouts at once."""

import json
import threading
from collections import Counter
from pathlib import Path

import anyio
import pytest

from tests.flows.driving import PIECE, REST, Server, Site, body, request, says, scope, start

THREADS, CALLS = 20, 10


@pytest.mark.parametrize("rollouts", [1, 7])
def test_many_threads_write_the_same_rollouts(site: Site, rollouts: int) -> None:
    """200 calls of 20 threads into one file or a few: each is there once, its line whole, in its own rollout."""
    middleware = site.around(says(start(), body(PIECE + REST, more=False)))

    async def serve(thread: int) -> None:
        for number in range(CALLS):
            asked = {"model": "m", "messages": [], "metadata": {"mark": f"{thread}-{number}"}}
            server = Server([request(json.dumps(asked).encode())])
            path = f"/ng-rollout/r{thread % rollouts}/v1/chat/completions"
            await middleware(scope(path), server.receive, server.send)

    threads = [threading.Thread(target=anyio.run, args=(serve, number)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found: Counter[str] = Counter()
    for number in range(rollouts):
        for line in lines(site.store.directory, anyio.run(site.records, f"r{number}")[0].rollout_id):
            mark = json.loads(line)["request"]["metadata"]["mark"]
            assert int(mark.partition("-")[0]) % rollouts == number
            found[mark] += 1
    assert found == Counter(f"{thread}-{number}" for thread in range(THREADS) for number in range(CALLS))


def lines(directory: Path, rollout: str | None) -> list[bytes]:
    """Return the lines of a rollout's file as any other reader would split them."""
    return (directory / f"{rollout}.capture.jsonl").read_bytes().splitlines()
