"""Tool input of a message that is no JSON, or only its beginning."""

from typing import Any

import pytest

from tests.exchanges import named, record

START = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}
CUT = ({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, {"type": "message_stop"})


def call(index: int, text: str, kind: str = "tool_use") -> list[dict[str, Any]]:
    """Make the events of a call whose input is this text, in two pieces."""
    opened = {"type": kind, "id": f"c{index}", "name": "f", "input": {}}
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in (text[:3], text[3:])]
    return [
        {"type": "content_block_start", "index": index, "content_block": opened},
        *({"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces),
        {"type": "content_block_stop", "index": index},
    ]


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
@pytest.mark.parametrize(("text", "whole"), [('{"a":', {}), ('{"a":1,"b":"x', {"a": 1}), ("no", "no")])
def test_input_that_was_cut_is_what_is_whole_of_it(text: str, whole: Any, kind: str) -> None:  # noqa: ANN401
    """Input cut by a token limit is an object of its whole members, as the SDK has it; the call keeps the text."""
    fields = record("messages", named(START, *call(0, text, kind), *CUT))
    assert fields["response"]["content"][0]["input"] == whole
    assert fields["tool_calls"][0]["arguments"] == text
    assert (fields["finish"], fields["complete"], fields["flags"]) == ("length", True, ["invalid_arguments"])


def test_each_call_keeps_its_own_input() -> None:
    """Behind a whole call and a block of text, the text of a cut one is its own; a stream that just stops says so."""
    text = {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "then"}}
    events = [*call(0, '{"a":1}'), text, *call(2, '{"b":[2,'), *call(3, "")]
    fields = record("messages", named(START, *events))
    assert [made["arguments"] for made in fields["tool_calls"]] == [{"a": 1}, '{"b":[2,', {}]
    assert [block.get("input") for block in fields["response"]["content"]] == [{"a": 1}, None, {"b": [2]}, {}]
    assert (fields["error_category"], fields["response_raw"]) == ("stream_truncated", None)
