"""Where a ledger lives, and how readers find it.

Default: `<directory>/.pipeline` where that is on a file system whose mapped pages cannot fail after they were
allocated; else a folder of this user's on tmpfs. Whatever is not in the default place is named by a small file in
`<directory>/.pipeline/instances/`, whose content is the ledger's folder, or the word `anonymous` for a server
process that could get no file at all. A mapped page that its file system cannot back is a SIGBUS in the user's
server, so the list of file systems is one of those known to keep a promise, not of those known to break it.
"""

import hashlib
import os
import socket
import stat
import sys
from functools import cache
from pathlib import Path

from filelock import lock_descriptor

from .exhausted import raise_if_exhausted

PIPELINE_FOLDER = ".pipeline"
INSTANCES_FOLDER = "instances"
ANONYMOUS = "anonymous"
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - the kernel's own tmpfs; ours is a checked folder below it
MOUNTS = Path("/proc/self/mounts")
KEEPS_ITS_PROMISE = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs", "overlay", "apfs", "hfs"})
"""File systems on which a page that `posix_fallocate` got stays writable; copy-on-write and network ones are not
among them (btrfs, zfs, nfs, ceph, lustre, fuse)."""


@cache
def host_name() -> str:
    """Return this host's name, made safe for a file name."""
    return "".join(sign if sign.isalnum() else "_" for sign in socket.gethostname())[:64] or "host"


@cache
def boot_id() -> str:
    """Return eight characters that change when the machine starts anew; `noboot` where the kernel tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    except OSError:
        return "noboot"


def file_system_of(path: Path, mounts: str) -> str:
    """Return the type of the file system that holds `path`, from the text of a mount table."""
    best, kind = "", ""
    text = str(path)
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:  # noqa: PLR2004 - device, mount point, type
            continue
        point = parts[1].replace("\\040", " ")
        inside = text == point or text.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, parts[2]
    return kind


def keeps_its_promise(path: Path) -> bool:
    """Whether mapped, allocated pages on this path's file system stay writable."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return sys.platform == "darwin"
    return file_system_of(path.resolve(), mounts) in KEEPS_ITS_PROMISE


def default_folder(directory: Path) -> Path:
    """Return the folder that needs no announcement."""
    return directory / PIPELINE_FOLDER


def memory_folder(directory: Path) -> Path:
    """Return this user's folder on tmpfs for this capture directory."""
    digest = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:16]
    return MEMORY_FOLDER / f"model-call-capture-{os.getuid()}" / digest


def candidates(directory: Path, state_directory: str | None) -> list[Path]:
    """Return the folders to try for a ledger, best first."""
    if state_directory is not None:
        return [Path(state_directory)]
    if keeps_its_promise(directory):
        return [default_folder(directory), memory_folder(directory)]
    return [memory_folder(directory)]


def make_private(folder: Path, mode: int) -> None:
    """Make a folder and its missing parents, and refuse one that is not this user's own.

    Raises OSError. A shared tmpfs lets any user plant a folder or a link under the name we would use.
    """
    make_folders(folder, mode)
    if MEMORY_FOLDER in folder.parents:
        for owned in (folder, folder.parent):
            found = owned.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                raise PermissionError(f"{owned} is not a folder of this user's")


def make_folders(folder: Path, mode: int) -> None:
    """Make a folder and its missing parents, all with `mode`: `Path.mkdir` has it for the last one only."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)


def announce(directory: Path, name: str, content: str, mode: int) -> int:
    """Write `<directory>/.pipeline/instances/<name>`, and return its open, locked descriptor. Raises OSError.

    It is renamed into place: a reader clears away what is not locked.
    """
    path = announcement(directory, name)
    make_folders(path.parent, mode)
    temporary = path.with_name(f".{name}.making")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, os.fsencode(content))
        lock_descriptor(descriptor, blocking=False)
        temporary.rename(path)
    except BaseException:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        raise
    return descriptor


def announcement(directory: Path, name: str) -> Path:
    """Return the path of a server process's announcement."""
    return default_folder(directory) / INSTANCES_FOLDER / name


def announced(directory: Path) -> dict[str, str]:
    """Return what is announced for a capture directory: name to folder, or to `anonymous`."""
    folder = default_folder(directory) / INSTANCES_FOLDER
    found = {}
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise_if_exhausted(error)
        return {}
    for path in paths:
        if path.name.startswith("."):
            continue
        try:
            found[path.name] = os.fsdecode(path.read_bytes().replace(b"\0", b""))
        except OSError as error:
            raise_if_exhausted(error)
    return found
