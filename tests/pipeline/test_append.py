"""The only way a file grows."""

import errno
import json
import os
from pathlib import Path

import pytest
from filelock import lock_descriptor

from pipeline import append as module
from pipeline.append import Busy, append, find_calls


def line(number: int, text: str = "x") -> bytes:
    """Make a record-like line."""
    return json.dumps({"model_call_id": f"{number:032x}", "text": text}, separators=(",", ":")).encode()


def put(path: Path, *lines: bytes, resent: bool = False) -> bool:
    """Append and close; whether the file was new."""
    made = append(path, lines, mode=0o600, patience_s=0.2, resent=resent)
    os.close(made.descriptor)
    return made.created


def test_lines_are_whole_and_private(tmp_path: Path) -> None:
    """A new file is its owner's alone, each line ends in LF, and only the first append says that it is new."""
    path = tmp_path / "a"
    assert put(path, line(1), line(2))
    assert not put(path, line(3))
    assert path.read_bytes() == line(1) + b"\n" + line(2) + b"\n" + line(3) + b"\n"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "tail",
    [b'{"t":"tor', b'{"t":"\xe6\xbc', b'{"model_call_id":"whole"}', b"\0\0\0", b""],
    ids=["torn", "half a character", "complete without LF", "NULs", "empty"],
)
def test_a_tail_without_lf_does_not_swallow_the_next_line(tmp_path: Path, tail: bytes) -> None:
    """Whatever a crash left at the end, the next lines stand alone and the tail is kept (field case 47)."""
    path = tmp_path / "a"
    path.write_bytes(line(1) + b"\n" + tail)
    put(path, line(2), line(3))
    lines = path.read_bytes().split(b"\n")
    assert lines[-3:] == [line(2), line(3), b""]
    assert tail in path.read_bytes()


def test_a_resend_skips_what_is_there(tmp_path: Path) -> None:
    """A resent line whose call is in the file is not written again; one whose line is torn is."""
    path = tmp_path / "a"
    path.write_bytes(line(1) + b"\n" + line(2)[:-4])
    put(path, line(1), line(2), line(3), resent=True)
    lines = path.read_bytes().split(b"\n")
    assert [lines.count(line(number)) for number in (1, 2, 3)] == [1, 1, 1]


def test_calls_are_found_only_at_line_starts(tmp_path: Path) -> None:
    """An id quoted inside another call's body is not taken for a record of its own."""
    path = tmp_path / "a"
    put(path, line(1, text='{"model_call_id":"' + "f" * 32 + '"}'), line(2))
    descriptor = os.open(path, os.O_RDONLY)
    assert find_calls(descriptor, {"f" * 32, f"{2:032x}"}) == {f"{2:032x}"}
    os.close(descriptor)


def test_lines_longer_than_a_block_are_found(tmp_path: Path) -> None:
    """A line of several megabytes is looked at whole."""
    path = tmp_path / "a"
    put(path, line(1, "y" * 3_000_000), line(2, "z" * 2_000_000), line(3))
    descriptor = os.open(path, os.O_RDONLY)
    wanted = {f"{number:032x}" for number in (1, 2, 3, 4)}
    assert find_calls(descriptor, wanted) == wanted - {f"{4:032x}"}
    os.close(descriptor)


@pytest.mark.parametrize("size", [1, 2, 18, 19, 20, 50, 51, 52, 53, 64, 100, 1000])
def test_lines_are_found_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """However the file is cut into blocks each call is found once its line is whole, and none that is torn."""
    monkeypatch.setattr(module, "_READ_BYTES", size)
    path = tmp_path / "a"
    path.write_bytes(b"\n".join([line(1, ""), b"", line(2, "y" * 70), line(3)[:-9], line(4)[:60]]))
    descriptor = os.open(path, os.O_RDONLY)
    wanted = {f"{number:032x}" for number in range(6)}
    assert find_calls(descriptor, wanted) == {f"{1:032x}", f"{2:032x}"}
    assert find_calls(descriptor, ()) == set()
    os.close(descriptor)


def test_a_whole_line_without_its_end_is_not_written_twice(tmp_path: Path) -> None:
    """A resent call whose line a crash left without LF gets the LF, and no second line."""
    path = tmp_path / "a"
    path.write_bytes(line(1))
    put(path, line(1), line(2), resent=True)
    assert path.read_bytes() == line(1) + b"\n" + line(2) + b"\n"


def test_a_failed_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk fills in the middle of a line, the file is as it was before."""
    path = tmp_path / "a"
    put(path, line(1))
    budget = [10]

    def short_write(descriptor: int, parts: list[bytes]) -> int:
        if budget[0] == 0:
            raise OSError(errno.ENOSPC, "no space")
        written = os.write(descriptor, b"".join(parts)[: budget[0]])
        budget[0] -= written
        return written

    monkeypatch.setattr(os, "writev", short_write)
    with pytest.raises(OSError, match="no space"):
        put(path, line(2))
    assert path.read_bytes() == line(1) + b"\n"


def test_split_writes_stay_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that writes a few bytes at a time still gives whole lines."""
    path = tmp_path / "a"
    monkeypatch.setattr(os, "writev", lambda descriptor, parts: os.write(descriptor, b"".join(parts)[:7]))
    put(path, line(1, "long" * 100))
    assert path.read_bytes() == line(1, "long" * 100) + b"\n"


def test_a_held_lock_is_busy_not_waited_for(tmp_path: Path) -> None:
    """A lock that another holds raises Busy within the patience, and the file is untouched."""
    path = tmp_path / "a"
    put(path, line(1))
    holder = os.open(path, os.O_RDWR)
    assert lock_descriptor(holder, blocking=False)
    with pytest.raises(Busy):
        append(path, [line(2)], mode=0o600, patience_s=0.01)
    os.close(holder)
    put(path, line(3))
    assert path.read_bytes() == line(1) + b"\n" + line(3) + b"\n"


def test_a_replaced_file_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file removed between open and lock does not take lines that nobody will find."""
    path = tmp_path / "a"
    put(path, line(1))
    removed: list[bool] = []

    def lock_and_remove(descriptor: int, *, blocking: bool) -> bool:
        if not removed:
            removed.append(True)
            path.unlink()
        return lock_descriptor(descriptor, blocking=blocking)

    monkeypatch.setattr(module, "lock_descriptor", lock_and_remove)
    put(path, line(2))
    assert path.read_bytes() == line(2) + b"\n"


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    """A symbolic link that somebody planted leads nowhere (field case 46)."""
    outside = tmp_path / "outside"
    (tmp_path / "a").symlink_to(outside)
    with pytest.raises(OSError, match=r"(?i)symbolic links"):
        put(tmp_path / "a", line(1))
    assert not outside.exists()
