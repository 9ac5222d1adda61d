"""From real exchanges to the views: agents of the demonstration against the scripted server, in this process."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from capture import (
    CaptureConfig,
    CaptureMiddleware,
    CaptureStore,
    aggregate_step_records,
    assemble_rollout,
    merge_capture_into_record,
)
from capture.demo.agent import RESULT, SPEAKERS, parsed, user_turn
from capture.demo.server import create_app
from tests.flows.inprocess import Served

Json = dict[str, Any]
PROMPT = "Look through all of the files of the project and report what you find."


class Agent:
    """One conversation of one dialect over an in-process client."""

    def __init__(self, client: httpx.AsyncClient, dialect: str, *, stream: bool) -> None:
        self._client = client
        self._speaker = SPEAKERS[dialect]
        self._stream = stream
        self.turns: list[Json] = []

    async def ask(self, text: str, model: str) -> None:
        """Say something, and answer the model's tool calls until it says something itself."""
        self.turns.append(user_turn(text))
        while True:
            whole = await self._call(model)
            self.turns += self._speaker.follow(whole)
            if not self._speaker.hear(whole).calls:
                return

    async def _call(self, model: str) -> Json:
        """Make one call, and once more if it failed, as the official SDKs do."""
        body = self._speaker.ask(self.turns) | {"model": model, "stream": self._stream}
        for attempt in ("0", "1"):
            headers = {"x-stainless-retry-count": attempt}
            response = await self._client.post(self._speaker.path, json=body, headers=headers)
            if response.status_code == httpx.codes.OK:
                break
        whole: Json = self._speaker.fold(parsed(response.content)) if self._stream else response.json()
        return whole


async def converse(app: CaptureMiddleware, dialect: str, *, stream: bool) -> None:
    """Run a main agent of two turns, a call that fails once, and two agents with the same prompt, side by side."""
    url = "http://server/ng-rollout/3-1"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=url) as client:
        main = Agent(client, dialect, stream=stream)
        await main.ask("What is in the project?", "scripted-tools?rounds=2")
        await main.ask("And is it any good?", "scripted-429")
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(Agent(client, dialect, stream=stream).ask, PROMPT, "scripted-tools")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", SPEAKERS)
def test_real_exchanges_get_the_places_a_person_would_give_them(
    tmp_path: Path, dialect: str, *, stream: bool
) -> None:
    """Tool rounds, a second turn with a retry, and two equal agents at once, as the server recorded them."""
    config = CaptureConfig(enabled=True, directory=tmp_path, worker_kind="thread", flush_interval_ms=5)
    with Served(CaptureMiddleware(create_app(), config)) as served:
        anyio.run(lambda: converse(served.middleware, dialect, stream=stream))
        store = CaptureStore(tmp_path)
        assert store.settle("3-1", 20).complete
        found = assemble_rollout(store.read("3-1"))
    steps = sorted(found.steps, key=lambda step: step.started_at)
    assert [(s.relation, s.branch, s.turn_index) for s in steps[:5]] == [
        ("root", 0, 0),
        ("continues", 0, 0),
        ("continues", 0, 0),
        ("continues", 0, 1),
        ("retry", 1, 1),
    ]
    assert sorted((s.relation, s.branch) for s in steps[5:]) == [
        ("continues", 2),
        ("continues", 3),
        ("root", 2),
        ("root", 3),
    ]
    outputs = [item for item in found.items if item.type == "function_call_output"]
    calls = [item for item in found.items if item.type == "function_call"]
    assert [item.text for item in outputs] == [RESULT] * 8
    assert sorted(item.call_id or "" for item in outputs) == sorted(item.call_id or "" for item in calls)
    metrics = aggregate_step_records(found.steps)
    assert (metrics.num_calls, metrics.num_turns, metrics.num_retries) == (9, 2, 1)
    assert metrics.errors == {"rate_limit": 1}
    row: Json = {"_ng_task_index": 3, "_ng_rollout_index": 1}
    attached = merge_capture_into_record(row, store)
    assert attached is not None
    assert (attached["metrics"]["num_calls"], "gaps" in attached) == (9, False)
