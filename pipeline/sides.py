"""What is the same for both sides of an exchange: a body's coding undone, its JSON object read, and the flags for it.

Pure, and nothing raises: what a body turned out to be is told by its flags, whose names are a row for each side.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from pipeline.bodies import BodyError, decode, embed, heal
from pipeline.codings import CodingError, codings_of, undo_some


class Side(NamedTuple):
    """The names of one side's flags."""

    cut: str
    encoded: str
    undecodable: str
    lenient: str
    no_object: str


REQUEST = Side(
    "request_body_cut", "request_encoded", "undecodable_request", "lenient_request", "request_not_object"
)
RESPONSE = Side(
    "response_body_cut", "response_encoded", "undecodable_response", "lenient_response", "response_not_object"
)


class Body(msgspec.Struct, frozen=True, gc=False):
    """A body without its coding, as chunks and whole; one that is not `plain` kept it. `flags` grow on the way."""

    chunks: Sequence[bytes]
    raw: bytes
    flags: set[str]
    plain: bool = True


def open_body(chunks: Sequence[bytes], side: Side, coding: str | None, *, cut: bool) -> Body:
    """Undo the coding that a `content-encoding` header names; `cut` says that not all of the body was kept."""
    flags = {side.cut} if cut else set()
    if coding and codings_of(coding):
        try:
            chunks = undo_some(chunks, coding)
            flags.add(side.encoded)
        except CodingError:
            flags.add(side.undecodable)
            return Body(chunks, b"".join(chunks), flags, plain=False)
    return Body(chunks, b"".join(chunks), flags)


def read_object(body: Body, side: Side) -> tuple[Any, Any]:
    """Return a body's JSON value, and what of it goes into the line: its very bytes where they are strict JSON.

    Flags say what it took. Null is an undecodable body; a value that is no object is returned, and flagged, too.
    """
    try:
        found = decode(body.raw)
    except BodyError:
        body.flags.add(side.undecodable)
        return None, None
    value = heal(found.value)[0] if found.halves else found.value
    if found.lenient:
        body.flags.add(side.lenient)
    if found.byte_order_mark:
        body.flags.add("byte_order_mark")
    if not isinstance(value, dict):
        body.flags.add(side.no_object)
    embedded = None if found.lenient or found.byte_order_mark else embed(body.raw)
    return value, embedded or value
