import json

import pytest

from pipeline.request import SAMPLING
from tests.exchanges import delta, events, record

STREAM = events(delta("stop", content="a"), done=True)


def test_everything_that_steers_sampling_is_kept_as_it_came() -> None:
    """Each listed member is in `sampling`, whatever its value; what the call is about is not."""
    asked = {name: {"n": number} for number, name in enumerate(SAMPLING)}
    body = json.dumps({**asked, "model": "m", "messages": [], "tools": [], "input": "x", "temperature": None})
    fields = record("chat", STREAM, request_chunks=(body.encode(),))
    assert fields["sampling"] == {**asked, "temperature": None}
    assert record("chat", STREAM, request_chunks=(b'{"model":"m"}',))["sampling"] is None


TRACES = {
    b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": True,
    b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes-later": True,
    b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": True,
    b" 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00 ": True,
    b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more": False,
    b"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": False,
    b"00-00000000000000000000000000000000-b7ad6b7169203331-01": False,
    b"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": False,
    b"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": False,
    b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more": False,
    b"": False,
}


@pytest.mark.parametrize("header", TRACES)
def test_only_valid_traces_are_told(header: bytes) -> None:
    """W3C Trace Context: ids of zeros, version ff and version 00 with more behind it are invalid."""
    trace = record("chat", STREAM, request_headers=((b"traceparent", header),))["trace"]
    assert (trace is not None) is TRACES[header]
    if trace:
        assert trace["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
        assert trace["parent_span_id"] == "b7ad6b7169203331"
