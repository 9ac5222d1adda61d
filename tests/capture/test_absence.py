"""A rollout that should have calls and has none is an error that says what is there instead."""

import pickle
from pathlib import Path

import anyio
import pytest

from capture import CaptureStore, NoCallsError
from pipeline.gaps import GAP_SUFFIX
from pipeline.stems import uncorrelated_stem
from tests.capture.recorded import Call, record, serving
from tests.capture.stored import write


def said_of(store: CaptureStore, rollout_id: str) -> str:
    """Return what the error says."""
    with pytest.raises(NoCallsError) as caught:
        store.expect(rollout_id, 0.0)
    assert caught.value.rollout_id == rollout_id
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own
    return str(caught.value)


def test_calls_gaps_and_calls_on_their_way_are_calls(tmp_path: Path) -> None:
    """A rollout with records, with gaps only, or with an open call only is settled as ever."""
    store = CaptureStore(tmp_path)
    write(tmp_path, 1, rollout_id="a")
    (tmp_path / f"g{GAP_SUFFIX}").touch()
    assert store.expect("a").complete
    assert [gap.code for gap in store.expect("g").gaps] == ["unnamed"]

    async def look() -> None:
        async with serving(tmp_path, worker_kind="thread") as server, anyio.create_task_group() as group:
            group.start_soon(lambda: server.call(Call("held"), hold=True))
            await anyio.wait_all_tasks_blocked()
            assert len((await store.aexpect("held", 0.0)).pending) == 1
            server.release.set()

    anyio.run(look)
    assert anyio.run(store.aexpect, "held").complete


def test_what_is_there_instead_is_named(tmp_path: Path) -> None:
    """Uncorrelated calls, near ids, other rollouts, an idle server, nobody, no directory: each is said."""
    store = CaptureStore(tmp_path / "records")
    assert "there is no directory" in said_of(store, "17-2")
    store.directory.mkdir()
    assert "no server process ever wrote there" in said_of(store, "17-2")

    async def idle() -> str:
        async with serving(store.directory, worker_kind="thread"):
            return said_of(store, "17-2")

    assert "of 1 server processes none served a call" in anyio.run(idle)
    write(store.directory, 1, rollout_id="17-20")
    assert said_of(store, "17-2").endswith(f"{store.directory} has 17-20")
    assert "has 1 others; send the header x-rollout-id" in said_of(store, "xyz")
    record(store.directory, Call(None))
    assert f"named no rollout, see {uncorrelated_stem('', '')[:13]}" in said_of(store, "17-2")


def test_the_asynchronous_form_raises_the_same(tmp_path: Path) -> None:
    """`aexpect` raises under asyncio and trio what `expect` raises."""
    for backend in ("asyncio", "trio"):
        with pytest.raises(NoCallsError, match="no server process ever wrote there"):
            anyio.run(CaptureStore(tmp_path).aexpect, "a", 0.0, backend=backend)
