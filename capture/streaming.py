"""A rollout's records one by one, straight from its file: for views of rollouts that do not fit into memory.

Blocking; one read from the beginning to the end, with one line in memory. Records come in the order of the file,
which is that of completion within a server process; the views put them in order themselves.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from pipeline import gaps as gap_files
from pipeline.notes import parse_notes

from .reading import Reading, Scan, StoredRecord, parse_line, read_bytes, tail_is_torn, with_notes


class RecordStream:
    """Iterate over it once; then `found` tells what was there. A file that is not there has no records.

    Raises OSError, while iterating, where the file is there and cannot be read.
    """

    def __init__(self, directory: Path, stem: str) -> None:
        self._path = gap_files.record_path(directory, stem)
        self._notes = _notes_by_call(read_bytes(gap_files.note_path(directory, stem)) or b"")
        self._ids: set[str] = set()
        self._damaged = 0

    @property
    def found(self) -> Scan:
        """The ids of the calls read so far, and the number of lines that cannot be read."""
        return Scan(self._ids, self._damaged)

    def __iter__(self) -> Iterator[StoredRecord]:
        size = 0
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for line in file:
                size += len(line)
                record = self._read(line, size)
                if record is not None:
                    yield record

    def _read(self, line: bytes, size: int) -> StoredRecord | None:
        """Read one line; `size` is that of the file down to its end."""
        if not line.endswith(b"\n"):
            self._damaged += tail_is_torn(self._path, size)
            return None
        if line == b"\n":
            return None
        record = parse_line(line[:-1])
        if record is None:
            self._damaged += 1
            return None
        self._ids.add(record.model_call_id)
        notes = self._notes.get(record.model_call_id)
        return with_notes(Reading([record], 0), b"\n".join(notes)).records[0] if notes else record


def _notes_by_call(text: bytes) -> dict[str, list[bytes]]:
    """Return the lines of a file of late notes by the call that they are of."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for line in text.split(b"\n"):
        for note in parse_notes(line):
            found[note.model_call_id].append(line)
    return found
