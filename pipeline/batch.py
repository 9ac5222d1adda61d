"""Lines on their way to files, by file: pure bookkeeping, no clock and no disk of its own.

Lines of one file stay in order. A file that cannot be written now is set aside with all its lines, and its turn
comes again after a wait that doubles, while the others go on; when its oldest line has waited too long, it is given
up. What may be in here at once is bounded by the server, which sends at most two unanswered batches.
"""

from typing import NamedTuple

FIRST_RETRY_S = 0.02
LONGEST_RETRY_S = 0.5
"""A lock is usually free again within milliseconds; a full disk is not, and asking costs a system call."""


class Line(NamedTuple):
    """One line for a file, without its LF, and the ticket that its fate is reported under."""

    ticket: int
    data: bytes
    resent: bool


class Pending:
    """The lines that wait for one file."""

    __slots__ = ("lines", "next_at", "since", "wait_s")

    def __init__(self, now: float) -> None:
        self.lines: list[Line] = []
        self.since = now
        self.next_at = now
        self.wait_s = FIRST_RETRY_S


class Batch:
    """Lines by file name, in the order in which the files got their first line."""

    def __init__(self) -> None:
        self._files: dict[str, Pending] = {}
        self.records = 0
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._files)

    def add(self, name: str, line: Line, now: float) -> None:
        """Add a line behind those that wait for the same file."""
        pending = self._files.get(name)
        if pending is None:
            pending = self._files[name] = Pending(now)
        pending.lines.append(line)
        self.records += 1
        self.bytes += len(line.data)

    def due(self, now: float) -> list[tuple[str, list[Line]]]:
        """Return the files whose turn it is, with their lines."""
        return [(name, entry.lines) for name, entry in self._files.items() if entry.next_at <= now]

    def next_at(self) -> float | None:
        """Return when the next file's turn comes, or None where nothing waits."""
        return min((entry.next_at for entry in self._files.values()), default=None)

    def set_aside(self, name: str, now: float) -> None:
        """Let a file wait; longer each time."""
        pending = self._files[name]
        pending.next_at = now + pending.wait_s
        pending.wait_s = min(pending.wait_s * 2, LONGEST_RETRY_S)

    def expired(self, name: str, now: float, limit_s: float) -> bool:
        """Whether a file's lines have waited for `limit_s` seconds or longer."""
        return now - self._files[name].since >= limit_s

    def remove(self, name: str) -> list[Line]:
        """Take a file's lines out: written, or given up."""
        lines = self._files.pop(name).lines
        self.records -= len(lines)
        self.bytes -= sum(len(line.data) for line in lines)
        return lines
