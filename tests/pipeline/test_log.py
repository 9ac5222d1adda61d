"""The pipeline's voice: on one standard logger, and never at the speed of traffic."""

import logging

import pytest

from pipeline.log import LOGGER_NAME, REPEAT_AFTER_S, Repeated, log


class Time:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_an_event_is_said_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """The first is said at once, the next ones are counted, and told with the first after the pause."""
    clock = Time()
    said = Repeated(clock)
    for _ in range(1000):
        said.warning("exchange_dropped", stem="s")
    said.warning("ledger_removed")
    assert len(caplog.messages) == 2
    assert "unsaid=0" in caplog.messages[0]
    clock.now += REPEAT_AFTER_S
    said.warning("exchange_dropped", stem="s")
    assert "unsaid=999" in caplog.messages[2]
    assert "stem='s'" in caplog.messages[2]


def test_a_quiet_logger_is_left_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What the host's level leaves out is not said, and no handler or level of the host's is touched."""
    logger = logging.getLogger(LOGGER_NAME)
    before = (logger.level, list(logger.handlers), logger.propagate)
    with caplog.at_level(logging.ERROR, LOGGER_NAME):
        log.warning("quiet")
    assert caplog.messages == []
    assert (logger.level, list(logger.handlers), logger.propagate) == before
