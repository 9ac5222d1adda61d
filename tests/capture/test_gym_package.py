"""The real `nemo-gym`: its readers on our files, our middleware on its model servers, its collection settled.

Needs the package, which needs Python 3.13.14; where it is absent this file is skipped.
"""

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from capture import CaptureStore
from capture.gym import CLEAR, COLLECTION, INSTALL, MERGE, MODELS, replace_capture, replace_collection
from pipeline.gaps import GAP_SUFFIX
from tests.capture.recorded import Call, record
from tests.capture.stored import write
from tests.capture.test_gym import ROW, client_of
from tests.skips import SKIPS

pytestmark = [
    pytest.mark.skipif(find_spec("nemo_gym") is None, reason=SKIPS["gym-absent"]),
    pytest.mark.filterwarnings("default"),  # the package's own, and its dependencies'
    pytest.mark.timeout(180),  # its first import takes a while
]
WIRE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1.0,
    "model": "m",
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "let me think"}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "calc", "arguments": '{"x": 1}'},
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 12,
        "output_tokens": 7,
        "total_tokens": 19,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 2},
    },
}


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Give Gym's module of model servers, whose function is its own again after the test."""
    module = import_module(MODELS)
    monkeypatch.setattr(module, INSTALL, getattr(module, INSTALL))
    return module


@pytest.fixture
def collection(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Give Gym's module of collection, whose functions are its own again after the test."""
    module = import_module(COLLECTION)
    for name in (CLEAR, MERGE):
        monkeypatch.setattr(module, name, getattr(module, name))
    return module


def test_gyms_own_readers_read_our_files(tmp_path: Path, models: ModuleType) -> None:
    """Calls, errors and metrics come out of Gym's merge as they are in the records, by its own code, unchanged."""
    record(tmp_path, Call("4-1"), Call("4-1", error="too long"))
    row = dict(ROW)
    getattr(models, MERGE)(row, [tmp_path], include_payloads=True)
    ours = CaptureStore(tmp_path).read("4-1")
    merged = row["ng_model_call_capture"]
    assert merged["rollout_id"] == "4-1"
    assert "gaps" not in merged
    metrics = merged["metrics"]
    assert (metrics["num_calls"], metrics["tokens_in"], metrics["tokens_out"], metrics["tokens_total"]) == (
        2,
        7,
        3,
        10,
    )
    for found, mine in zip(merged["calls"], ours, strict=True):
        for name in (
            "model_call_id",
            "dialect",
            "status_code",
            "error_category",
            "started_at",
            "completed_at",
        ):
            assert found[name] == getattr(mine, name)
        assert (found["request"], found["response"]) == (mine.request, mine.response)
        assert (found["latency_total_ms"], found["model"]) == (mine.latency_ms, mine.model)


def test_gym_sees_that_something_is_missing(tmp_path: Path, models: ModuleType) -> None:
    """A gap file, a damaged line and a rollout without calls are Gym's three gaps."""
    write(tmp_path, 1, rollout_id="4-1")
    with (tmp_path / "4-1.capture.jsonl").open("ab") as file:
        file.write(b"torn\n")
    (tmp_path / f"4-1{GAP_SUFFIX}").write_text('{"model_call_id":"%s","code":"lost"}\n' % ("0" * 32))
    codes = []
    for row in (dict(ROW), {**ROW, "_ng_rollout_index": 9}):
        getattr(models, MERGE)(row, [tmp_path])
        codes.append([gap["code"] for gap in row["ng_model_call_capture"]["gaps"]])
    assert codes == [
        ["model_call_capture_records_unreadable", "model_call_capture_incomplete"],
        ["model_call_capture_no_records"],
    ]


def test_our_middleware_serves_gyms_model_server(
    tmp_path: Path, models: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model server of Gym's, set up by its own code: calls in three dialects are recorded and merged by Gym."""
    replace_capture()
    monkeypatch.setenv("CAPTURE_WORKER_KIND", "thread")
    server, seen = model_server(models, tmp_path)
    app = server.setup_webserver()
    server.setup_exception_middleware(app)
    server.setup_cancellation_middleware(app)

    async def main() -> list[int]:
        async with client_of(app) as client:
            prefix = "/ng-rollout/4-1/v1"
            ask: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            made = [
                await client.post(f"{prefix}/responses", json={"input": "hi"}),
                await client.post(f"{prefix}/responses", json={"input": "hi", "stream": True}),
                await client.post(f"{prefix}/messages", json={**ask, "max_tokens": 9}),
            ]
            return [answer.status_code for answer in made]

    assert anyio.run(main) == [200, 200, 200]
    assert seen == ["4-1"] * 3
    ours = CaptureStore(tmp_path).read("4-1")
    assert [record.dialect for record in ours] == ["responses", "responses", "messages"]
    assert [record.complete for record in ours] == [True] * 3
    assert ours[0].model_ref == {"type": "responses_api_models", "name": "policy"}
    row = dict(ROW)
    getattr(models, MERGE)(row, [tmp_path], include_payloads=True)
    calls = row["ng_model_call_capture"]["calls"]
    assert [call["model_ref"]["name"] for call in calls] == ["policy"] * 3
    assert [(call["tokens_in"], call["tokens_reasoning"], call["cached_tokens"]) for call in calls[:2]] == [
        (12, 2, 4)
    ] * 2
    assert calls[0]["tool_calls"] == [{"call_id": "c1", "name": "calc", "arguments": {"x": 1}}]
    assert calls[0]["reasoning_content"] == "let me think"


def model_server(models: ModuleType, directory: Path) -> tuple[Any, list[str | None]]:
    """Make a model server of Gym's that answers without a model, and the rollouts that its handler sees published."""
    utils, answers = import_module("nemo_gym.server_utils"), import_module("nemo_gym.openai_utils")
    published = import_module("nemo_gym.rollout_correlation").current_rollout_id
    seen: list[str | None] = []

    async def chat_completions(self: Any, body: Any) -> Any:  # noqa: ANN401 - Gym's own signature
        raise NotImplementedError

    async def responses(self: Any, body: Any) -> Any:  # noqa: ANN401, ARG001 - as above
        seen.append(published())
        return answers.NeMoGymResponse.model_validate(WIRE)

    shape = type(
        "Scripted",
        (models.SimpleResponsesAPIModel,),
        {"chat_completions": chat_completions, "responses": responses},
    )
    flags = {"observability_enabled": True, "model_call_capture_dir": str(directory)}
    client = utils.ServerClient.model_construct(head_server_config=None, global_config_dict=flags)
    config = models.BaseResponsesAPIModelConfig(host="127.0.0.1", port=1, entrypoint="app.py", name="policy")
    return shape(config=config, server_client=client), seen


def test_gyms_collection_settles_and_clears_with_a_fence(tmp_path: Path, collection: ModuleType) -> None:
    """After the replacement Gym's names do both, twice replaced as well as once."""
    replace_collection()
    replace_collection()
    write(tmp_path, 1, rollout_id="4-1")
    row = dict(ROW)
    getattr(collection, MERGE)(row, [tmp_path], include_payloads=False)
    assert len(row["ng_model_call_capture"]["calls"]) == 1
    assert json.dumps(row)
    getattr(collection, CLEAR)([ROW], [tmp_path])
    assert CaptureStore(tmp_path).rollouts() == []
