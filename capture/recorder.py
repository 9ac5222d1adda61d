"""What all exchanges of one server process share: the pipeline, the bounds, call ids, file stems.

Made at the first scope and again after a fork; the middleware itself keeps configuration only.
"""

import itertools
import os
import time
from collections.abc import Callable
from contextlib import suppress

from pipeline.exchange import Annotation, RawExchange
from pipeline.log import Repeated
from pipeline.runner import Pipeline
from pipeline.slots import Slot
from pipeline.stems import uncorrelated_stem

from .failures import describe
from .kept import Budget

DAY_S = 86_400
CORRELATE_HINT = "send header x-rollout-id, or put /ng-rollout/<id> in front of the path"


class Recorder:
    """The server process's side of one pipeline. Every call here is made on an event loop and waits for nothing."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.body_max_bytes = pipeline.settings.body_max_bytes
        self.budget = Budget(pipeline.settings.open_max_bytes)
        self._random = os.urandom(8)
        self._numbers = itertools.count(1)
        self._day = -1
        self._day_stem = ""
        self._said = Repeated()
        self._told_uncorrelated = False
        self.open: Callable[[bytes, float, bytes], Slot | None] = pipeline.ledger.open
        self.offer: Callable[[RawExchange, Slot | None], None] = pipeline.offer
        self.skip: Callable[[Slot | None], None] = pipeline.intake.skip

    def next_call(self) -> tuple[int, bytes]:
        """Return the next call's number and its id: 8 random bytes of this process, and the number."""
        number = next(self._numbers)
        return number, self._random + number.to_bytes(8, "big")

    def offer_note(self, note: Annotation) -> None:
        """Hand a late note over."""
        self.pipeline.offer(note, None)

    def uncorrelated_stem(self, started_at: float) -> str:
        """Return today's file (in UTC) for calls of this process that name no rollout."""
        day = int(started_at // DAY_S)
        if day != self._day:
            self._day = day
            date = time.strftime("%Y%m%d", time.gmtime(started_at))
            self._day_stem = uncorrelated_stem(self.pipeline.identity.instance, date)
        self._tell_uncorrelated(self._day_stem)
        return self._day_stem

    def count_error(self, error: Exception) -> None:
        """Count a fault of our own: capture may be broken, serving may not."""
        self.pipeline.ledger.count("capture_errors")
        fault = describe(error, "capture")
        self._said.warning("capture_error", error=f"{fault.type}: {fault.message}")

    def fail(self, error: Exception, slot: Slot | None, call_id: bytes, stem: str, started_at: float) -> None:
        """Count a fault of our own that costs a call its record, and have the call named as a gap."""
        self.count_error(error)
        with suppress(ValueError):  # the ledger's map is closed: nothing is accounted for here any more
            self.pipeline.intake.fail(slot, call_id, stem, started_at)

    def count_uncorrelated(self) -> None:
        """Count a call that is not captured because it names no rollout."""
        self.pipeline.ledger.count("uncorrelated_skipped")
        self._tell_uncorrelated("skipped")

    def _tell_uncorrelated(self, stem: str) -> None:
        if not self._told_uncorrelated:
            self._told_uncorrelated = True
            self._said.warning("call_uncorrelated", stem=stem, hint=CORRELATE_HINT)
