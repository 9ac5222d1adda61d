"""Server and worker framing: what crosses the two pipes of a worker process.

To the worker: a fixed header, a msgpack head (everything but bodies), the response's chunk lengths and times packed,
then the bodies' chunks as they are, never joined or copied on the server's side. From the worker: an answer per
frame, in any order. Both ends check `FORMAT`, so a worker of another installation is refused, not misread.
"""

import struct
from array import array
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from .exchange import EXCHANGE_FORMAT, Annotation, Headers, RawExchange
from .gaps import Gap
from .settings import PipelineSettings, ServerIdentity

FORMAT = 100 + EXCHANGE_FORMAT
"""Grows with the frame's own shape or with the exchange's."""

PAIR = 2
_HEADER = struct.Struct("<HBBIIQQQ")
_ANSWER = struct.Struct("<QBH")

SETTINGS, EXCHANGE, ANNOTATION, GAP = range(4)
"""What a frame carries."""
LAST_OF_BATCH, RESENT, RAW_ONLY = 1, 2, 4
"""Flags: append now; look in the file first; store undecoded."""

HELLO, COMMITTED, FAILED, BEGUN = range(4)
"""Answers: the worker is there (ticket 0); the line is durable; it could not be written; a resent one is begun."""


class Introduction(msgspec.Struct, frozen=True):
    """A worker's first frame: for whom it works, and how."""

    settings: PipelineSettings
    server: ServerIdentity


class GapNote(msgspec.Struct, frozen=True):
    """A gap on its way to its file."""

    stem: str
    gap: Gap


Cargo: TypeAlias = Introduction | RawExchange | Annotation | GapNote
KIND_OF: dict[type, int] = {
    Introduction: SETTINGS,
    RawExchange: EXCHANGE,
    Annotation: ANNOTATION,
    GapNote: GAP,
}
_encode = msgspec.msgpack.Encoder().encode
_decoders: dict[int, Callable[[bytes], Cargo]] = {
    kind: msgspec.msgpack.Decoder(shape).decode for shape, kind in KIND_OF.items()
}


class Frame(NamedTuple):
    """One frame as the worker got it."""

    ticket: int
    flags: int
    cargo: Cargo


class Answer(NamedTuple):
    """A worker's word on one ticket; `detail` names the fault of a failure."""

    ticket: int
    fate: int
    detail: str = ""


class FrameError(Exception):
    """The other end speaks another format; nothing it says can be trusted."""


def pack(cargo: Cargo, ticket: int, flags: int) -> list[bytes]:
    """Return a frame as buffers to write in order."""
    kind = KIND_OF[type(cargo)]
    if not isinstance(cargo, RawExchange):
        head = _encode(cargo)
        return [_HEADER.pack(FORMAT, kind, flags, len(head), 0, 0, 0, ticket), head]
    request, response = cargo.request_chunks, cargo.response_chunks
    head = _encode(
        msgspec.structs.replace(
            cargo,
            request_headers=_plain(cargo.request_headers),
            response_headers=_plain(cargo.response_headers),
            request_chunks=(),
            response_chunks=(),
            response_times_s=(),
        )
    )
    lengths = array("Q", map(len, response))
    packed = lengths.tobytes() + array("d", cargo.response_times_s).tobytes()
    sizes = len(head), len(packed), sum(map(len, request)), sum(lengths)
    return [_HEADER.pack(FORMAT, kind, flags, *sizes, ticket), head, packed, *request, *response]


def _plain(headers: Headers) -> Headers:
    """Make header values bytes, whatever an odd server or application gave; leave out what is no pair."""
    return tuple((pair[0], _as_bytes(pair[1])) for pair in headers if len(pair) == PAIR)


def _as_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return str(value).encode("utf-8", "replace")


def read_frame(read: Callable[[int], bytes]) -> Frame | None:
    """Read one frame with `read`, which gives exactly the bytes asked for, or fewer at the end.

    None at the end of the stream, also in the middle of a frame. Raises FrameError for another format.
    """
    header = read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    format_, kind, flags, head_size, packed_size, request_size, response_size, ticket = _HEADER.unpack(header)
    if format_ != FORMAT or kind not in _decoders:
        raise FrameError(f"a frame of format {format_}, kind {kind}; this end reads format {FORMAT}")
    parts = [read(size) if size else b"" for size in (head_size, packed_size, request_size, response_size)]
    head, packed, request, response = parts
    if sum(map(len, parts)) < head_size + packed_size + request_size + response_size:
        return None
    cargo = _decoders[kind](head)
    if isinstance(cargo, RawExchange):
        cargo = _with_bodies(cargo, packed, request, response)
    return Frame(ticket, flags, cargo)


def _with_bodies(cargo: RawExchange, packed: bytes, request: bytes, response: bytes) -> RawExchange:
    """Put the bodies back: the response cut as it was sent, but for empty chunks, and its times as offsets."""
    lengths, times = array("Q"), array("d")
    lengths.frombytes(packed[: len(packed) // 2])
    times.frombytes(packed[len(packed) // 2 :])
    chunks, times_ns, at, zero = [], [], 0, cargo.zero_s
    for length, time in zip(lengths, times, strict=True):
        if length:
            chunks.append(response[at : at + length])
            times_ns.append(round((time - zero) * 1e9))
            at += length
    return msgspec.structs.replace(
        cargo,
        request_chunks=(request,) if request else (),
        response_chunks=tuple(chunks),
        response_times_ns=tuple(times_ns),
        response_times_s=(),
        zero_s=0.0,
    )


def pack_answer(answer: Answer) -> bytes:
    """Return an answer's bytes."""
    detail = answer.detail.encode("utf-8", "replace")[:1000]
    return _ANSWER.pack(answer.ticket, answer.fate, len(detail)) + detail


def take_answers(buffer: bytearray) -> list[Answer]:
    """Take the whole answers off the front of `buffer`; a part stays for the next read."""
    answers = []
    at = 0
    while len(buffer) - at >= _ANSWER.size:
        ticket, fate, length = _ANSWER.unpack_from(buffer, at)
        end = at + _ANSWER.size + length
        if len(buffer) < end:
            break
        answers.append(
            Answer(ticket, fate, bytes(buffer[at + _ANSWER.size : end]).decode("utf-8", "replace"))
        )
        at = end
    del buffer[:at]
    return answers
