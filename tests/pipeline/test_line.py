from pipeline.process import encode, process
from tests.exchanges import JSON_BODY, SERVER, exchange


def test_a_body_stays_the_bytes_it_is_beside_notes_that_are_no_json() -> None:
    """Number text, key order and repeated keys survive where a note, or an answer's number, needs the longer way."""
    body = b'{"a":1.50, "b":1, "a":2}'
    for changes in ({"annotations": {"x": object()}}, {"annotations": {"x": 1 << 80}}):
        raw = exchange("chat", body, request_chunks=(body,), response_headers=JSON_BODY, **changes)
        line = encode(process(raw, SERVER, {}))
        assert line.count(b'"request":' + body) == line.count(b'"response":' + body) == 1
