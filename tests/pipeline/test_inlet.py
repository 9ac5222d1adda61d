"""A worker's input, read by the block."""

import os
import threading
from collections.abc import Iterator

import pytest

from pipeline.inlet import BLOCK_BYTES, Inlet


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Give both ends of a pipe; the test closes the writing one."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def write_all(descriptor: int, pieces: list[bytes]) -> threading.Thread:
    """Write pieces one by one from a thread of its own, then close."""

    def work() -> None:
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[os.write(descriptor, left) :]
        os.close(descriptor)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("piece", [1, 7, 4096, BLOCK_BYTES, 3 * BLOCK_BYTES])
def test_exactly_what_is_asked_for(pipe: tuple[int, int], piece: int) -> None:
    """Whatever the writes and the sizes asked for, the bytes come in order and none twice; the end comes short."""
    data = bytes(number % 251 for number in range(5 * BLOCK_BYTES // (1 if piece > 1 else 64)))
    thread = write_all(pipe[1], [data[at : at + piece] for at in range(0, len(data), piece)])
    inlet = Inlet(pipe[0])
    sizes = [1, 40, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 0, 300, 2 * BLOCK_BYTES]
    got = [inlet.read(size) for size in sizes]
    at = 0
    for size, part in zip(sizes, got, strict=True):
        assert part == data[at : at + size]
        at += size
    assert inlet.read(10) == data[at : at + 10]
    assert inlet.read(len(data)) == data[at + 10 :]
    assert inlet.read(1) == b""
    thread.join()


def test_what_was_read_ahead_needs_no_wait(pipe: tuple[int, int]) -> None:
    """Bytes in the block, in the pipe, and the end of the input are there to read; an idle pipe is not."""
    inlet = Inlet(pipe[0])
    assert not inlet.wait(0.0)
    os.write(pipe[1], b"abcd")
    assert inlet.wait(10.0)
    assert inlet.read(2) == b"ab"
    assert inlet.wait(0.0)
    assert inlet.read(2) == b"cd"
    assert not inlet.wait(0.0)
    os.close(pipe[1])
    assert inlet.wait(10.0)
    assert inlet.read(1) == b""
