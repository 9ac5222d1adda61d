"""The pipelines of this process: closed at the interpreter's end, abandoned in the child of a fork."""

import atexit
import os
import weakref
from typing import Protocol


class Living(Protocol):
    """What has an end and must not be inherited."""

    def close_at_exit(self) -> None:
        """End as well as can be done now."""

    def abandon(self) -> None:
        """Forget everything in the child of a fork."""


_living: "weakref.WeakSet[Living]" = weakref.WeakSet()
_hooked: list[bool] = []
"""Filled once the fork's hook is set: it cannot be taken back, and one is enough."""


def remember(pipeline: Living) -> None:
    """See to a pipeline's end."""
    _living.add(pipeline)
    atexit.register(pipeline.close_at_exit)
    if not _hooked:
        _hooked.append(True)
        os.register_at_fork(after_in_child=_abandon_all)


def forget(pipeline: Living) -> None:
    """Leave a pipeline alone that has ended."""
    _living.discard(pipeline)
    atexit.unregister(pipeline.close_at_exit)


def _abandon_all() -> None:
    for pipeline in list(_living):
        pipeline.abandon()
        forget(pipeline)
