"""Ids, attempts, the rollout of a block, and run requests of NeMo Gym's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel, ConfigDict

from capture import CaptureStore
from capture.rollout import (
    base_url_for_run,
    check_rollout_id,
    current_rollout_id,
    make_rollout_id,
    next_attempt,
    resolve_model_base_url,
    rollout_call_kwargs,
    rollout_context,
    rollout_id_from_run,
    url_path_for_request,
    url_path_for_run,
)
from pipeline.gaps import GAP_SUFFIX
from tests.capture.recorded import Call, serving
from tests.capture.stored import write
from tests.pipeline.deadly import dead_ledger

RUN = {"_ng_task_index": 17, "_ng_rollout_index": 2}


class RunRequest(BaseModel):
    """A run request as Gym models it: what it does not know is kept."""

    model_config = ConfigDict(extra="allow")


def test_ids_name_task_rollout_and_attempt() -> None:
    """The first attempt has the bare id."""
    assert make_rollout_id(17, 2) == make_rollout_id(17, 2, 0) == "17-2"
    assert make_rollout_id(0, 0, 3) == "0-0-a3"


@pytest.mark.parametrize("indices", [(-1, 0), (0, -1), (0, 0, -1), (10**9, 0)])
def test_indices_out_of_range_are_refused(indices: tuple[int, ...]) -> None:
    """Negative and endless indices are no ids, and the error says which."""
    with pytest.raises(ValueError, match="is not from 0"):
        make_rollout_id(*indices)


@pytest.mark.parametrize("index", [True, "1", 1.0, None])
def test_indices_are_whole_numbers(index: Any) -> None:  # noqa: ANN401 - the case
    """Anything else is a wrong call."""
    with pytest.raises(TypeError, match="no whole number"):
        make_rollout_id(0, index)


@pytest.mark.parametrize("rollout_id", ["a", "7", "17-2-a1", "Run_3.b-4", "a" * 200])
def test_fit_ids_are_kept_as_they_are(rollout_id: str) -> None:
    """Letters and digits first, then also dots, dashes and underscores."""
    assert check_rollout_id(rollout_id) == rollout_id


@pytest.mark.parametrize(
    "rollout_id", ["", ".a", "-a", "_a", "a/b", "a b", "a\n", "a.", "ü", "../a", "a" * 201, "a%2f", 5, None]
)
def test_unfit_ids_are_refused(rollout_id: Any) -> None:  # noqa: ANN401 - the case
    """What a path, a header or a file name could not carry raises, a line end at the end too."""
    with pytest.raises(ValueError, match="is not of letters and digits"):
        check_rollout_id(rollout_id)
    with pytest.raises(ValueError, match="letters"), rollout_context(rollout_id or ""):
        pass


def test_attempts_count_all_that_left_a_trace(tmp_path: Path) -> None:
    """Records, gaps and calls that a killed run left open count; other rollouts and cleared runs do not."""
    store = CaptureStore(tmp_path)
    assert next_attempt(store, 17, 2) == 0
    write(tmp_path, 1, rollout_id="17-2")
    write(tmp_path, 1, rollout_id="17-20-a7")
    write(tmp_path, 1, rollout_id="17-2-a1-a9")
    assert next_attempt(store, 17, 2) == 1
    (tmp_path / f"17-2-a1{GAP_SUFFIX}").touch()
    assert next_attempt(store, 17, 2) == 2
    dead_ledger(tmp_path, {1: ("17-2-a2", "open"), 2: ("17-3", "accepted"), 3: ("17-2-a4", "committed")})
    assert next_attempt(store, 17, 2) == 3
    assert next_attempt(store, 17, 3) == 1
    store.clear(["17-2", "17-2-a1", "17-2-a2"], 0.0)
    assert next_attempt(store, 17, 2) == 0


def test_an_open_call_of_a_living_server_is_an_attempt(tmp_path: Path) -> None:
    """A run that is under way elsewhere counts before it has any record; once it is cleared it does not."""
    store = CaptureStore(tmp_path)

    async def look() -> tuple[int, int]:
        async with serving(tmp_path, worker_kind="thread") as server, anyio.create_task_group() as group:
            group.start_soon(lambda: server.call(Call("5-0"), hold=True))
            await anyio.wait_all_tasks_blocked()
            seen = next_attempt(store, 5, 0)
            store.clear(["5-0"], 0.0)
            cleared = next_attempt(store, 5, 0)
            server.release.set()
        return seen, cleared

    assert anyio.run(look) == (1, 0)
    assert store.rollouts() == []


def test_blocks_nest_and_end() -> None:
    """The innermost block counts; None ends correlation in its own; an exception ends a block, too."""
    with rollout_context("a") as entered:
        assert (entered, current_rollout_id()) == ("a", "a")
        with suppress(RuntimeError), rollout_context("b"):
            assert current_rollout_id() == "b"
            raise RuntimeError
        with rollout_context(None):
            assert current_rollout_id() is None
        assert current_rollout_id() == "a"
    assert current_rollout_id() is None


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tasks_and_threads_of_a_block_keep_their_rollout(backend: str) -> None:
    """Tasks that interleave see their own rollout each, and so do the threads that they wait for."""
    seen: list[tuple[str, str | None, str | None]] = []

    async def run(rollout_id: str) -> None:
        with rollout_context(rollout_id):
            await anyio.lowlevel.checkpoint()
            inner = await anyio.to_thread.run_sync(current_rollout_id)
            seen.append((rollout_id, current_rollout_id(), inner))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(run, f"r{number}")

    anyio.run(main, backend=backend)
    assert sorted(seen) == [(f"r{number}",) * 3 for number in range(5)]


def test_a_generator_that_is_dropped_leaves_other_contexts_alone() -> None:
    """A block inside of an asynchronous generator that ends in another task changes nothing there."""

    async def calls() -> AsyncIterator[str | None]:
        with rollout_context("inner"):
            yield current_rollout_id()

    async def end(generator: Any) -> str | None:  # noqa: ANN401 - an asynchronous generator
        with rollout_context(None):
            await generator.aclose()
            return current_rollout_id()

    async def main() -> None:
        generator = calls()
        assert await anext(generator) == "inner"
        assert await asyncio.create_task(end(generator)) is None

    asyncio.run(main())


@pytest.mark.parametrize(
    "shape", [dict, lambda members: SimpleNamespace(**members), lambda m: RunRequest(**m)]
)
def test_run_requests_name_their_rollout(shape: Any) -> None:  # noqa: ANN401 - a maker of bodies
    """Mappings, objects and models with extra members alike: explicit id first, then indices, with the attempt."""
    assert rollout_id_from_run(shape(RUN)) == "17-2"
    assert rollout_id_from_run(shape({**RUN, "_ng_attempt_index": 0})) == "17-2"
    assert rollout_id_from_run(shape({**RUN, "_ng_attempt_index": 3})) == "17-2-a3"
    assert rollout_id_from_run(shape({**RUN, "_ng_rollout_id": "mine"})) == "mine"
    assert rollout_id_from_run(shape({"_ng_rollout_id": "mine", "_ng_attempt_index": 1})) == "mine-a1"


@pytest.mark.parametrize("body", [None, {}, {"_ng_task_index": 1}, {"_ng_rollout_index": 1}, "text", []])
def test_a_run_without_both_indices_has_no_id(body: object) -> None:
    """Then nothing is correlated: no headers, and paths and URLs as they were."""
    assert rollout_id_from_run(body) is None
    assert rollout_call_kwargs(body) == {}
    assert url_path_for_run("/v1/responses", body) == "/v1/responses"
    assert base_url_for_run("http://h", body) == "http://h"


@pytest.mark.parametrize(
    "more",
    [
        {"_ng_rollout_id": "a/b"},
        {"_ng_rollout_id": ""},
        {"_ng_rollout_id": "a\n"},
        {"_ng_attempt_index": "x"},
        {"_ng_attempt_index": -1},
        {"_ng_attempt_index": float("inf")},
    ],
)
def test_a_run_with_an_unfit_id_is_refused(more: dict[str, Any]) -> None:
    """An explicit id is never changed into another, and an attempt is a number."""
    with pytest.raises(ValueError, match="rollout"):
        rollout_id_from_run({**RUN, **more})


def test_the_names_that_agents_use() -> None:
    """Keyword arguments, paths, root URLs and base URLs of a run's calls."""
    assert rollout_call_kwargs(RUN) == {"headers": {"x-rollout-id": "17-2"}}
    assert url_path_for_run("/v1/responses", RUN) == "/ng-rollout/17-2/v1/responses"
    for request, path in (
        (SimpleNamespace(path_params={"rollout_id": "17-2"}), "/ng-rollout/17-2/v1/responses"),
        (SimpleNamespace(path_params={}), "/v1/responses"),
        (None, "/v1/responses"),
    ):
        assert url_path_for_request("/v1/responses", request) == path
    assert base_url_for_run("http://h:9000", RUN) == "http://h:9000/ng-rollout/17-2"
    for server in ("http://h:9000", "http://h:9000/", "http://h:9000/v1"):
        assert resolve_model_base_url(server, "17-2") == "http://h:9000/ng-rollout/17-2/v1"
        assert resolve_model_base_url(server) == "http://h:9000/v1"
    assert resolve_model_base_url("https://api.openai.com", "17-2") == "https://api.openai.com/v1"
