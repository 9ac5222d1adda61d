"""The pipeline's voice: structured events on the standard logger `model_call_capture`.

A guest configures nothing: the processors are given here, to a private wrapper, so neither structlog's nor
logging's global set-up is read or changed. An event that can repeat at the speed of traffic goes through
`Repeated`, which says it once in a while and counts the rest.
"""

import logging
import time
from collections.abc import Callable
from typing import cast

import structlog

LOGGER_NAME = "model_call_capture"
REPEAT_AFTER_S = 30.0
"""A person who watches a log notices within half a minute, and no disk fills with one sentence."""

log = cast(
    "structlog.stdlib.BoundLogger",
    structlog.wrap_logger(
        logging.getLogger(LOGGER_NAME),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=False,
    ),
)


class Repeated:
    """Says an event at once, then at most every `REPEAT_AFTER_S`, with the number of times it was not said."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_at: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def warning(self, event: str, **fields: object) -> None:
        """Log `event` as a warning unless it was said a moment ago."""
        now = self._clock()
        if now < self._next_at.get(event, 0.0):
            self._unsaid[event] = self._unsaid.get(event, 0) + 1
            return
        self._next_at[event] = now + REPEAT_AFTER_S
        log.warning(event, unsaid=self._unsaid.pop(event, 0), **fields)
