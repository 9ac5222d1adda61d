"""The tree of errors that `capture` raises. Wrong calls and wrong settings raise; wrong bytes are data.

Nothing here is ever raised into a request that is being served.
"""

from collections.abc import Iterable


class CaptureError(Exception):
    """Root of every error that this library raises on purpose."""


class CaptureConfigError(CaptureError, ValueError):
    """Settings that cannot be used: `problems` holds one sentence for each, and the text names them all."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(_joined(self.problems))

    def __reduce__(self) -> tuple[type["CaptureConfigError"], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class NoCallsError(CaptureError, LookupError):
    """A rollout that should have calls has none. `rollout_id` names it; the text says what is there instead."""

    def __init__(self, rollout_id: str, said: str) -> None:
        self.rollout_id = rollout_id
        self.said = said
        super().__init__(f"rollout {rollout_id} has no recorded call: {said}")

    def __reduce__(self) -> tuple[type["NoCallsError"], tuple[str, str]]:
        return type(self), (self.rollout_id, self.said)


class UncorrelatedCallError(CaptureError, LookupError):
    """A client that must name a rollout was about to make a call outside of any."""


def _joined(problems: tuple[str, ...]) -> str:
    if len(problems) == 1:
        return problems[0]
    lines = "".join(f"\n  {problem}" for problem in problems)
    return f"{len(problems)} settings cannot be used:{lines}"
