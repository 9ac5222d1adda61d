"""What handlers say of a call after its record is on its way: one line per note in `<stem>.capture.annotations`.

A note never changes the record's own line, which other readers know; whoever reads the rollout joins it by call id.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from .exchange import Annotation


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A late note as it is stored."""

    model_call_id: str
    annotations: dict[str, Any] | None = None
    events: list[dict[str, Any]] | None = None


_decoder = msgspec.json.Decoder(Note)


def note_line(cargo: Annotation) -> bytes:
    """Return a note as a line without its LF."""
    return msgspec.json.encode(
        Note(model_call_id=cargo.call_id.hex(), annotations=cargo.annotations, events=cargo.events)
    )


def parse_notes(text: bytes) -> Iterator[Note]:
    """Yield the readable notes of a file, in order."""
    for line in text.split(b"\n"):
        try:
            yield _decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            continue
