"""HTTP content codings undone, chunk by chunk, so that a decoded byte still belongs to the chunk it came in.

gzip and deflate come from the standard library; br and zstd where the package `brotli` or `zstandard` is installed,
imported at first use. What a coding expands to is bounded, so a small body cannot fill the memory. A body that ends
in the middle of its coding gives what could be read: a stream whose client left is the usual case.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, Protocol

DECODED_MAX_BYTES = 64 << 20
"""What one body may expand to; the same bound as for bodies as they come."""


class CodingError(ValueError):
    """A coding that cannot be undone here: unknown, damaged, or larger than the bound."""


_GZIP_MAGIC = b"\x1f\x8b"
_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15
"""zlib's window bits, which also name the wrapping."""


class _Codec(Protocol):
    """What every codec is reduced to: at most `limit` bytes out for these bytes in."""

    def __call__(self, data: bytes, limit: int) -> bytes: ...


class _Inflate:
    """gzip, also of several members, and deflate. What follows the end of the data is passed over.

    A member may fill the limit to the byte; zlib would take the rest of it, 0, for no limit at all.
    """

    def __init__(self, window_bits: int) -> None:
        self._codec = zlib.decompressobj(window_bits)
        self._behind = b""
        self._over = False

    def __call__(self, data: bytes, limit: int) -> bytes:
        out: list[bytes] = []
        while data and not self._over:
            if self._codec.eof and not (data := self._next_member(data)):
                break
            piece = self._codec.decompress(data, limit)
            limit -= len(piece)
            if self._codec.unconsumed_tail or limit <= 0:
                raise CodingError("expands beyond the bound")
            out.append(piece)
            data = self._codec.unused_data if self._codec.eof else b""
        return b"".join(out)

    def _next_member(self, data: bytes) -> bytes:
        """Start on another member if one follows; its first two bytes may come apart."""
        data, self._behind = self._behind + data, b""
        if data.startswith(_GZIP_MAGIC):
            self._codec = zlib.decompressobj(_GZIP)
            return data
        if data == _GZIP_MAGIC[:1]:
            self._behind = data
        else:
            self._over = True
        return b""


def _inflate_deflate(start: bytes) -> _Codec:
    """Tell the two forms of deflate apart, zlib-wrapped and raw, by the check bits of a zlib header (RFC 1950)."""
    wrapped = (
        len(start) > 1 and start[0] & 0x0F == zlib.DEFLATED and int.from_bytes(start[:2], "big") % 31 == 0
    )
    return _Inflate(_ZLIB if wrapped else _RAW_DEFLATE)


class _Sliced:
    """A codec without an output bound of its own, fed so little at a time that it cannot leap far over ours."""

    def __init__(self, step: Callable[[bytes], bytes], slice_bytes: int, error: type[Exception]) -> None:
        self._step = step
        self._slice_bytes = slice_bytes
        self._error = error

    def __call__(self, data: bytes, limit: int) -> bytes:
        out: list[bytes] = []
        for at in range(0, len(data), self._slice_bytes):
            try:
                piece = self._step(data[at : at + self._slice_bytes])
            except self._error as error:
                raise CodingError(str(error)) from error
            out.append(piece)
            limit -= len(piece)
            if limit <= 0:
                raise CodingError("expands beyond the bound")
        return b"".join(out)


def _package(name: str) -> Any:  # noqa: ANN401 - an optional package, which need not have types
    try:
        return import_module(name)
    except ImportError as error:
        raise CodingError(f"the package {name} is not installed") from error


def _brotli(_start: bytes) -> _Codec:
    """Make a brotli codec. One metablock of a few bytes may expand to 16 MiB (RFC 7932), hence the small slices."""
    brotli = _package("brotli")
    return _Sliced(brotli.Decompressor().process, 16, brotli.error)


class _Frames:
    """zstd, of one frame or several (RFC 8878, section 3.1). What follows the last one is passed over."""

    def __init__(self, zstandard: Any) -> None:  # noqa: ANN401 - an optional package, which need not have types
        self._fresh = zstandard.ZstdDecompressor().decompressobj
        self._codec = self._fresh()
        self._behind = b""

    def __call__(self, data: bytes) -> bytes:
        out: list[bytes] = []
        while data:
            if self._codec.eof:
                data = self._behind + data
                if not _FRAME_MAGIC.match(data):
                    self._behind = data[:4]
                    break
                self._codec, self._behind = self._fresh(), b""
            out.append(self._codec.decompress(data))
            data = self._codec.unused_data if self._codec.eof else b""
        return b"".join(out)


_FRAME_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
"""What a frame starts with; the second is one to be skipped."""


def _zstandard(_start: bytes) -> _Codec:
    """Make a zstd codec. One block of four bytes may expand to 128 KiB (RFC 8878)."""
    zstandard = _package("zstandard")
    return _Sliced(_Frames(zstandard), 256, zstandard.ZstdError)


CODINGS: dict[str, Callable[[bytes], _Codec]] = {
    "gzip": lambda _start: _Inflate(_GZIP),
    "x-gzip": lambda _start: _Inflate(_GZIP),
    "deflate": _inflate_deflate,
    "br": _brotli,
    "zstd": _zstandard,
}
"""Coding name, lower case, to what makes a fresh codec for a body that starts with these bytes."""


_NO_CODINGS = frozenset({"", "identity", "none", "utf-8"})
"""Names under which a body is not encoded. `none` is a known trick to keep servers from compressing event streams,
`utf-8` a confusion with the charset; clients read such bodies as they are."""

MAX_CODINGS = 5
"""Each coding costs a whole pass over the body, so a header that repeats one must not name any number of them."""


def codings_of(header: str) -> list[str]:
    """Return the codings that a `content-encoding` header names, in lower case and in order."""
    return [name for part in header.lower().split(",") if (name := part.strip()) not in _NO_CODINGS]


def undo(chunks: Sequence[bytes], header: str) -> list[bytes]:
    """Undo the codings that a `content-encoding` header names, last one first; as many chunks as came in.

    Raises CodingError where one of them cannot be undone.
    """
    names = codings_of(header)
    if len(names) > MAX_CODINGS:
        raise CodingError("more codings than anybody means")
    pieces = list(chunks)
    for name in reversed(names):
        if name not in CODINGS:
            raise CodingError(f"unknown content coding {name!r}")
        start = b"".join(islice((piece for piece in pieces if piece), 2))
        pieces = _undo_one(pieces, CODINGS[name](start))
    return pieces


def undo_some(chunks: Sequence[bytes], header: str) -> list[bytes]:
    """Undo codings as `undo` does; a body of which nothing at all comes out counts as one that cannot be undone.

    It is cut in its first block, and only its coded bytes show that it was there.
    """
    pieces = undo(chunks, header)
    if not any(pieces) and any(chunks):
        raise CodingError("nothing comes out")
    return pieces


def _undo_one(chunks: Sequence[bytes], codec: _Codec) -> list[bytes]:
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
