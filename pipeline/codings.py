"""HTTP content codings undone, chunk by chunk, so that a decoded byte still belongs to the chunk it came in.

gzip and deflate come from the standard library; br and zstd where an optional package is installed. What a coding
expands to is bounded, so a small body cannot fill the memory. A body that ends in the middle of its coding gives
what could be read: a stream whose client left is the usual case.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

DECODED_MAX_BYTES = 64 << 20
"""What one body may expand to; the same bound as for bodies as they come."""


class CodingError(ValueError):
    """A coding that cannot be undone here: unknown, damaged, or larger than the bound."""


class _Inflater(Protocol):
    """What every codec is reduced to: at most `limit` bytes out for these bytes in."""

    def __call__(self, data: bytes, limit: int) -> bytes: ...


class _Zlib:
    """gzip with several members, and deflate in both forms that are sent: zlib-wrapped and raw."""

    def __init__(self, *window_bits: int) -> None:
        self._choices = list(window_bits)
        self._codec = zlib.decompressobj(self._choices.pop(0))
        self._fresh = True

    def __call__(self, data: bytes, limit: int) -> bytes:
        out: list[bytes] = []
        while data and limit > 0:
            piece = self._step(data, limit)
            out.append(piece)
            limit -= len(piece)
            data = self._codec.unused_data if self._codec.eof else b""
            if self._codec.eof and not self._next_member(data):
                break
        return b"".join(out)

    def _step(self, data: bytes, limit: int) -> bytes:
        try:
            piece = self._codec.decompress(data, limit)
        except zlib.error:
            if not (self._fresh and self._choices):
                raise
            self._codec = zlib.decompressobj(self._choices.pop(0))
            piece = self._codec.decompress(data, limit)
        if self._codec.unconsumed_tail:
            raise CodingError("expands beyond the bound")
        self._fresh = False
        return piece

    def _next_member(self, data: bytes) -> bool:
        more = data.startswith(b"\x1f\x8b")
        if more:
            self._codec = zlib.decompressobj(31)
        return more


CODINGS: dict[str, Callable[[], _Inflater]] = {
    "gzip": lambda: _Zlib(31),
    "x-gzip": lambda: _Zlib(31),
    "deflate": lambda: _Zlib(15, -15),
}
"""Coding name, lower case, to a fresh codec. Window bits: 31 gzip, 15 zlib, -15 raw."""


def undo(chunks: Sequence[bytes], header: str) -> list[bytes]:
    """Undo the codings that a `content-encoding` header names, last one first; as many chunks as came in.

    Raises CodingError where one of them cannot be undone.
    """
    names = [name for part in header.lower().split(",") if (name := part.strip()) not in {"", "identity"}]
    pieces = list(chunks)
    for name in reversed(names):
        if name not in CODINGS:
            raise CodingError(f"unknown content coding {name!r}")
        pieces = _undo_one(pieces, CODINGS[name]())
    return pieces


def _undo_one(chunks: Sequence[bytes], codec: _Inflater) -> list[bytes]:
    pieces: list[bytes] = []
    left = DECODED_MAX_BYTES
    for chunk in chunks:
        try:
            piece = codec(chunk, left + 1) if chunk else b""
        except zlib.error as error:
            raise CodingError(str(error)) from error
        left -= len(piece)
        if left < 0:
            raise CodingError("expands beyond the bound")
        pieces.append(piece)
    return pieces
