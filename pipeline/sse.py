"""Server-Sent Events: bytes cut anywhere go in, whole events come out.

The rules are those of the WHATWG standard ("Interpreting an event stream"): a line ends at CR, LF or CRLF and at
nothing else, an empty line ends an event, one space after the colon is dropped, `data` lines are joined by LF, a
byte order mark may open the stream. `id` and `retry` steer a client's reconnection and say nothing about the
answer, so they are passed over. Everything stays bytes: a character cut in two by a chunk is never decoded here.

Two deviations. Bodies here have ended and nobody will send the rest: an event that the end of the body left without
its empty line is handed out by `close` instead of being forgotten. And servers write errors past the standard, as an
`error:` line or as bare JSON: a block that holds nothing else is handed out as the event that was meant. Both are
marked; the caller decides what they are worth.

Linear: each byte is searched a bounded number of times, whatever the chunks. Streams that keep to LF or to CRLF are
split by the library; only a mixture is searched by pattern. No input raises.
"""

import re

import msgspec

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

LF, CR = 0x0A, 0x0D
"""As numbers: to ask whether bytes hold one is several times as fast as with bytes of length 1."""

_EMPTY_LINE = re.compile(rb"(?>\r\n?|\n){2}")
"""A line's end and an empty line. Atomic, so that one CRLF can never be read as two line ends."""

_LINE_ENDS = {0: b"\n", 1: b"\n", 2: b"\r\n"}
"""Kinds of line ends seen so far, as bits (LF 1, CRLF 2, CR 4), to the one line end that all lines have."""

_LOOK_BACK = 3
"""The longest part of an event's end (CR LF CR LF) that a chunk can leave without completing it, in bytes. It is
searched again whatever line ends the stream kept to so far, since the next chunk may be the first to mix them."""

_SILENT_FIELDS = frozenset({b"id", b"retry"})


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. `end` is the offset in the stream just behind it, so that its arrival can be told.

    `name` is the `event` field, empty where there was none. `data` is null where no `data` line came: the standard
    dispatches no such event, but it shows what the peer wrote. `stray` counts lines that are neither a comment nor
    a field of the standard. `ended` is false where the body ended before the event's empty line; `framed` where the
    data came as no `data` line.
    """

    name: bytes
    data: bytes | None
    end: int
    stray: int = 0
    ended: bool = True
    framed: bool = True


class EventParser:
    """Cuts one stream into events. Feed it the body in any pieces, then `close` it once."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._offset = 0
        self._kinds = 0
        self._fresh = True

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this chunk completed, in order. Comments and empty blocks give none."""
        if self._kinds not in _LINE_ENDS:
            self._buffer += chunk
            return self._take_returns()
        if CR in chunk or self._buffer.endswith(b"\r"):
            self._note_line_ends(chunk)
        elif self._kinds != 1 and LF in chunk:
            self._kinds |= 1
        self._buffer += chunk
        line_end = _LINE_ENDS.get(self._kinds)
        return self._take(line_end) if line_end else self._take_returns()

    def _note_line_ends(self, chunk: bytes) -> None:
        """Note which line ends a chunk has. A CR at its end may be half of a CRLF and counts with the next one."""
        lines = (b"\r" if self._buffer.endswith(b"\r") else b"") + chunk
        pairs = lines.count(b"\r\n")
        plain = lines.count(b"\n") > pairs
        single = lines.count(b"\r") - lines.endswith(b"\r") > pairs
        self._kinds |= plain | (2 if pairs else 0) | (4 if single else 0)

    def close(self) -> list[Event]:
        """Return what only the end of the body decides: an event that waited for a LF, and one left unfinished."""
        events = self._take_returns(last=True) if b"\r" in self._buffer else []
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._offset += len(rest)
        last = self._read(rest, self._offset)
        return events if last is None else [*events, msgspec.structs.replace(last, ended=False)]

    def _take(self, line_end: bytes) -> list[Event]:
        """Take whole blocks off the buffer where this is the only line end.

        Nearly every block is one line of data; it is read here and now.
        """
        empty_line = line_end * 2
        gap = len(empty_line)
        if self._buffer.find(empty_line, self._searched) < 0:
            self._searched = max(0, len(self._buffer) - _LOOK_BACK)
            return []
        blocks = bytes(self._buffer).split(empty_line)
        self._buffer = bytearray(blocks.pop())
        self._fresh = self._fresh and blocks[0].startswith(BYTE_ORDER_MARK)
        self._searched = max(0, len(self._buffer) - _LOOK_BACK)
        events: list[Event] = []
        offset = self._offset
        for block in blocks:
            offset += len(block) + gap
            if block.startswith(b"data: ") and LF not in block:
                events.append(Event(b"", block[6:], offset))
            elif (event := self._read(block, offset)) is not None:
                events.append(event)
        self._offset = offset
        return events

    def _take_returns(self, *, last: bool = False) -> list[Event]:
        """Take whole blocks off the buffer where any line end may come.

        A CR at the buffer's end may be the first half of a CRLF, so an end of event there waits for the next byte,
        unless these are the `last`.
        """
        text = self._buffer
        events: list[Event] = []
        start = 0
        for end in _EMPTY_LINE.finditer(text, self._searched):
            if end.end() == len(text) and text.endswith(b"\r") and not last:
                break
            self._offset += end.end() - start
            if (event := self._read(bytes(text[start : end.start()]), self._offset)) is not None:
                events.append(event)
            start = end.end()
        del text[:start]
        self._searched = max(0, len(text) - _LOOK_BACK)
        return events

    def _read(self, block: bytes, end: int) -> Event | None:
        """Read one block that ends at this offset; only the stream's first may carry the mark."""
        if self._fresh:
            block = block.removeprefix(BYTE_ORDER_MARK)
        self._fresh = False
        return _read(block, end)


def _read(block: bytes, end: int) -> Event | None:
    """Read the lines of one block; null where they amount to nothing but comments."""
    name = b""
    data: list[bytes] = []
    bare: list[bytes] = []
    stray = 0
    for line in block.splitlines():
        if line.startswith(b"data: "):
            data.append(line[6:])
        elif line and not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                name = value
            elif field == b"data":
                data.append(value)
            elif field == b"error" or line.startswith(b"{"):
                name = field if field == b"error" else name
                bare.append(value if field == b"error" else line)
            else:
                stray += field not in _SILENT_FIELDS
    if data:
        return Event(name, data[0] if len(data) == 1 else b"\n".join(data), end, stray + len(bare))
    if bare:
        return Event(name, b"\n".join(bare), end, stray, framed=False)
    return Event(name, None, end, stray) if name or stray else None
