"""What crosses a worker's pipes."""

import io

import pytest

from pipeline import frames
from pipeline.exchange import Annotation, Correlation, Failure, RawExchange
from pipeline.frames import Answer, FrameError, GapNote, Introduction
from pipeline.gaps import Gap
from pipeline.settings import PipelineSettings, ServerIdentity


def exchange(**changes: object) -> RawExchange:
    """Make an exchange with every kind of member set."""
    members: dict[str, object] = {
        "call_id": b"i" * 16,
        "seq": 3,
        "rollout_id": "a/b",
        "stem": "s",
        "dialect": "chat",
        "correlation": Correlation("prefix", "a/b", "other"),
        "method": "POST",
        "path": "/v1/chat/completions",
        "query": "beta=true",
        "request_headers": ((b"content-type", b"application/json"),),
        "started_at": 1.5,
        "ended_ns": 10,
        "failure": Failure("builtins.ValueError", "no", "app", 502),
        "request_chunks": (b"ab", b"c"),
        "response_chunks": (b"12", b"", b"3", b"4567"),
        "response_times_s": (4.25, 4.375, 4.5, 4.75),
        "zero_s": 4.0,
        "annotations": {"a": [1, None, "x"]},
        "request_bytes": 3,
        "response_bytes": 7,
    }
    return RawExchange(**{**members, **changes})  # type: ignore[arg-type]


CARGOES = [
    Introduction(PipelineSettings(directory="/d"), ServerIdentity("n", "i", "h", 1)),
    Annotation(call_id=b"i" * 16, stem="s", events=[{"name": "x"}]),
    GapNote("s", Gap(model_call_id="0" * 32, code="dropped")),
]


@pytest.mark.parametrize("cargo", CARGOES, ids=lambda cargo: type(cargo).__name__)
def test_cargo_round_trip(cargo: frames.Cargo) -> None:
    """Every kind of cargo comes out as it went in."""
    data = io.BytesIO(b"".join(frames.pack(cargo, 9, frames.RESENT)))
    assert frames.read_frame(data.read) == (9, frames.RESENT, cargo)
    assert frames.read_frame(data.read) is None


def test_exchange_round_trip() -> None:
    """An exchange's chunks arrive as sent, times as offsets, empty ones left out; the request is one chunk."""
    sent = exchange()
    data = io.BytesIO(b"".join(frames.pack(sent, 1, 0)))
    frame = frames.read_frame(data.read)
    assert frame is not None
    assert frame.cargo == exchange(
        request_chunks=(b"abc",),
        response_chunks=(b"12", b"3", b"4567"),
        response_times_ns=(250_000_000, 500_000_000, 750_000_000),
        response_times_s=(),
        zero_s=0.0,
    )


def test_bodies_are_not_copied() -> None:
    """The buffers to write are the very chunks that passed the edge."""
    sent = exchange()
    buffers = frames.pack(sent, 1, 0)
    assert [id(part) for part in buffers[3:]] == [
        id(part) for part in (*sent.request_chunks, *sent.response_chunks)
    ]


def test_a_cut_frame_is_the_end() -> None:
    """A server that died in the middle of a frame gives no half exchange, wherever it was cut."""
    whole = b"".join(frames.pack(exchange(), 1, 0))
    for length in range(len(whole)):
        assert frames.read_frame(io.BytesIO(whole[:length]).read) is None


def test_another_format_is_refused() -> None:
    """A frame of another format raises instead of being misread."""
    whole = b"".join(frames.pack(exchange(), 1, 0))
    with pytest.raises(FrameError, match="format"):
        frames.read_frame(io.BytesIO(b"\xff\xff" + whole[2:]).read)


def test_answers_survive_any_cut() -> None:
    """Answers are taken whole, however the pipe cuts them."""
    answers = [Answer(0, frames.HELLO), Answer(5, frames.FAILED, "ENOSPC é"), Answer(6, frames.COMMITTED)]
    whole = b"".join(map(frames.pack_answer, answers))
    for step in (1, 2, 3, 7, len(whole)):
        buffer = bytearray()
        taken = []
        for start in range(0, len(whole), step):
            buffer += whole[start : start + step]
            taken += frames.take_answers(buffer)
        assert taken == answers
        assert not buffer
