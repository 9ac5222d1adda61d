"""A record file read on asynchronous files, and followed as it grows; under asyncio and under trio.

aiofiles does the reading under asyncio. It knows no other loop, so under trio anyio's files, which have the same
shape, do. A follower polls: a file has no way to tell that it grew, and ten looks a second cost nothing.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiofiles
import anyio

from pipeline.exhausted import raise_if_exhausted

from .reading import StoredRecord, parse_line

POLL_S = 0.1
_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 52
"""A file is known by its first record's call id: a new one may get the inode of the one it replaces."""


def aopen(path: Path) -> AbstractAsyncContextManager[Any]:
    """Open a file for reading bytes, on whatever loop this is."""
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        return aiofiles.open(path, "rb")
    return _anyio_file(path)


async def aread_bytes(path: Path) -> bytes:
    """Return a file's content; empty where there is none to be had. Raises OSError if this process is exhausted."""
    try:
        async with aopen(path) as file:
            content: bytes = await file.read()
            return content
    except OSError as error:
        raise_if_exhausted(error)
        return b""


class Following(AsyncIterator[StoredRecord]):
    """The records of a file as they come, from its start, until the caller stops.

    Whole lines only: what has no LF yet is read again later. A file that is not there is waited for; one that is
    replaced, or cut short, is begun anew; lines that cannot be read are passed over. No generator: nothing is open
    between two records, so a loop over this may be left at any time, under trio too, and nothing is to be closed.
    """

    def __init__(self, path: Path) -> None:
        self._position = _Position(path)
        self._lines: deque[bytes] = deque()

    async def __anext__(self) -> StoredRecord:
        """Wait for the next record."""
        while True:
            while self._lines:
                record = parse_line(self._lines.popleft())
                if record is not None:
                    return record
            lines = await self._position.more()
            if lines is None:
                await anyio.sleep(POLL_S)
            else:
                self._lines.extend(lines)


class _Position:
    """How far a file was read, and which file that was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (-1, -1, -1)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._head = b""
        self._at = 0
        self._rest: list[bytes] = []

    async def more(self) -> list[bytes] | None:
        """Return the whole lines of the next block, if any; None where there is nothing new."""
        try:
            found = await anyio.Path(self._path).stat()
            if _signature(found) == self._seen and found.st_size == self._at:
                return None
            async with aopen(self._path) as file:
                self._recognise(os.fstat(file.fileno()), await file.read(_HEAD_BYTES))
                await file.seek(self._at)
                block: bytes = await file.read(_BLOCK_BYTES)
        except OSError:
            return None
        self._at += len(block)
        return self._lines(block)

    def _recognise(self, opened: os.stat_result, head: bytes) -> None:
        """Begin anew unless this is the file that was read; by what was opened, for the path may name another now."""
        same = opened.st_ino == self._seen[0] and opened.st_size >= self._at
        if not (same and head.startswith(self._head)):
            self._begin_anew()
        self._seen = _signature(opened)
        self._head = head

    def _lines(self, block: bytes) -> list[bytes]:
        """Return the lines that end in a block; pieces of one that does not are joined once it does."""
        *lines, rest = block.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest = []
        self._rest.append(rest)
        return lines


def _signature(file: os.stat_result) -> tuple[int, int, int]:
    """Return what changes when a file is written, be it to the same size."""
    return (file.st_ino, file.st_size, file.st_mtime_ns)


class _anyio_file(AbstractAsyncContextManager[Any]):  # noqa: N801 - stands where aiofiles has a function
    """anyio's file, opened on entering, as aiofiles' is."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __aenter__(self) -> anyio.AsyncFile[bytes]:
        self._file = await anyio.open_file(self._path, "rb")
        return self._file

    async def __aexit__(self, *_: object) -> None:
        await self._file.aclose()
