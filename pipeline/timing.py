"""When things arrived: chunk times to the record's timing, and the packed list of chunks for an exact replay.

An event arrived with the chunk that completed it. Inter-token gaps are between chunks that brought tokens, since what
came in one chunk came at once. Comments and keep-alives are neither events nor tokens.
"""

import base64
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import Any

from pipeline.dialects import Mark
from pipeline.exchange import RawExchange
from pipeline.record import Timing

TICK_NS = 100_000
"""Resolution of packed arrival times, 0.1 ms: most gaps of a stream then take one byte or two."""

_SILENT, _CONTENT, _REASONING = Mark.SILENT, Mark.CONTENT, Mark.REASONING
"""The marks by names of this module's own: they are looked up for every event."""

_SEVEN_BITS = 0x7F
_MORE = 0x80


def ms(ns: int | None) -> float | None:
    """Return nanoseconds as milliseconds with three decimals; null stays null."""
    return None if ns is None else round(ns / 1e6, 3)


class TokenTimes:
    """Collects when events, tokens and reasoning arrived. `chunks` are those of the decoded body."""

    def __init__(self, chunks: Sequence[bytes], times_ns: Sequence[int]) -> None:
        self.sizes = list(map(len, chunks))
        self._arrivals: Iterator[tuple[float, int | None]] = zip(
            accumulate(self.sizes), times_ns, strict=False
        )
        self._chunk_end, self._now = next(self._arrivals, _NEVER)
        self.events = 0
        self.first_event_ns: int | None = None
        self.first_token_ns: int | None = None
        self.first_reasoning_ns: int | None = None
        self.token_times_ns: list[int] = []

    def note(self, end: int, mark: int) -> None:
        """Note one event that ends at this offset, which must not go back, and what it brought."""
        if mark == _SILENT:
            return
        while self._chunk_end < end:
            self._chunk_end, self._now = next(self._arrivals, _NEVER)
        now = self._now
        self.events += 1
        if self.first_event_ns is None:
            self.first_event_ns = now
        if not mark or now is None:
            return
        times = self.token_times_ns
        if not times or now != times[-1]:
            times.append(now)
        if mark & _CONTENT and self.first_token_ns is None:
            self.first_token_ns = now
        if mark & _REASONING and self.first_reasoning_ns is None:
            self.first_reasoning_ns = now


_NEVER: tuple[float, int | None] = (float("inf"), None)
"""Where no chunk was: an arrival that is unknown, for every offset."""


def arrivals_ns(exchange: RawExchange) -> tuple[int | None, int | None]:
    """Return when the first body chunk that is not empty arrived, and the first that is more than a keep-alive.

    Keep-alives are SSE comments, which a chunk may leave open for the next one, and lines without anything in them.
    """
    first, comment = None, b""
    for chunk, time_ns in zip(exchange.response_chunks, exchange.response_times_ns, strict=False):
        if chunk and first is None:
            first = time_ns
        if chunk and not (comment or chunk.startswith(_QUIET)):
            return first, time_ns
        lines = (comment + chunk).splitlines()
        if any(line.strip() and not line.startswith(b":") for line in lines):
            return first, time_ns
        comment = b":" if lines and lines[-1].startswith(b":") and not chunk.endswith((b"\r", b"\n")) else b""
    return first, None


_QUIET = (b":", b"\n", b"\r", b" ")
"""How a chunk starts that may be a keep-alive; any other is not looked into, since it may be large."""


def timing(exchange: RawExchange, first_byte_ns: int | None, tokens: TokenTimes | None) -> Timing:
    """Return the record's timing; `tokens` is null where the answer was no stream."""
    return Timing(
        request_read_ms=ms(exchange.request_read_ns),
        first_byte_ms=ms(first_byte_ns),
        send_wait_ms=ms(exchange.send_wait_ns),
        chunks=len(exchange.response_times_ns),
        **(_of_tokens(tokens) if tokens else {}),
    )


def _of_tokens(tokens: TokenTimes) -> dict[str, Any]:
    """Return the timing that only a stream has."""
    times = tokens.token_times_ns
    gaps = sorted(later - earlier for earlier, later in pairwise(times))
    return {
        "first_event_ms": ms(tokens.first_event_ns),
        "first_token_ms": ms(tokens.first_token_ns),
        "first_reasoning_ms": ms(tokens.first_reasoning_ns),
        "last_token_ms": ms(times[-1]) if times else None,
        "itl_p50_ms": ms(_quantile(gaps, 0.5)),
        "itl_p95_ms": ms(_quantile(gaps, 0.95)),
        "itl_max_ms": ms(gaps[-1]) if gaps else None,
        "events": tokens.events,
    }


def _quantile(ordered: list[int], share: float) -> int | None:
    """Return the nearest-rank quantile; null of nothing."""
    return ordered[max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1)] if ordered else None


def pack_chunks(sizes: Sequence[int], times_ns: Sequence[int]) -> str:
    """Pack sizes (bytes) and arrival times (ns) of chunks: base64 of LEB128 varints, about 4 bytes a chunk.

    Per chunk: its size, then the ticks of 0.1 ms since the chunk before (the first: since the scope was received).
    Ticks are differences of rounded absolute times, so rounding does not add up. `unpack_chunks` reads it.
    """
    ticks = accumulate((time_ns // TICK_NS for time_ns in times_ns), max, initial=0)
    steps = [later - earlier for earlier, later in pairwise(ticks)]
    pairs = zip(map(_varint, sizes), map(_varint, steps), strict=False)
    return base64.b64encode(b"".join(chain.from_iterable(pairs))).decode("ascii")


@lru_cache(maxsize=4096)
def _varint(number: int) -> bytes:
    """Return a number as LEB128. Sizes and steps repeat, so few are ever made."""
    packed = bytearray()
    while number > _SEVEN_BITS:
        packed.append(number & _SEVEN_BITS | _MORE)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def unpack_chunks(text: str) -> list[tuple[int, int]]:
    """Return (size in bytes, arrival in ns) of each chunk, as `pack_chunks` packed them."""
    numbers: list[int] = []
    number = shift = 0
    for byte in base64.b64decode(text):
        number |= (byte & _SEVEN_BITS) << shift
        shift += 7
        if byte <= _SEVEN_BITS:
            numbers.append(number)
            number = shift = 0
    chunks: list[tuple[int, int]] = []
    tick = 0
    for size, ticks in zip(numbers[::2], numbers[1::2], strict=False):
        tick += ticks
        chunks.append((size, tick * TICK_NS))
    return chunks
