"""Buffers that a `writev` takes some at a time."""

import pytest

from pipeline.buffers import RUN_BUFFERS, Buffers


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_all_bytes_go_out_in_order(step: int) -> None:
    """However much is taken at a time, across edges and empty buffers, what goes out is what came in."""
    parts = [b"ab", b"", b"c", b"defgh", b"", b"\n"]
    left, out = Buffers(parts), b""
    while left:
        taken = b"".join(map(bytes, left.run()))[:step]
        out += taken
        left.wrote(len(taken))
    assert out == b"".join(parts)


def test_a_run_is_no_longer_than_the_system_takes() -> None:
    """Of more buffers than one call takes, a run has as many as it takes, and the rest come after."""
    left = Buffers([b"x"] * (RUN_BUFFERS + 5))
    assert len(left.run()) == RUN_BUFFERS
    left.wrote(RUN_BUFFERS)
    assert len(left.run()) == 5


def test_nothing_is_copied() -> None:
    """Whole buffers go out as the objects they came in as."""
    part = b"x" * 100
    assert Buffers([part]).run()[0] is part


def test_nothing_left_is_false() -> None:
    """No buffers, or only empty ones, are nothing to write."""
    assert not Buffers([])
    assert not Buffers([b"", b""])
