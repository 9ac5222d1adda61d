"""The rules of a test run, shown on runs of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTED = """
import pytest
def test_listed(): pytest.skip("corpus-absent")
@pytest.mark.long
def test_long(): raise AssertionError
def test_short(): pass
"""


def run(folder: Path, source: str, *arguments: str) -> tuple[int, str]:
    """Run one test file under the rules; give the exit code and what was printed."""
    path = folder / "test_inner.py"
    path.write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(path)]
    environ = {"PATH": "", "CAPTURE_TEST_SEED": "7", "CAPTURE_WORKERS": "many"}
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_listed_skips_pass_and_long_tests_wait(tmp_path: Path) -> None:
    """A listed reason is accepted; a long test runs only when it is asked for; the seed is printed."""
    code, printed = run(tmp_path, LISTED)
    assert code == 0
    assert "CAPTURE_TEST_SEED=7" in printed
    assert "1 passed, 1 skipped, 1 deselected" in printed
    assert run(tmp_path, LISTED, "--all-tests")[0] == 1
    assert run(tmp_path, LISTED, "-m", "long")[0] == 1


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\ndef test_a(): pytest.skip('no time')",
        "import pytest\n@pytest.mark.xfail(reason='no time')\ndef test_a(): raise AssertionError",
        "import pytest\npytest.skip('no time', allow_module_level=True)",
    ],
)
def test_an_unlisted_skip_fails_the_run(tmp_path: Path, source: str) -> None:
    """A test or module that is skipped, or expected to fail, for any other reason is named and fails the run."""
    code, printed = run(tmp_path, source + "\n\ndef test_passes(): pass\n")
    assert code != 0
    assert ": no time" in printed.split("NOT IN tests/skips.py", 1)[1]


def test_randomness_repeats_and_the_shell_stays_outside(tmp_path: Path) -> None:
    """The same seed gives a test the same numbers, and no variable of the caller's reaches it."""
    source = """
import os, random
def test_inner():
    assert not [name for name in os.environ if name.startswith("CAPTURE_")]
    raise RuntimeError(random.random())
"""
    numbers = {run(tmp_path, source)[1].split("E       RuntimeError: ")[1].split()[0] for _ in range(2)}
    assert len(numbers) == 1
