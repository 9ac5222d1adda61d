from typing import Any

import pytest

from tests.answers import CLOSING, ENVELOPE, MESSAGE, Json, odd, unstreamed
from tests.exchanges import delta, events, record


def message(fields: Json, choice: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """Return the message of one choice."""
    return fields["response"]["choices"][choice]["message"]


def part(kind: str, index: int, at: int, piece: str) -> Json:
    """Make a Responses delta for part `at` of item `index`."""
    return {"type": f"response.{kind}.delta", "output_index": index, "content_index": at, "delta": piece}


def block(index: int, **fields: object) -> Json:
    """Make a Messages event that opens a block."""
    return {"type": "content_block_start", "index": index, "content_block": fields}


def grow(index: int, kind: str, member: str, piece: object) -> Json:
    """Make a Messages delta."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", member: piece}}


def messages(*made: Json) -> bytes:
    """Write a Messages stream around these events."""
    return events({"type": "message_start", "message": MESSAGE}, *made, *CLOSING["messages"][1:])


def responses(*made: Json) -> bytes:
    """Write a Responses stream around these events."""
    return events({"type": "response.created", "response": ENVELOPE}, *made, *CLOSING["responses"])


def test_choices_items_and_blocks_never_mix() -> None:
    """Case 10: text goes to the choice, the part of an item or the block that its index names, in any order."""
    both = delta(index=0, content=".")
    both["choices"] += delta(index=1, content="!")["choices"]
    made = [delta(index=1, content="B"), delta(index=0, content="A"), both, delta("length", index=1)]
    fields = record("chat", events(*made, delta("stop"), done=True))
    assert [message(fields, at)["content"] for at in (0, 1)] == ["A.", "B!"]
    assert [choice["finish_reason"] for choice in fields["response"]["choices"]] == ["stop", "length"]
    order = [(1, 0), (0, 1), (0, 0), (1, 0), (0, 1)]
    pieces = [part("output_text", index, at, f"{index}{at}") for index, at in order]
    output = record("responses", responses(*pieces))["response"]["output"]
    assert [[one["text"] for one in item["content"]] for item in output] == [["00", "0101"], ["1010"]]
    blocks = [block(index, type="text", text="") for index in (1, 0)]
    mixed = [grow(index, "text", "text", str(index)) for index in (1, 0, 1)]
    content = record("messages", messages(*blocks, *mixed))["response"]["content"]
    assert [one["text"] for one in content] == ["0", "11"]


THINKING: dict[str, tuple[list[Json], list[Json]]] = {
    "(a) cut": (
        [block(0, type="thinking", thinking=""), *(grow(0, "thinking", "thinking", t) for t in ("ab", "cd"))],
        [{"type": "thinking", "thinking": "abcd"}],
    ),
    "(b) signature without text": (
        [
            block(0, type="thinking", thinking="", signature=""),
            grow(0, "signature", "signature", "S1"),
            block(1, type="text", text="x"),
        ],
        [{"type": "thinking", "thinking": "", "signature": "S1"}, {"type": "text", "text": "x"}],
    ),
    "(c) redacted between texts": (
        [
            block(0, type="text", text="a"),
            block(1, type="redacted_thinking", data="R1"),
            block(2, type="text", text="b"),
        ],
        [
            {"type": "text", "text": "a"},
            {"type": "redacted_thinking", "data": "R1"},
            {"type": "text", "text": "b"},
        ],
    ),
    "(d) two signatures": (
        [
            event
            for at in (0, 1)
            for event in (block(at, type="thinking"), grow(at, "signature", "signature", f"S{at}"))
        ],
        [{"type": "thinking", "signature": "S0"}, {"type": "thinking", "signature": "S1"}],
    ),
}


@pytest.mark.parametrize("name", THINKING)
def test_thinking_and_signatures(name: str) -> None:
    """Case 11: each block keeps its text, its signature and its place, also where the stream is cut behind it."""
    made, content = THINKING[name]
    cut = record("messages", events({"type": "message_start", "message": MESSAGE}, *made))
    assert (cut["error_category"], cut["complete"]) == ("stream_truncated", False)
    for fields in (cut, record("messages", messages(*made))):
        assert fields["response"]["content"] == content
        assert odd(fields) == set()


def test_signatures_in_the_other_dialects() -> None:
    """Case 11's siblings: encrypted reasoning without text, and signed details, are kept with their order."""
    item = {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "E1"}
    made = [{"type": "response.output_item.done", "output_index": 0, "item": item}]
    assert record("responses", responses(*made))["response"]["output"] == [item]
    details = [
        {"type": "reasoning.text", "text": "", "signature": "S", "index": 0},
        {"type": "reasoning.encrypted", "data": "E", "index": 1},
    ]
    body = events(*(delta(reasoning_details=[one]) for one in details), delta("stop"), done=True)
    assert message(record("chat", body))["reasoning_details"] == details


RENAMED = ({"reasoning": "A"}, {"reasoning_content": "B"}, {"reasoning": "C", "reasoning_content": "C"})
OTHERS = ({"content": ""}, {"reasoning": None, "content": "x"})


def test_reasoning_whatever_it_is_called() -> None:
    """Case 12: reasoning under two names, apart or together, streamed or whole, is told once and in order."""
    body = events(*(delta(**one) for one in (*RENAMED, *OTHERS)), delta("stop"), done=True)
    fields = record("chat", body)
    assert (fields["reasoning_content"], message(fields)["content"]) == ("ABC", "x")
    whole = {"choices": [{"index": 0, "message": {"content": "x", **RENAMED[2]}, "finish_reason": "stop"}]}
    assert unstreamed("chat", events(whole)[6:-2])["reasoning_content"] == "C"
    for kind in ("reasoning_text", "reasoning_summary_text", "reasoning", "reasoning_summary"):
        pieces = [part(kind, 0, 0, piece) for piece in "AB"]
        assert record("responses", responses(*pieces))["reasoning_content"] == "AB"


def test_lists_grow_in_every_dialect() -> None:
    """Case 13: log probabilities and token ids of later chunks are appended, and told in `tokens`."""
    entries: list[Any] = [
        [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -2}],
        [{"token": "c", "logprob": 0}],
        None,
        [{"token": "d", "logprob": -4.5}],
    ]
    chunks = [delta(refusal=text) for text in ("No", "pe", "", "")]
    for chunk, content, ids in zip(chunks, entries, ([1], [2, 3], None, [4]), strict=True):
        choice = chunk["choices"][0]
        choice["logprobs"] = {"content": content}
        choice |= {} if ids is None else {"token_ids": ids}
    chunks[0]["prompt_token_ids"] = [7, 8]
    fields = record("chat", events(*chunks, {**delta("stop"), "unheard": {"of": [1]}}, done=True))
    choice = fields["response"]["choices"][0]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == list("abcd")
    assert (choice["token_ids"], message(fields)["refusal"]) == ([1, 2, 3, 4], "Nope")
    logprobs = [-1.0, -2.0, 0.0, -4.5]
    assert fields["tokens"] == {"prompt_ids": [7, 8], "output_ids": [1, 2, 3, 4], "logprobs": logprobs}
    assert fields["response"]["unheard"] == {"of": [1]}
    texts = [{**part("output_text", 0, 0, "x"), "logprobs": content} for content in entries]
    assert record("responses", responses(*texts))["tokens"] == {"logprobs": logprobs}
    cited = [grow(0, "citations", "citation", {"n": number}) for number in (1, 2)]
    block_0 = record("messages", messages(block(0, type="text", text=""), *cited))["response"]["content"][0]
    assert [one["n"] for one in block_0["citations"]] == [1, 2]


def test_audio_and_refusals_are_appended() -> None:
    """S6: audio, transcript and refusal grow, and the last chunk erases nothing, in chat and in Responses."""
    audio = ({"id": "au", "data": "QU", "transcript": "he"}, {"data": "JD", "transcript": "y"})
    body = events(*(delta(audio=one) for one in audio), delta("stop", audio={"expires_at": 9}), done=True)
    whole = {"id": "au", "data": "QUJD", "transcript": "hey", "expires_at": 9}
    assert message(record("chat", body))["audio"] == whole
    made = [{"type": "response.audio.delta", "delta": piece} for piece in ("QU", "JD")]
    made += [{"type": "response.audio.transcript.delta", "delta": piece} for piece in ("he", "y")]
    made += [{"type": "response.audio.done"}, {"type": "response.audio.transcript.done"}]
    said = part("output_text", 0, 0, "hey")
    content = record("responses", responses(said, *made))["response"]["output"][0]["content"]
    assert content[1] == {"type": "output_audio", "data": "QUJD", "transcript": "hey"}
    refused = [part("refusal", 0, 0, piece) for piece in ("No", "pe")]
    content = record("responses", responses(*refused))["response"]["output"][0]["content"]
    assert content == [{"type": "refusal", "refusal": "Nope"}]


def test_what_nobody_has_heard_of_is_kept() -> None:
    """S7: unknown members of last events, deltas, choices and items are in the response, first or last event."""
    last = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "container": {"id": "c"}},
        "more": 1,
    }
    deltas = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "a", "n": n},
        }
        for n in (1, 2)
    ]
    fields = record("messages", messages(block(0, type="thinking", thinking="", x=0), *deltas, last))
    assert (fields["response"]["container"], fields["response"]["more"]) == ({"id": "c"}, 1)
    assert fields["response"]["content"] == [{"type": "thinking", "thinking": "aa", "x": 0, "n": 2}]
    first, final = delta(content="a", x=[1]), delta("stop", x=[2], y="z")
    first["choices"][0]["info"], final["choices"][0]["info"] = {"a": 1}, {"b": 2}
    fields = record("chat", events(first, {**final, "top": True}, done=True))
    assert message(fields) == {"content": "a", "x": [1, 2], "y": "z"}
    assert fields["response"]["choices"][0]["info"] == {"a": 1, "b": 2}
    assert fields["response"]["top"] is True
    item = {"type": "message", "content": [], "x": {"y": 1}}
    opened = {"type": "response.output_item.added", "output_index": 0, "item": item}
    assert record("responses", responses(opened))["response"]["output"][0]["x"] == {"y": 1}


def test_a_whole_message_at_the_end_of_a_stream() -> None:
    """A last chunk with the whole message in a delta's place repeats nothing, with its calls and reasoning."""
    call = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    pieces = [delta(content="Hel", reasoning="hm"), delta(content="lo", tool_calls=[{**call, "index": 0}])]
    whole = {"role": "assistant", "content": "Hello", "reasoning": "hm", "tool_calls": [call]}
    last = {"choices": [{"index": 0, "message": whole, "finish_reason": "stop"}]}
    for made in ([*pieces, last], [last]):
        fields = record("chat", events(*made, done=True))
        assert (message(fields), fields["reasoning_content"]) == (whole, "hm")
    more = [{"choices": [{"index": 0, "message": {"content": text}}]} for text in ("a", "b")]
    assert message(record("chat", events(*more, delta("stop"), done=True)))["content"] == "ab"
