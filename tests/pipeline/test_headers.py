"""What the headers of an exchange say."""

import pytest

from pipeline.headers import client_note, joined, trace_note
from pipeline.record import ClientNote, TraceNote

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def trace(flags: str) -> TraceNote:
    """Make the trace that all well-formed headers name."""
    return TraceNote(trace_id=TRACE, parent_span_id=SPAN, flags=flags)


TRACES: dict[str, TraceNote | None] = {
    f"00-{TRACE}-{SPAN}-01": trace("01"),
    f" 00-{TRACE}-{SPAN}-00\t": trace("00"),
    f"cc-{TRACE}-{SPAN}-01-what-comes-later": trace("01"),
    f"00-{TRACE}-{SPAN}-01-more": None,
    f"ff-{TRACE}-{SPAN}-01": None,
    f"00-{'0' * 32}-{SPAN}-01": None,
    f"00-{TRACE}-{'0' * 16}-01": None,
    f"00-{TRACE.upper()}-{SPAN}-01": None,
    f"00-{TRACE}-{SPAN}-01\n": trace("01"),
    "": None,
    "x": None,
}


def test_repeated_headers_are_joined() -> None:
    """Names are lower case, repeated values stand in their order, and bytes of any kind are text."""
    pairs = ((b"Via", b"a"), (b"x", b"\xff"), (b"via", b"b"))
    assert joined(pairs) == {"via": "a, b", "x": "\xff"}


@pytest.mark.parametrize("header", TRACES)
def test_a_traceparent(header: str) -> None:
    """A trace is read by the W3C grammar, of later versions too; what is none is unknown."""
    assert trace_note(header) == TRACES[header]


def test_what_the_client_says_of_itself() -> None:
    """Retries, ids and the user agent are read from the headers that clients send."""
    pairs = (
        (b"x-stainless-retry-count", b"2"),
        (b"x-request-id", b"mine"),
        (b"session-id", b" s1 "),
        (b"user-agent", b"agent/1"),
    )
    wanted = ClientNote(retry_count=2, request_id="mine", session_id="s1", user_agent="agent/1")
    assert client_note(joined(pairs), pairs) == wanted


@pytest.mark.parametrize("retries", [b"", b"-1", b"two", b"1.5", "²".encode("latin-1"), b"9" * 10])
def test_retries_that_are_no_count_are_unknown(retries: bytes) -> None:
    """A retry count is up to nine ASCII digits, or it is unknown."""
    pairs = ((b"x-stainless-retry-count", retries),)
    assert client_note(joined(pairs), pairs).retry_count is None


def test_a_session_named_twice_is_none() -> None:
    """Two values of one session header name no session; one value twice does, and an empty one is passed over."""
    twice = ((b"session-id", b"a"), (b"session-id", b"b"))
    same = ((b"session-id", b"a"), (b"session-id", b"a"))
    empty = ((b"x-session-id", b" "), (b"session-id", b"a"))
    found = [client_note(joined(pairs), pairs).session_id for pairs in (twice, same, empty)]
    assert found == [None, "a", "a"]
