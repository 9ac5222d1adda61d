"""One body as it is kept: references to its chunks, within its own bound and the one over all open exchanges.

A body's share of `open_max_bytes` is taken in steps, so that most chunks touch nothing that is shared. Beyond a bound
bytes are let go, never the call: the first part stays, and the size and digest of the whole go on.
"""

import hashlib
from typing import Any

FIRST_ALLOWANCE_BYTES = 32 << 10
STEP_BYTES = 256 << 10


class Budget:
    """Bytes that all open exchanges of one process hold beyond their first allowance."""

    __slots__ = ("held", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held = 0


class Kept:
    """One body. `size` is the whole body's, also where chunks were let go."""

    __slots__ = ("_budget", "_max_bytes", "_sha256", "_taken", "allowance", "chunks", "size")

    def __init__(self, budget: Budget, max_bytes: int) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self.allowance = min(FIRST_ALLOWANCE_BYTES, max_bytes)
        self._budget = budget
        self._max_bytes = max_bytes
        self._taken = 0
        self._sha256: Any = None

    def keep(self, body: Any) -> bool:  # noqa: ANN401 - bytes, or what an application sends in their place
        """Keep a chunk, by reference where it is bytes, else copied; whether it was kept."""
        data = body if type(body) is bytes else bytes(body)
        self.size += len(data)
        if self.size > self.allowance and not self._extend(data):
            return False
        self.chunks.append(data)
        return True

    def release(self) -> bytes | None:
        """Give the share back; return the digest of the whole where the body was cut."""
        self._budget.held -= self._taken
        self._taken = 0
        return None if self._sha256 is None else self._sha256.digest()

    def _extend(self, data: bytes) -> bool:
        """Take more of the shared bound for a chunk that crosses the allowance, or begin to let go."""
        budget = self._budget
        if self._sha256 is None and self.size <= self._max_bytes:
            steps = -(-(self.size - self.allowance) // STEP_BYTES)
            if budget.held + steps * STEP_BYTES <= budget.max_bytes:
                budget.held += steps * STEP_BYTES
                self._taken += steps * STEP_BYTES
                self.allowance += steps * STEP_BYTES
                return True
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(b"".join(self.chunks))
            self.allowance = -1
        self._sha256.update(data)
        return False
