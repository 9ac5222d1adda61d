"""Buffers on their way out by `writev`, which takes some of them at a time and stops anywhere.

Nothing is joined: a batch is megabytes, and a copy of it costs more than the write.
"""

from collections.abc import Iterable

RUN_BUFFERS = 1024
"""Linux takes at most 1,024 buffers in one `writev`."""


class Buffers:
    """What is left to write; true while anything is."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts: list[bytes | memoryview] = [part for part in parts if part]
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._parts)

    def run(self) -> list[bytes | memoryview]:
        """Return the next buffers for one `writev`."""
        return self._parts[self._at : self._at + RUN_BUFFERS]

    def wrote(self, size: int) -> None:
        """Take off what a `writev` has written."""
        while self and size >= len(self._parts[self._at]):
            size -= len(self._parts[self._at])
            self._at += 1
        if size:
            self._parts[self._at] = memoryview(self._parts[self._at])[size:]
