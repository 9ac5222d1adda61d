"""Which systems are refused."""

import pytest

from capture.system import refuse_system


@pytest.mark.parametrize("platform", ["win32", "cygwin", "emscripten", "aix"])
def test_other_systems_are_refused_by_name(platform: str) -> None:
    """A system without the locks and process groups that are needed is refused, and the error names it."""
    with pytest.raises(ImportError, match=platform):
        refuse_system(platform)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_linux_and_macos_pass(platform: str) -> None:
    """Linux and macOS are not refused."""
    refuse_system(platform)
