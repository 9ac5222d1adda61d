"""Fences: the calls of a cleared rollout whose lines are still on their way, and must not come back.

A rollout that is cleared for a fresh run may have calls that started before and are not in its file yet: streaming,
queued, with a worker, or a gap that is about to be named. Their ids stand in `.pipeline/fences/<stem>`, and whoever
appends looks there under the file's own lock. A line that is held back counts as written just before the clear.
Ids, never times: a clock that steps would hold back calls of the new run. This file reads and asks; `clearing`
writes.
"""

import os
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
    return _read(os.fspath(directory), stem)


def outside(path: Path, lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return the lines that may be appended to one of a rollout's files: those whose call no fence holds back.

    Raises OSError as `read_fence` does.
    """
    directory, name = os.path.split(path)
    held = _read(directory, stem_in(name))
    return lines if not held else [line for line in lines if call_id_of(line) not in held]


def stem_in(name: str) -> str:
    """Return the stem in the name of a record, gap or note file."""
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _read(directory: str, stem: str) -> frozenset[str]:
    """Read a fence. Each append asks, and nearly always there is none: one failing call, and no path objects."""
    path = f"{directory}/{places.PIPELINE_FOLDER}/{FENCES_FOLDER}/{stem}"
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path object takes longer than the call
            return frozenset(file.read().decode("ascii", "replace").split())
    except OSError as error:
        raise_if_exhausted(error)
        return NONE


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
