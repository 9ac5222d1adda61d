"""SIGTERM and SIGINT: hurry, then do what the server would have done.

A handler is put in front of the one that is there. It tells the pipeline that time is short, so that what is queued
and every later hand-over is written through at once, and calls the other. In front of the default action, which would
end the process here and now, it drains, restores the default and raises the signal again, so the exit status is what
it would have been. An ignored signal stays ignored, and a handler that Python does not know is left alone.
"""

import signal
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TypeAlias

from .runner import Pipeline

CHAINED = (signal.SIGTERM, signal.SIGINT)
Handler: TypeAlias = Callable[[int, FrameType | None], object]
_pipelines: "weakref.WeakSet[Pipeline]" = weakref.WeakSet()


class Chain:
    """Our handler for one signal, and the one behind it."""

    def __init__(self, behind: Handler | None) -> None:
        self.behind = behind

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Hurry, then hand on."""
        living = [pipeline for pipeline in _pipelines if not pipeline.closed]
        for pipeline in living:
            pipeline.hurry()
        if self.behind is not None:
            self.behind(number, frame)
            return
        for pipeline in living:
            pipeline.close(pipeline.settings.shutdown_timeout_ms / 1000)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def chain(pipeline: Pipeline) -> None:
    """Have `pipeline` hurry at a signal. Main thread only; chaining twice changes nothing."""
    _pipelines.add(pipeline)
    for number in CHAINED:
        behind = signal.getsignal(number)
        if behind is signal.SIG_DFL:
            signal.signal(number, Chain(None))
        elif callable(behind) and not isinstance(behind, (Chain, signal.Handlers)):
            signal.signal(number, Chain(behind))
