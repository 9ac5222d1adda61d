"""NeMo Gym's flags, and an application of its make under capture. None of this needs Gym."""

import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio.to_thread
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from capture import CaptureConfigError, CaptureStore
from capture import gym as module
from capture.gym import (
    clear_rollouts,
    config_from_gym,
    directories_from_gym,
    install_model_call_capture,
    settle_and_merge,
)
from capture.gym_server import install
from tests.capture.stored import write

ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}
ROW: dict[str, Any] = {"_ng_task_index": 4, "_ng_rollout_index": 1}


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test be the first of its process to be warned."""
    monkeypatch.setattr(module, "_TOLD", set())


def flags(directory: Path | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any flag
    """Make a global configuration with capture enabled."""
    return {"observability_enabled": True, "model_call_capture_dir": directory and str(directory), **more}


def test_the_run_wide_flags_decide(tmp_path: Path) -> None:
    """Enabled with a directory is on, and the server's name is in every record; off is off, whatever else is set."""
    config = config_from_gym(flags(tmp_path), {}, server_name="policy")
    assert (config.enabled, config.directory, config.server_name) == (True, str(tmp_path), "policy")
    assert config.flush_interval_ms == 20
    off = {"model_call_capture_dir": str(tmp_path), "token_id_capture": {"enabled": True}}
    assert not config_from_gym(off, {"CAPTURE_ENABLED": "1"}).enabled
    assert not config_from_gym({}, {}).enabled


def test_other_settings_come_from_the_environment(tmp_path: Path) -> None:
    """`CAPTURE_*` sets what Gym has no flag for; wrong ones are refused."""
    config = config_from_gym(flags(tmp_path), {"CAPTURE_FLUSH_INTERVAL_MS": "7", "CAPTURE_LABELS": "run=7"})
    assert (config.flush_interval_ms, dict(config.labels)) == (7, {"run": "7"})
    with pytest.raises(CaptureConfigError, match="CAPTURE_WORKERS"):
        config_from_gym(flags(tmp_path), {"CAPTURE_WORKERS": "many"})


def test_the_first_form_of_gyms_flags(tmp_path: Path) -> None:
    """A server's own flag and directory, and the directory of the environment, in their order behind the new one."""
    seed = {"observability_enabled": True, "trajectory_capture_dir": str(tmp_path / "own")}
    environ = {"NEMO_GYM_TRAJECTORY_DIR": str(tmp_path / "environ")}
    found = [
        config_from_gym({"model_call_capture_dir": str(tmp_path / "run")}, environ, server=seed).directory,
        config_from_gym({}, environ, server=seed).directory,
        config_from_gym({}, environ, server={"observability_enabled": True}).directory,
    ]
    assert found == [str(tmp_path / name) for name in ("run", "own", "environ")]
    assert not config_from_gym({}, environ, server={"observability_enabled": False}).enabled


def test_enabled_without_a_directory_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """It is off, and said once in a process, with what to set."""
    with caplog.at_level(logging.WARNING, "model_call_capture"):
        for _ in range(3):
            assert not config_from_gym(flags(), {}).enabled
    (said,) = [record.getMessage() for record in caplog.records]
    assert "gym_capture_without_directory" in said
    assert "model_call_capture_dir" in said


def test_a_collector_finds_the_directories_of_its_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run-wide one, else those of environment and enabled servers: existing ones, once; or a warning."""
    for name in ("run", "environ", "own"):
        (tmp_path / name).mkdir()

    def server(name: str, **more: bool) -> dict[str, Any]:
        return {
            "responses_api_models": {"vllm_model": {"trajectory_capture_dir": str(tmp_path / name), **more}}
        }

    environ = {"NEMO_GYM_TRAJECTORY_DIR": str(tmp_path / "environ")}
    seed = {
        "policy": server("own", observability_enabled=True),
        "judge": server("own", observability_enabled=True),
        "other": server("run"),
        "gone": server("gone", observability_enabled=True),
        "port": 80,
    }
    assert directories_from_gym({**seed, **flags(tmp_path / "run")}, environ) == [tmp_path / "run"]
    assert directories_from_gym(seed, environ) == [tmp_path / "environ", tmp_path / "own"]
    assert directories_from_gym({"other": seed["other"]}, environ) == []
    with caplog.at_level(logging.WARNING, "model_call_capture"):
        assert [directories_from_gym({"gone": seed["gone"]}, {}) for _ in range(2)] == [[], []]
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model_call_capture_dir": "relative/folder"}, "model_call_capture_dir='relative/folder'"),
        ({"token_id_capture": {"enabled": True}}, "token_id_capture is enabled"),
    ],
)
def test_what_would_lose_something_is_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    """A relative directory, and training tokens, which only Gym's own middleware records."""
    with pytest.raises(CaptureConfigError, match=said):
        config_from_gym({**flags(tmp_path), **given}, {})


class Guard:
    """A middleware that is added after capture was installed, as Gym does, and answers by itself where told to."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401 - an ASGI application
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        """Serve one scope; the path is the served one."""
        if scope["type"] == "http" and scope["path"].startswith("/ng-rollout"):
            raise AssertionError("a guard saw the prefix")
        if dict(scope.get("headers", ())).get(b"x-refuse"):
            await Response("no", 403)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def application() -> Starlette:
    """Make a model server's application, before its capture is installed."""

    async def answer(request: Request) -> Response:
        said = request.headers.get("x-source")
        if said == "crash":
            request.state.nemo_gym_model_execution = {"upstream_attempted": True, "upstream_status_code": 502}
            raise RuntimeError("the upstream is gone")
        if said:
            request.state.nemo_gym_model_execution = {
                "upstream_attempted": said == "upstream",
                "response_source": said,
                "upstream_status_code": None,
                "local_response_reason": "empty_assistant" if said == "local" else None,
            }
        return JSONResponse(ANSWER)

    async def models(_: Request) -> Response:
        return JSONResponse([])

    path = "/v1/chat/completions"
    routes = [Route(path, answer, methods=["POST"]), Route("/v1/models", models)]
    return Starlette(routes=routes)


@asynccontextmanager
async def client_of(app: Any) -> AsyncIterator[httpx.AsyncClient]:  # noqa: ANN401 - an ASGI application
    """Call an application in this process, and end its pipeline afterwards."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        yield client
    if app.middleware_stack.config.enabled:
        assert await anyio.to_thread.run_sync(app.middleware_stack.recorder().pipeline.close, 10.0)


async def call(client: httpx.AsyncClient, **headers: str) -> int:
    """Make one call of the row's rollout; return its status."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await client.post("/ng-rollout/4-1/v1/chat/completions", json={"model": "m"}, headers=names)
    return answer.status_code


def test_capture_is_around_all_that_is_added_later(tmp_path: Path) -> None:
    """What a later middleware answers, and the 500 of a crash, are recorded as the client saw them."""
    store = CaptureStore(tmp_path)

    async def main() -> list[int]:
        app = application()
        install(app, config_from_gym(flags(tmp_path), {"CAPTURE_WORKER_KIND": "thread"}))
        app.add_middleware(Guard)
        async with client_of(app) as client:
            made = [
                await call(client),
                await call(client, x_refuse="1"),
                await call(client, x_source="crash"),
            ]
            assert (await client.get("/ng-rollout/4-1/v1/models")).status_code == 200
        assert (await store.asettle("4-1", 10)).complete
        return made

    assert anyio.run(main) == [200, 403, 500]
    records = store.read("4-1")
    assert [record.status_code for record in records] == [200, 403, 500]
    assert [record.error_category for record in records] == [None, "auth", "upstream_error"]


def test_a_server_says_how_it_came_by_its_answer(tmp_path: Path) -> None:
    """The model server's name, and the four facts of execution, are in the record, of a crash too."""
    store = CaptureStore(tmp_path)
    config = SimpleNamespace(observability_enabled=True, model_call_capture_dir=tmp_path)

    async def main() -> None:
        app = application()
        install_model_call_capture(app, config, model_server_name="policy", num_workers=2)
        async with client_of(app) as client:
            for source in ("upstream", "local", "crash"):
                await call(client, x_source=source)
        assert (await store.asettle("4-1", 10)).complete

    anyio.run(main)
    found = store.read("4-1")
    assert [record.model_ref for record in found] == [{"type": "responses_api_models", "name": "policy"}] * 3
    facts = [
        (record.upstream_attempted, record.response_source, record.upstream_status_code) for record in found
    ]
    assert facts == [(True, "upstream", None), (False, "local", None), (True, None, 502)]
    assert [record.local_response_reason for record in found] == [None, "empty_assistant", None]
    assert {record.server.name for record in found} == {"policy"}


def test_off_it_takes_the_prefix_away_and_records_nothing(tmp_path: Path) -> None:
    """A default run works, and leaves no file."""

    async def main() -> int:
        app = application()
        install_model_call_capture(
            app, SimpleNamespace(observability_enabled=False, model_call_capture_dir=tmp_path)
        )
        async with client_of(app) as client:
            return await call(client)

    assert anyio.run(main) == 200
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """Gym would go on without capture; here the server does not start, and is told why."""
    (tmp_path / "file").touch()
    with pytest.raises(CaptureConfigError, match="cannot be written"):
        install(application(), config_from_gym(flags(tmp_path / "file" / "records"), {}))


def test_rows_that_are_dispatched_are_cleared(tmp_path: Path) -> None:
    """Only their own rollouts go; rows without an id are passed by."""
    for name in ("4-1", "4-1-a1", "4-2"):
        write(tmp_path, 1, rollout_id=name)
    clear_rollouts([ROW, {"other": 1}, {**ROW, "_ng_attempt_index": 1}], [tmp_path])
    assert CaptureStore(tmp_path).rollouts() == ["4-2"]


def test_a_rollout_is_settled_before_gym_merges_it(tmp_path: Path) -> None:
    """What Gym's own merge reads is whole: a call that was answered just before is in its file."""
    store = CaptureStore(tmp_path)
    seen: list[int] = []

    def merge(row: dict[str, Any], directories: list[Path], *, include_payloads: bool) -> str:
        assert (row, directories, include_payloads) == (ROW, [tmp_path], True)
        seen.append(len(store.read("4-1")))
        return "merged"

    async def main() -> None:
        app = application()
        install(app, config_from_gym(flags(tmp_path), {"CAPTURE_FLUSH_INTERVAL_MS": "300"}))
        async with client_of(app) as client:
            await call(client)
            assert settle_and_merge(merge, ROW, [tmp_path], include_payloads=True) == "merged"

    anyio.run(main)
    assert seen == [1]
    assert settle_and_merge(lambda row, _: row, {"no": "id"}, [tmp_path]) == {"no": "id"}


@pytest.mark.parametrize("replace", [module.replace_capture, module.replace_collection])
@pytest.mark.parametrize("found", [None, ModuleType("another")])
def test_without_gym_the_replacements_say_so(
    replace: Callable[[], None], found: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Gym is not there, or is a version without these functions, an ImportError names what is missing."""
    for name in ("nemo_gym", module.MODELS, module.COLLECTION):
        monkeypatch.setitem(sys.modules, name, found)
    with pytest.raises(ImportError, match="nemo_gym"):
        replace()
