"""One body as it is kept: references to its chunks, within its own bound and the one over all open exchanges.

A body's share of `open_max_bytes` is taken in steps, so that most chunks touch nothing that is shared. Beyond a bound
bytes are let go, never the call: the first part stays, and the size and digest of the whole go on.
"""

import hashlib
from typing import Any

FIRST_ALLOWANCE_BYTES = 64 << 10
"""More than most answers, so that their chunks are counted against nothing that is shared."""
STEP_BYTES = 256 << 10


class Budget:
    """Bytes that all open exchanges of one process hold beyond their first allowance."""

    __slots__ = ("held", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held = 0


class Kept:
    """One body: the chunks that are kept, and of those let go their size and the digest of the whole.

    `allowance` is what `chunks` may hold in all before `keep` must be asked; -1 once bytes are let go. `kept_size`
    is the size of `chunks` where somebody has added it up anyway.
    """

    kept_size: int | None = None
    _let_go = 0
    _taken = 0
    _sha256: Any = None

    def __init__(self, budget: Budget, max_bytes: int) -> None:
        self.chunks: list[bytes] = []
        self.allowance = min(max_bytes, FIRST_ALLOWANCE_BYTES)
        self._budget = budget
        self._max_bytes = max_bytes

    @property
    def size(self) -> int:
        """The whole body's size, also of what was let go."""
        kept = sum(map(len, self.chunks)) if self.kept_size is None else self.kept_size
        return kept + self._let_go

    def keep(self, data: bytes, size: int) -> bool:
        """Keep a chunk that brings the kept ones to `size` bytes, or let it go; whether it was kept."""
        if size > self.allowance and not self._extend(size):
            self._let(data)
            return False
        self.chunks.append(data)
        return True

    def release(self) -> bytes | None:
        """Give the share back; return the digest of the whole where the body was cut."""
        if self._taken:
            self._budget.held -= self._taken
            self._taken = 0
        return None if self._sha256 is None else self._sha256.digest()

    def _extend(self, size: int) -> bool:
        """Take more of the shared bound; whether `size` is within the allowance then."""
        if self._sha256 is not None or size > self._max_bytes:
            return False
        budget = self._budget
        more = -(-(size - self.allowance) // STEP_BYTES) * STEP_BYTES
        if budget.held + more > budget.max_bytes:
            return False
        budget.held += more
        self._taken += more
        self.allowance = min(self.allowance + more, self._max_bytes)
        return True

    def _let(self, data: bytes) -> None:
        """Let a chunk go, and all that follow it."""
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(b"".join(self.chunks))
            self.allowance = -1
        self._let_go += len(data)
        self._sha256.update(data)
