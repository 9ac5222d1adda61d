"""Fences: the calls of a cleared rollout whose lines are still on their way, and must not come back.

A rollout that is cleared for a fresh run may have calls that started before and are not in its file yet: streaming,
queued, with a worker, or a gap that is about to be named. Their ids stand in `.pipeline/fences/<stem>`, and whoever
appends looks there under the file's own lock. A line that is held back counts as written just before the clear.
Ids, never times: a clock that steps would hold back calls of the new run. This file reads and asks; `clearing`
writes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from . import places
from .exhausted import raise_if_exhausted
from .gaps import SUFFIXES, call_id_of

FENCES_FOLDER = "fences"
NONE: frozenset[str] = frozenset()


def folder_of(directory: Path) -> Path:
    """Return the folder of a capture directory's fences; one file each, named by its stem."""
    return places.default_folder(directory) / FENCES_FOLDER


def read_fence(directory: Path, stem: str) -> frozenset[str]:
    """Return the ids of the calls that a rollout's files may not get; empty where there is no fence.

    Raises OSError where this process is exhausted: what it could not look at must not look like nothing.
    """
    try:
        return frozenset((folder_of(directory) / stem).read_text(encoding="ascii").split())
    except OSError as error:
        raise_if_exhausted(error)
        return NONE
    except UnicodeDecodeError:
        return NONE


def outside(path: Path, lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return the lines that may be appended to one of a rollout's files: those whose call no fence holds back."""
    held = read_fence(path.parent, stem_in(path))
    return lines if not held else [line for line in lines if call_id_of(line) not in held]


def stem_in(path: Path) -> str:
    """Return the stem in the name of a record, gap or note file."""
    name = path.name
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


class Fences:
    """The fences of one directory at one moment: each is read once, when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, frozenset[str]] = {}

    def hold(self, stem: str, call_id: str) -> bool:
        """Whether a call is held back from its rollout's files."""
        held = self._read.get(stem)
        if held is None:
            held = self._read[stem] = read_fence(self._directory, stem)
        return call_id in held


def as_text(ids: Iterable[str]) -> str:
    """Return a fence's content."""
    return "".join(f"{each}\n" for each in sorted(ids))
