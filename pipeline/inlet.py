"""A worker's input, read by the block: one system call brings many small frames.

The block is one piece of memory for the worker's life, so reading costs no new pages. What is asked for is copied out
of it; what is larger than the block goes past it, straight into its own bytes.
"""

import os
import select

BLOCK_BYTES = 1 << 16
"""Some twenty small frames, and less than a body that is worth a read of its own."""


class Inlet:
    """Reads exactly what is asked for from one blocking descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._block = memoryview(bytearray(BLOCK_BYTES))
        self._at = self._end = 0
        self._poll = select.poll()  # select() takes no descriptor above 1,023, and a server has thousands
        self._poll.register(descriptor, select.POLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is something to read, its end included; False where the time passed first."""
        return self._at < self._end or bool(self._poll.poll(timeout_s * 1000))

    def read(self, size: int) -> bytes:
        """Read exactly `size` bytes, or fewer at the end of the input."""
        there = self._take(size)
        if len(there) == size:
            return there
        parts = [there]
        missing = size - len(there)
        while missing:
            data = os.read(self._descriptor, missing) if missing >= BLOCK_BYTES else self._fill(missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def _take(self, size: int) -> bytes:
        """Take up to `size` bytes out of the block."""
        start = self._at
        self._at = min(start + size, self._end)
        return bytes(self._block[start : self._at])

    def _fill(self, size: int) -> bytes:
        """Read the empty block anew, and take up to `size` bytes out of it; nothing at the end of the input."""
        self._at, self._end = 0, os.readv(self._descriptor, [self._block])
        return self._take(size)
