"""Where a ledger lives, and how readers find it."""

import os
import stat
from pathlib import Path

import pytest
from filelock import lock_descriptor

from pipeline import places

MOUNTS = """\
/dev/root / ext4 rw 0 0
tmpfs /run/shm tmpfs rw 0 0
server:/x /data nfs4 rw 0 0
/dev/sdb /data/local xfs rw 0 0
pool /with\\040space btrfs rw 0 0
overlay /data/local/deep overlay rw 0 0
broken-line
tmpfs /data tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/a", "ext4"),
        ("/", "ext4"),
        ("/run/shm/x", "tmpfs"),
        ("/run/shmx", "ext4"),
        ("/data/local", "xfs"),
        ("/data/local/deep/er", "overlay"),
        ("/data/localx", "tmpfs"),
        ("/with space/a", "btrfs"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    """The longest mount point decides, whole names only; of two on one point the later one is on top."""
    assert places.file_system_of(Path(path), MOUNTS) == kind


def test_no_mount_table_line_fits() -> None:
    """An empty table tells nothing."""
    assert places.file_system_of(Path("/a"), "") == ""


@pytest.mark.parametrize(
    ("kind", "kept"), [("ext4", True), ("tmpfs", True), ("nfs4", False), ("btrfs", False)]
)
def test_the_default_place_needs_a_file_system_that_keeps_its_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, kept: bool
) -> None:
    """Beside the records where an allocated page stays writable, with memory as second; else in memory only."""
    table = tmp_path / "mounts"
    table.write_text(f"x / {kind} rw 0 0\n")
    monkeypatch.setattr(places, "MOUNTS", table)
    found = places.candidates(tmp_path, None)
    memory = places.memory_folder(tmp_path)
    assert found == ([places.default_folder(tmp_path), memory] if kept else [memory])


def test_a_state_directory_is_the_only_candidate(tmp_path: Path) -> None:
    """Who names a place gets that one or none."""
    assert places.candidates(tmp_path, "/elsewhere") == [Path("/elsewhere")]


def test_memory_folders_tell_directories_and_users_apart(tmp_path: Path) -> None:
    """Two directories never share a folder on tmpfs, and its name says whose it is."""
    one, other = places.memory_folder(tmp_path), places.memory_folder(tmp_path / "x")
    assert one != other
    assert one.parent.name.endswith(str(os.getuid()))
    assert places.memory_folder(tmp_path / "x" / "..") == one


def test_made_folders_are_private(tmp_path: Path) -> None:
    """Every folder that had to be made has the mode that was asked for, not only the last one."""
    places.make_private(tmp_path / "a" / "b" / "c", 0o700)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o700] * 3


@pytest.mark.parametrize("planted", ["link", "file", "foreign"])
def test_a_planted_folder_on_tmpfs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """A link, a file or another user's folder under the name we would use is not taken."""
    monkeypatch.setattr(places, "MEMORY_FOLDER", tmp_path)
    folder = tmp_path / "capture" / "digest"
    if planted == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.parent.symlink_to(tmp_path / "elsewhere")
    elif planted == "file":
        folder.parent.mkdir()
        folder.touch()
    else:
        folder.mkdir(parents=True)
        own = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: own + 1)
    with pytest.raises(OSError, match=r"folder of this user's|exists"):
        places.make_private(folder, 0o700)


def test_an_own_folder_on_tmpfs_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this user made is used again."""
    monkeypatch.setattr(places, "MEMORY_FOLDER", tmp_path)
    for _ in range(2):
        places.make_private(tmp_path / "capture" / "digest", 0o700)


def test_an_announcement_is_locked_and_can_be_replaced(tmp_path: Path) -> None:
    """A name leads to the last place it was announced with, nothing of a longer one is left, and it is locked."""
    held = [places.announce(tmp_path, "n.ledger", text, 0o700) for text in ("/a/long/folder", "anonymous")]
    assert places.announced(tmp_path) == {"n.ledger": "anonymous"}
    with places.announcement(tmp_path, "n.ledger").open("rb") as file:
        assert not lock_descriptor(file.fileno(), blocking=False)
    for descriptor in held:
        os.close(descriptor)


@pytest.mark.parametrize("content", [b"", b"\0/x", b"\xff\xfe", b"relative/path"])
def test_odd_announcements_are_data(tmp_path: Path, content: bytes) -> None:
    """Whatever is in an announcement, reading all of them raises nothing."""
    path = places.announcement(tmp_path, "odd.ledger")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    (path.parent / "folder.ledger").mkdir()
    assert list(places.announced(tmp_path)) == ["odd.ledger"]


def test_nothing_is_announced_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """A missing directory has no servers."""
    assert places.announced(tmp_path / "missing") == {}
