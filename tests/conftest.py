"""Rules of every test run: one printed seed, no silent skip, no setting of the caller's shell, long tests apart.

`CAPTURE_TEST_SEED` repeats the random choices of an earlier run. A skip or an expected failure whose reason is
not in the closed list of `tests/skips.py` fails the run, so that nothing goes untested without a decision.
"""

import os
import random
import signal
from collections.abc import Generator

import hypothesis
import pytest

from tests.skips import SKIPS

SEED_VARIABLE = "CAPTURE_TEST_SEED"
SEED = pytest.StashKey[int]()
UNLISTED = pytest.StashKey[list[str]]()

hypothesis.settings.register_profile("shared", deadline=None)
"""A property may be slow on a busy machine; the time limit of the test still bounds it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch that `scripts/test --all` sets."""
    parser.addoption("--all-tests", action="store_true", help="run the tests marked long, too")


def pytest_configure(config: pytest.Config) -> None:
    """Take the seed, then hide the shell's own settings from the tests and the servers they start."""
    config.stash[SEED] = int(os.environ.get(SEED_VARIABLE) or random.randrange(1 << 24))
    config.stash[UNLISTED] = []
    hypothesis.settings.load_profile("shared")
    for name in [name for name in os.environ if name.startswith("CAPTURE_")]:
        del os.environ[name]
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a shell's background job; what it starts would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str:
    """Say the seed first, so that it is there when the run dies."""
    return f"{SEED_VARIABLE}={config.stash[SEED]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests out unless they were asked for, by switch or by marker."""
    if config.getoption("--all-tests") or "long" in config.getoption("markexpr"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest) -> None:
    """Give each test its own repeatable randomness, whichever tests run before it."""
    random.seed(f"{request.config.stash[SEED]} {request.node.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note a test that was skipped, or was expected to fail, for a reason that is not listed."""
    report = yield
    _note(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Note the same of a whole module."""
    report = yield
    _note(collector.config, report)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run for what was noted."""
    if session.config.stash[UNLISTED] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what failed it."""
    for line in config.stash[UNLISTED]:
        terminalreporter.write_line(f"NOT IN tests/skips.py: {line}", red=True)


def _note(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    """Keep the report's name and reason if it was skipped for one that is not listed, by name or by sentence."""
    if not report.skipped:
        return
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
    reason = said.removeprefix("Skipped: ")
    if reason not in SKIPS and reason not in SKIPS.values():
        config.stash[UNLISTED].append(f"{report.nodeid}: {reason}")
