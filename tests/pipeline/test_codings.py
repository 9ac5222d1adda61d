import sys
import tracemalloc
import zlib
from importlib import import_module
from importlib.util import find_spec

import pytest

from pipeline.codings import CODINGS as CODECS
from pipeline.codings import DECODED_MAX_BYTES, CodingError, undo
from tests.exchanges import JSON_BODY, cuts, record, zipped
from tests.skips import SKIPS

GZIP_BODY = b'{"model":"m","input":"hi"}'
CODINGS = {
    "gzip": zipped(GZIP_BODY),
    "GZIP": zipped(GZIP_BODY),
    "x-gzip": zipped(GZIP_BODY[:5]) + zipped(GZIP_BODY[5:]),
    "deflate": zlib.compress(GZIP_BODY),
    "Deflate": zlib.compress(GZIP_BODY)[2:-4],
    "gzip, deflate": zlib.compress(zipped(GZIP_BODY)),
    "identity": GZIP_BODY,
    "None": GZIP_BODY,
    "utf-8, , gzip": zipped(GZIP_BODY),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_codings_are_undone_chunk_by_chunk(coding: str) -> None:
    """Every coding gives the body back wherever it is cut, in as many chunks as came."""
    for chunks in cuts(CODINGS[coding]):
        pieces = undo(chunks, coding)
        assert b"".join(pieces) == GZIP_BODY
        assert len(pieces) == len(chunks)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("foo", b"x"),
        ("gzip", b"no gzip"),
        ("deflate", b"\xff\xff"),
        ("gzip", zipped(bytes(DECODED_MAX_BYTES + 1))),
        (", ".join(["gzip"] * 6), b""),
    ],
)
def test_codings_that_cannot_be_undone_are_told(coding: str, body: bytes) -> None:
    """Unknown and damaged codings and bombs raise CodingError, within the bound."""
    with pytest.raises(CodingError):
        undo([body], coding)


def test_a_member_that_fills_the_bound_to_the_byte_lifts_no_bound() -> None:
    """Behind a member of just the bytes that are still allowed, one that expands further is not expanded."""
    body = zipped(bytes(1000)) + zipped(bytes(8 << 20))
    inflate = CODECS["gzip"](b"")
    tracemalloc.start()
    with pytest.raises(CodingError):
        inflate(body, 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_what_follows_the_last_gzip_member_is_passed_over() -> None:
    """Bytes behind the data change nothing, not even when they look like half a member."""
    for chunks in cuts(zipped(GZIP_BODY) + b"\x1ftrailing" * 3):
        assert b"".join(undo(chunks, "gzip")) == GZIP_BODY


def test_a_body_cut_inside_its_coding_gives_what_came() -> None:
    """A stream whose client left is read as far as it went."""
    body = b"".join(b"data: %d\n\n" % number for number in range(5000))
    got = b"".join(undo([zipped(body)[:-3000]], "gzip"))
    assert body.startswith(got)
    assert len(got) > 1000


@pytest.mark.parametrize("name", ["identity", "none", "utf-8"])
def test_a_body_that_is_not_encoded_is_not_flagged_as_such(name: str) -> None:
    """Headers that name no coding change nothing, on either side."""
    headers = (*JSON_BODY, (b"content-encoding", name.encode()))
    fields = record(
        "chat",
        b'{"choices":[]}',
        response_headers=headers,
        request_chunks=(GZIP_BODY,),
        request_headers=headers,
    )
    assert (fields["model_requested"], fields["response"]) == ("m", {"choices": []})
    assert fields["flags"] == []


def test_a_coded_request_is_read_and_one_that_cannot_be_is_kept() -> None:
    """The model is read through gzip; under an unknown coding the bytes stay, and the response is still read."""
    answer = b'{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}'
    headers = ((b"content-encoding", b"gzip"),)
    read = record("chat", answer, request_chunks=(zipped(GZIP_BODY),), request_headers=headers)
    assert (read["model_requested"], read["flags"]) == ("m", ["content_type_mismatch", "request_encoded"])
    odd = record(
        "chat",
        answer,
        request_chunks=(b"\x28\xb5\x2f\xfd",),
        request_headers=((b"content-encoding", b"foo"),),
    )
    assert odd["request_raw_b64"] == "KLUv/Q=="
    assert odd["flags"] == ["content_type_mismatch", "undecodable_request"]
    assert odd["finish"] == "stop"
    assert odd["http"]["request_content_encoding"] == "foo"


COMPRESSORS = {"br": "brotli", "zstd": "zstandard"}
"""Coding to the optional package that does it, both ways."""


@pytest.mark.parametrize("coding", COMPRESSORS)
def test_optional_codings_are_undone_within_the_bound(coding: str) -> None:
    """Br and zstd give the body back wherever it is cut, damage is told, and a bomb stops at the bound."""
    if find_spec(COMPRESSORS[coding]) is None:
        pytest.skip(SKIPS["coding-absent"])
    compress = import_module(COMPRESSORS[coding]).compress
    for chunks in cuts(compress(GZIP_BODY)):
        assert b"".join(undo(chunks, coding)) == GZIP_BODY
    bomb = compress(bytes(DECODED_MAX_BYTES + 1))
    for body in (bomb, b"\xff" * 50):
        with pytest.raises(CodingError):
            undo([body], coding)


def test_several_zstd_frames_are_one_body() -> None:
    """Frames follow each other, frames to be skipped among them, and what is no frame is passed over."""
    if find_spec("zstandard") is None:
        pytest.skip(SKIPS["coding-absent"])
    compress = import_module("zstandard").compress
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    frames = skipped + compress(GZIP_BODY[:5]) + skipped + compress(GZIP_BODY[5:])
    for chunks in (*cuts(frames), *cuts(frames + b"\x28\xb5trailing" * 3)):
        assert b"".join(undo(chunks, "zstd")) == GZIP_BODY


@pytest.mark.parametrize("coding", COMPRESSORS)
def test_a_coding_whose_package_is_absent_keeps_the_bytes(
    coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the package the request is kept as it came, its coding named, and the response is still read."""
    monkeypatch.setitem(sys.modules, COMPRESSORS[coding], None)
    headers = ((b"content-encoding", coding.encode()),)
    fields = record("chat", b'{"choices":[]}', request_chunks=(b"\x28\xb5\x2f\xfd",), request_headers=headers)
    assert (fields["request_raw_b64"], fields["response"]) == ("KLUv/Q==", {"choices": []})
    assert fields["flags"] == ["content_type_mismatch", "undecodable_request"]
