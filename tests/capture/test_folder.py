"""The record directory at start: made, tried, or refused."""

import errno
import re
from pathlib import Path

import pytest

from capture.config import CaptureConfig
from capture.errors import CaptureConfigError
from capture.folder import check_directory


def test_the_directory_is_made_with_its_mode(tmp_path: Path) -> None:
    """A missing directory is made, for its owner only unless told otherwise, and holds nothing afterwards."""
    private = CaptureConfig(directory=tmp_path / "a" / "b")
    shared = CaptureConfig(directory=tmp_path / "c", directory_mode=0o770)
    made = [check_directory(config) for config in (private, shared, shared)]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o770, 0o770]
    assert list(made[0].iterdir()) == []


def test_a_directory_that_cannot_be_written_is_refused_with_path_and_reason(tmp_path: Path) -> None:
    """A file in the way and a system that takes no files are named with what the system says."""
    (tmp_path / "file").touch()
    for path, reason in [
        (tmp_path / "file", "Not a directory"),
        (tmp_path / "file" / "below", "Not a directory"),
        (Path("/proc/records"), "No such file or directory"),
    ]:
        with pytest.raises(CaptureConfigError, match=f"{re.escape(str(path))} cannot be written: {reason}"):
            check_directory(CaptureConfig(directory=path))


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no lock calls, capture is refused at start instead of losing every record later."""

    def no_locks(descriptor: int, *, blocking: bool) -> bool:
        raise OSError(errno.ENOLCK, f"no locks for {descriptor}, {blocking}")

    monkeypatch.setattr("capture.folder.lock_descriptor", no_locks)
    with pytest.raises(CaptureConfigError, match="No locks available"):
        check_directory(CaptureConfig(directory=tmp_path))
