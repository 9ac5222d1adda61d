"""One mapped file of a ledger: whole and locked, or smaller, or memory."""

import errno
import os
from pathlib import Path

import pytest
from filelock import lock_descriptor

from pipeline import slots
from pipeline.account import anonymous_servers, ledger_paths
from pipeline.ledger import Ledger, new_identity
from pipeline.settings import PipelineSettings


@pytest.fixture
def settings(tmp_path: Path) -> PipelineSettings:
    """Give settings for a directory that is there."""
    return PipelineSettings(directory=str(tmp_path))


def test_smaller_where_the_disk_is_almost_full(
    settings: PipelineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a whole megabyte cannot be had, a smaller file is made, and no half-made one is left."""
    allocate = os.posix_fallocate

    def scarce(descriptor: int, offset: int, size: int) -> None:
        if size > 200_000:
            raise OSError(errno.ENOSPC, "no space")
        allocate(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", scarce)
    ledger = Ledger(settings, new_identity(settings))
    assert [each.slots for each in ledger.segments] == [512]
    assert ledger.path is not None
    assert list(ledger.path.parent.iterdir()) == [ledger.path]
    ledger.close()


def test_memory_where_no_file_can_be_made(
    settings: PipelineSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With no room at all the account goes on in memory, and readers are told that they cannot see it."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "posix_fallocate", full)
    ledger = Ledger(settings, new_identity(settings))
    for _ in range(5):
        assert ledger.open(b"i" * 16, 1.0, b"s") is not None
    assert (ledger.path, ledger.lock_descriptor, ledger.gone()) == (None, None, False)
    assert ledger.started() == ledger.states()["open"] == 5
    assert ledger_paths(tmp_path) == []
    assert len(anonymous_servers(tmp_path)) == 1
    ledger.close()
    assert anonymous_servers(tmp_path) == []


def test_what_readers_see_is_whole_and_locked(
    settings: PipelineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the moment of its renaming a ledger file has its header, its size and its lock."""
    found: list[tuple[int, bool]] = []
    rename = Path.rename

    def looked_at(self: Path, target: Path) -> Path:
        view = self.read_bytes()
        slots_, _, identity, _ = slots.read_header(view)
        with self.open("rb") as file:
            free = lock_descriptor(file.fileno(), blocking=False)
        found.append((slots_, free))
        assert identity
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", looked_at)
    Ledger(settings, new_identity(settings)).close()
    assert found == [(4096, False)]
