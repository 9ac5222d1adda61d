"""A record file followed as it grows, under asyncio and under trio."""

import os
from pathlib import Path
from typing import cast

import anyio
import pytest

from capture import CaptureStore
from capture.following import Following
from pipeline.gaps import record_path
from tests.capture.stored import call_id, line_of, write


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Give both worlds in turn."""
    return cast("str", request.param)


class Follower:
    """A follower whose records are taken one by one, within a time."""

    def __init__(self, path: Path) -> None:
        self._records = Following(path)

    async def next(self) -> int:
        """Return the next record's number."""
        with anyio.fail_after(10):
            return int((await anext(self._records)).model_call_id, 16)


async def _let_it_look() -> None:
    """Give way to a follower for as many turns as a few looks take; what it is shown then must not matter."""
    for _ in range(200):
        await anyio.lowlevel.checkpoint()


def test_records_come_as_they_are_written(tmp_path: Path, backend: str) -> None:
    """Those that are there come first, then each new one, in order; a file that is not there yet is waited for."""

    async def run() -> None:
        path = record_path(tmp_path, "r")
        found: list[str] = []

        async def read() -> None:
            async for record in Following(path):
                found.append(record.model_call_id)
                if len(found) == 5:
                    return

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await _let_it_look()
            write(tmp_path, 1, 2)
            while len(found) < 2:
                await anyio.lowlevel.checkpoint()
            write(tmp_path, 3, 4, 5)
        assert found == [call_id(number) for number in range(1, 6)]

    anyio.run(run, backend=backend)


def test_a_torn_line_is_waited_for(tmp_path: Path, backend: str) -> None:
    """A line that has no LF yet comes once it is whole; damage is passed over."""

    async def run() -> None:
        path = write(tmp_path, 1)
        follower = Follower(path)
        assert await follower.next() == 1
        line = line_of(2)
        with path.open("ab", buffering=0) as file:
            file.write(b"damage\n" + line[:20])
            async with anyio.create_task_group() as group:

                async def finish() -> None:
                    await _let_it_look()
                    file.write(line[20:] + b"\n")

                group.start_soon(finish)
                assert await follower.next() == 2

    anyio.run(run, backend=backend)


@pytest.mark.parametrize("how", ["removed", "renamed", "same inode", "cut"])
def test_a_replaced_file_is_begun_anew(tmp_path: Path, backend: str, how: str) -> None:
    """After the file was replaced, also where the new one is larger and has the old one's inode, it is read whole."""

    async def run() -> None:
        path = write(tmp_path, 1, 2)
        follower = Follower(path)
        assert [await follower.next(), await follower.next()] == [1, 2]
        text = b"".join(line_of(number) + b"\n" for number in (11, 12, 13))
        if how == "removed":
            path.unlink()
            path.write_bytes(text)
        elif how == "renamed":
            path.with_suffix(".new").write_bytes(text)
            path.with_suffix(".new").rename(path)
        elif how == "same inode":
            path.write_bytes(text)
        else:
            path.write_bytes(line_of(11) + b"\n")
        assert await follower.next() == 11
        if how != "cut":
            assert [await follower.next(), await follower.next()] == [12, 13]

    anyio.run(run, backend=backend)


def test_a_file_that_was_replaced_by_one_of_its_size_is_read(tmp_path: Path, backend: str) -> None:
    """Same inode, same number of bytes: a fresh run of the same calls."""

    async def run() -> None:
        path = write(tmp_path, 1, 2)
        os.utime(path, ns=(0, 0))
        follower = Follower(path)
        assert [await follower.next(), await follower.next()] == [1, 2]
        size = path.stat().st_size
        path.write_bytes(b"".join(line_of(number) + b"\n" for number in (11, 12)))
        assert path.stat().st_size == size
        assert [await follower.next(), await follower.next()] == [11, 12]

    anyio.run(run, backend=backend)


def test_lines_longer_than_a_block(tmp_path: Path, backend: str) -> None:
    """A record of several megabytes comes whole."""

    async def run() -> None:
        path = record_path(tmp_path, "r")
        path.write_bytes(line_of(1, response="x" * 3_000_000) + b"\n" + line_of(2) + b"\n")
        follower = Follower(path)
        assert [await follower.next(), await follower.next()] == [1, 2]

    anyio.run(run, backend=backend)


def test_following_a_rollout(tmp_path: Path, backend: str) -> None:
    """`CaptureStore.follow` takes a rollout's id of any kind, and may be left at any record."""

    async def run() -> None:
        rollout_id = "../a b"
        write(tmp_path, 1, rollout_id=rollout_id)
        with anyio.fail_after(10):
            async for record in CaptureStore(tmp_path).follow(rollout_id):
                assert record.rollout_id == rollout_id
                break

    anyio.run(run, backend=backend)


def test_a_follower_keeps_nothing_open(tmp_path: Path, backend: str) -> None:
    """Between two looks no descriptor is held."""

    async def run() -> None:
        follower = Follower(write(tmp_path, 1))
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the number is all that counts
        assert await follower.next() == 1
        assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208

    anyio.run(run, backend=backend)
