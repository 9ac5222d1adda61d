import re
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.flags import FLAGS, Kind, is_lossy
from tests.exchanges import JSON_BODY, delta, events, named, record, zipped

STOP = delta("stop", content="a")
CALL = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
GZIP = ((b"content-encoding", b"gzip"),)
BAD_CODING = ((b"content-encoding", b"x"),)
START = {"type": "message_start", "message": {"content": []}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
SIGNED = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "b"}}
STOPPED = {"type": "message_stop"}
ITEM = {"type": "response.output_item.done", "output_index": 0, "item": {"type": "message"}}
COMPLETED = {"type": "response.completed", "response": {"id": "r"}}
GZIPPED = zipped(b"{}")
CREATED = {"type": "response.created", "response": {"id": "r"}}


def chat(*chunks: object, done: bool = True) -> tuple[str, bytes, dict[str, Any]]:
    """Make a row with a chat stream."""
    return "chat", events(*chunks, done=done), {}


def asked(body: bytes, **changes: object) -> tuple[str, bytes, dict[str, Any]]:
    """Make a row with a request body."""
    return "chat", events(STOP, done=True), {"request_chunks": (body,), **changes}


def answered(body: bytes, **changes: object) -> tuple[str, bytes, dict[str, Any]]:
    """Make a row with an unstreamed response body."""
    return "chat", body, {"response_headers": JSON_BODY, **changes}


HALVES = (
    r'{"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}',
    r'{"choices":[{"index":0,"delta":{"content":"\ude00"},"finish_reason":"stop"}]}',
)
ROWS: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "request_body_cut": asked(b"{}", request_sha256=b"x"),
    "response_body_cut": answered(b"{}", response_sha256=b"x"),
    "undecodable_request": asked(b"{"),
    "undecodable_response": answered(b"{"),
    "request_not_object": asked(b"[]"),
    "response_not_object": answered(b"[]"),
    "lenient_request": asked(b'{"a":NaN}'),
    "lenient_response": answered(b'{"a":NaN}'),
    "request_encoded": asked(GZIPPED, request_headers=GZIP),
    "response_encoded": answered(GZIPPED, response_headers=GZIP),
    "byte_order_mark": answered(b"\xef\xbb\xbf{}"),
    "surrogates_joined": chat(*HALVES),
    "content_type_mismatch": ("chat", events(STOP, done=True), {"response_headers": JSON_BODY}),
    "undecodable_event": chat(STOP, "{"),
    "stray_line": ("chat", b"<html>\n" + events(STOP, done=True), {}),
    "unterminated_event": ("chat", events(STOP, done=True)[:-1], {}),
    "unframed_event": ("chat", b'error: {"message":"x"}\n\n', {}),
    "empty_event": chat(STOP, ""),
    "unknown_event": ("messages", named(START, {"type": "x"}, STOPPED), {}),
    "sequence_gap": (
        "responses",
        named({**CREATED, "sequence_number": 0}, {**COMPLETED, "sequence_number": 2}),
        {},
    ),
    "no_done": chat(STOP, done=False),
    "no_finish_reason": chat(delta(content="a")),
    "no_stop_event": (
        "messages",
        named(START, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        {},
    ),
    "after_terminal": ("messages", named(START, STOPPED, STOPPED), {}),
    "repeated_start": ("messages", named(START, {**START, "message": {"id": "b"}}, STOPPED), {}),
    "duplicate_start": ("messages", named(START, START, STOPPED), {}),
    "unopened_item": ("messages", named(START, TEXT, STOPPED), {}),
    "late_delta": (
        "messages",
        named(START, BLOCK, {"type": "content_block_stop", "index": 0}, TEXT, STOPPED),
        {},
    ),
    "repeated_index": ("messages", named(START, BLOCK, BLOCK, STOPPED), {}),
    "signature_replaced": (
        "messages",
        named(START, {**BLOCK, "content_block": {"type": "thinking", "signature": "a"}}, SIGNED, STOPPED),
        {},
    ),
    "unexpected_shape": chat({"choices": [7]}, STOP),
    "items_recovered": ("responses", named(ITEM, COMPLETED), {}),
    "choice_without_index": chat(delta("stop", index=None)),
    "tool_index_missing": chat(delta("tool_calls", tool_calls=[{**CALL, "index": None}])),
    "tool_index_shared": chat(delta("tool_calls", tool_calls=[CALL, {**CALL, "id": "b"}])),
    "tool_name_repeated": chat(
        delta(tool_calls=[CALL]), delta("tool_calls", tool_calls=[{"index": 0, "function": {"name": "f"}}])
    ),
    "identity_changed": chat(delta(content="a"), {**STOP, "id": "c2"}),
    "invalid_arguments": chat(delta("tool_calls", tool_calls=[{**CALL, "function": {"arguments": "{"}}])),
    "bad_usage_value": chat({**STOP, "usage": {"prompt_tokens": "3"}}),
    "double_start": ("chat", events(STOP, done=True), {"double_start": True}),
}


@pytest.mark.parametrize("flag", ROWS)
def test_each_flag_is_set_by_its_own_oddity(flag: str) -> None:
    """One oddity sets its flag and no other, and the raw bytes are kept exactly where the flag is a lossy one."""
    dialect, body, changes = ROWS[flag]
    fields = record(dialect, body, **changes)
    assert fields["flags"] == [flag]
    for side in ("request", "response"):
        raw = fields[f"{side}_raw"] or fields[f"{side}_raw_b64"]
        assert (raw is not None) == is_lossy([flag], side)


def test_the_list_is_closed() -> None:
    """Every flag has its row here and a literal in the source; only the fallback's own is shown elsewhere."""
    assert set(FLAGS) == {*ROWS, "capture_parse_error"}
    folder = Path(pipeline.__file__).parent
    source = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "flags.py")
    literals = set(re.findall(r'"([a-z_]+)"', source))
    assert set(FLAGS) <= literals


def test_every_flag_says_what_it_means() -> None:
    """Meanings are sentences, and both kinds occur."""
    assert all(row.meaning.endswith(".") for row in FLAGS.values())
    assert {row.kind for row in FLAGS.values()} == set(Kind)
