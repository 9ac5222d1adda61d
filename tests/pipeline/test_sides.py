"""What is the same for both sides of an exchange."""

import gzip

import pytest

from pipeline.flags import FLAGS
from pipeline.sides import REQUEST, RESPONSE, Side, open_body, read_object

SIDES = pytest.mark.parametrize("side", [REQUEST, RESPONSE])


@SIDES
def test_every_name_is_a_flag_of_the_side(side: Side) -> None:
    """The names of a side's flags are in the closed list, and belong to that side."""
    rows = [FLAGS[name] for name in side]
    assert {row.side for row in rows} == {"request" if side is REQUEST else "response"}


@SIDES
def test_a_coding_is_undone(side: Side) -> None:
    """An encoded body is given without its coding, by as many chunks; one that cannot be stays as it came."""
    packed = gzip.compress(b'{"a":1}')
    body = open_body((packed[:9], packed[9:]), side, "gzip", cut=False)
    assert (b"".join(body.chunks), body.raw, body.flags, body.plain) == (
        b'{"a":1}',
        b'{"a":1}',
        {side.encoded},
        True,
    )
    assert len(body.chunks) == 2
    odd = open_body((packed,), side, "no-such-coding", cut=True)
    assert (odd.raw, odd.flags, odd.plain) == (packed, {side.cut, side.undecodable}, False)


READ = {
    b'{"a": 1}': ({"a": 1}, b'{"a": 1}', ()),
    b'{"a":\n1}': ({"a": 1}, b'{"a":1}', ()),
    b'\xef\xbb\xbf{"a":1}': ({"a": 1}, {"a": 1}, ("byte_order_mark",)),
    b'{"a":NaN}': ({"a": "NaN"}, {"a": "NaN"}, ("lenient",)),
    b"[1]": ([1], b"[1]", ("no_object",)),
    b"{": (None, None, ("undecodable",)),
}


@SIDES
@pytest.mark.parametrize("raw", READ)
def test_a_body_is_read_as_an_object(side: Side, raw: bytes) -> None:
    """A strict object is stored as its very bytes, line ends apart; anything else as its value, and flagged."""
    value, stored, names = READ[raw]
    body = open_body((raw,), side, None, cut=False)
    found, kept = read_object(body, side)
    assert (found, kept if kept is None or not isinstance(stored, bytes) else bytes(kept)) == (value, stored)
    assert body.flags == {getattr(side, name, name) for name in names}
