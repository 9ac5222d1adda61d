from typing import Any

import pytest

from tests.answers import stream
from tests.exchanges import EVENT_STREAM, JSON_BODY, delta, events, record


def message(fields: dict[str, Any], choice: int = 0) -> dict[str, Any]:
    """Return the message of one choice of the response."""
    found: dict[str, Any] = fields["response"]["choices"][choice]["message"]
    return found


def test_a_plain_stream_is_the_completion_it_would_have_been() -> None:
    """Text, ids, model, usage and finish reason of a usual stream, and nothing odd about it."""
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    body = events(
        delta(role="assistant", content=""),
        delta(content="Hel"),
        delta(content="lo"),
        delta("stop"),
        {"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage},
        done=True,
    )
    fields = record("chat", body)
    assert fields["response"] == {
        "id": "c1",
        "object": "chat.completion",
        "created": 5,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}
        ],
        "usage": usage,
    }
    assert (fields["finish"], fields["finish_reason"], fields["complete"]) == ("stop", "stop", True)
    assert (fields["usage"]["input_tokens"], fields["usage"]["output_tokens"]) == (10, 2)
    assert (fields["response_id"], fields["model_served"], fields["choices"]) == ("c1", "m", 1)
    assert (fields["flags"], fields["error_category"], fields["response_raw"]) == ([], None, None)


@pytest.mark.parametrize("first", [0, 1])
def test_choices_never_mix(first: int) -> None:
    """Every choice is its own answer, whichever comes first, also two in one chunk; usage counts once."""
    both = delta(index=0, content=".")
    both["choices"] += delta(index=1, content="!")["choices"]
    parts = [delta(index=0, content="AA"), delta(index=1, content="BB")]
    body = events(
        *(parts if first == 0 else parts[::-1]),
        delta(index=0, content=" aa"),
        delta(index=1, content=" bb"),
        both,
        delta("length", index=1),
        {**delta("stop", index=0), "usage": {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}},
        done=True,
    )
    fields = record("chat", body)
    assert [message(fields, at)["content"] for at in (0, 1)] == ["AA aa.", "BB bb!"]
    assert [choice["finish_reason"] for choice in fields["response"]["choices"]] == ["stop", "length"]
    assert (fields["choices"], fields["finish"], fields["usage"]["output_tokens"]) == (2, "stop", 9)


def test_a_choice_without_index_is_choice_0() -> None:
    """A missing index is read as 0 and flagged."""
    fields = record("chat", events(delta(index=None, content="a"), delta("stop", content="b"), done=True))
    assert message(fields)["content"] == "ab"
    assert fields["flags"] == ["choice_without_index"]


def test_reasoning_under_two_names_is_kept_once_in_order() -> None:
    """A field renamed in mid-stream, or sent twice, gives the reasoning once; both members stay in the response."""
    deltas = (
        {"reasoning": "A"},
        {"reasoning_content": "B"},
        {"reasoning": "C", "reasoning_content": "C"},
        {"content": ""},
        {"reasoning": None, "content": "x"},
    )
    fields = record("chat", events(*(delta(**one) for one in deltas), delta("stop"), done=True))
    assert fields["reasoning_content"] == "ABC"
    assert message(fields) == {"reasoning": "AC", "reasoning_content": "BC", "content": "x"}
    whole = {
        "choices": [{"index": 0, "message": {"content": "x", "reasoning": "R"}, "finish_reason": "stop"}]
    }
    assert record("chat", events(whole)[6:-2], response_headers=JSON_BODY)["reasoning_content"] == "R"


def test_lists_grow_and_never_replace() -> None:
    """Log probabilities and token ids of every chunk are kept in order; refusal text is appended."""
    entries = [[{"token": "a"}, {"token": "b"}], [{"token": "c"}], None, [{"token": "d"}]]
    ids = [[1], [2, 3], None, [4]]
    chunks = [delta() for _ in entries]
    for chunk, content, tokens in zip(chunks, entries, ids, strict=True):
        choice = chunk["choices"][0]
        choice["logprobs"] = {"content": content, "refusal": None}
        choice |= {} if tokens is None else {"token_ids": tokens}
    chunks[0]["prompt_token_ids"] = [7, 8]
    chunks[1]["choices"][0]["delta"]["refusal"] = "No"
    chunks[2]["choices"][0]["delta"]["refusal"] = "pe"
    fields = record("chat", events(*chunks, delta("stop"), done=True))
    choice = fields["response"]["choices"][0]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == list("abcd")
    assert (choice["token_ids"], fields["response"]["prompt_token_ids"]) == ([1, 2, 3, 4], [7, 8])
    assert (choice["message"]["refusal"], fields["finish"]) == ("Nope", "refusal")


def test_content_that_is_a_list_of_parts() -> None:
    """Parts of one kind grow together, text behind them becomes a part; thinking parts are the reasoning."""
    think = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in ("2+2", " is 4")]
    body = events(
        delta(content=""),
        delta(content=[think[0]]),
        delta(content=[think[1]]),
        delta(content="4"),
        delta("stop", content="."),
        done=True,
    )
    fields = record("chat", body)
    assert message(fields)["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "2+2 is 4"}]},
        {"type": "text", "text": "4."},
    ]
    assert fields["reasoning_content"] == "2+2 is 4"


def test_reasoning_details_with_and_without_index() -> None:
    """A detail that goes on is joined, signature and all; another type or index is another detail."""
    details = (
        {"type": "reasoning.text", "text": "a", "format": "f", "index": 0},
        {"type": "reasoning.text", "text": "b", "format": "f", "index": 0, "signature": "S"},
        {"type": "reasoning.encrypted", "data": "E", "index": 1},
    )
    expected = [{**details[0], "text": "ab", "signature": "S"}, details[2]]
    fields = record(
        "chat", events(*(delta(reasoning_details=[one]) for one in details), delta("stop"), done=True)
    )
    assert message(fields)["reasoning_details"] == expected
    bare = [{key: value for key, value in one.items() if key != "index"} for one in details]
    fields = record(
        "chat", events(*(delta(reasoning_details=[one]) for one in bare), delta("stop"), done=True)
    )
    assert message(fields)["reasoning_details"] == [
        {key: value for key, value in one.items() if key != "index"} for one in expected
    ]


def test_audio_and_annotations_are_appended() -> None:
    """Audio data and transcript grow, its last member stays; annotations without index are all kept."""
    body = events(
        delta(audio={"id": "au", "data": "QU", "transcript": "he"}),
        delta(audio={"data": "JD", "transcript": "y"}, annotations=[{"type": "url_citation", "n": 1}]),
        delta("stop", audio={"expires_at": 9}, annotations=[{"type": "url_citation", "n": 2}]),
        done=True,
    )
    found = message(record("chat", body))
    assert found["audio"] == {"id": "au", "data": "QUJD", "transcript": "hey", "expires_at": 9}
    assert [one["n"] for one in found["annotations"]] == [1, 2]


def test_labels_repeated_on_every_chunk_are_kept_once() -> None:
    """A role, or another label that a server repeats, is not appended."""
    body = events(
        *(delta(role="assistant", channel="final", content=text) for text in "ab"), delta("stop"), done=True
    )
    assert message(record("chat", body)) == {"role": "assistant", "channel": "final", "content": "ab"}


def test_usage_is_a_report_and_filters_change_nothing() -> None:
    """Running totals are not summed; null usage, filter chunks and empty choices are harmless."""

    def usage(tokens: int) -> dict[str, int]:
        return {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}

    filtered = {
        "id": "",
        "object": "",
        "created": 0,
        "model": "",
        "choices": [],
        "prompt_filter_results": [{}],
    }
    no_delta = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "content_filter_results": {}}],
    }
    body = events(
        filtered,
        no_delta,
        *({**delta(content="x"), "usage": usage(tokens)} for tokens in (1, 2, 3)),
        {**delta("stop"), "usage": None},
        *({"choices": [], "usage": usage(3)} for _ in range(2)),
        done=True,
    )
    fields = record("chat", body)
    assert fields["response"]["usage"] == usage(3)
    assert (fields["response"]["id"], fields["response"]["model"], fields["response"]["created"]) == (
        "c1",
        "m",
        5,
    )
    assert fields["response"]["prompt_filter_results"] == [{}]
    assert fields["flags"] == []


def test_usage_in_an_extension_is_found() -> None:
    """Usage that a vendor sends in a member of its own is read from there."""
    own = {"id": "r"}, {"usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}}
    body = events({**delta(content="a"), "x_groq": own[0]}, {**delta("stop"), "x_groq": own[1]}, done=True)
    fields = record("chat", body)
    assert fields["response"]["x_groq"] == {**own[0], **own[1]}
    assert fields["usage"]["total_tokens"] == 5
    last = delta("stop")
    last["choices"][0]["usage"] = own[1]["usage"]
    assert record("chat", events(delta(content="a"), last, done=True))["usage"]["total_tokens"] == 5


ENDS: dict[str, tuple[bytes, bool, str | None, list[str]]] = {
    "deltas, then nothing": (events(delta(content="a")), False, "stream_truncated", []),
    "finish reason, no end mark": (events(delta("stop", content="a")), True, None, ["no_done"]),
    "end mark, no finish reason": (events(delta(content="a"), done=True), True, None, ["no_finish_reason"]),
    "empty finish reason": (events(delta("", content="a"), done=True), True, None, ["no_finish_reason"]),
    "one of two choices never finished": (
        events(delta("stop", content="a"), delta(index=1, content="b")),
        False,
        "stream_truncated",
        [],
    ),
    "no event at all": (b"", False, "stream_truncated", []),
    "only the end mark": (events(done=True), False, "stream_truncated", []),
    "end mark without its empty line": (
        events(delta("stop", content="a")) + b"data: [DONE]",
        True,
        None,
        ["unterminated_event"],
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_stream_ends(name: str) -> None:
    """Only an end mark or a finish reason on every choice makes an answer complete."""
    body, complete, category, flags = ENDS[name]
    fields = record("chat", body, response_headers=EVENT_STREAM)
    assert (fields["complete"], fields["error_category"], fields["flags"]) == (complete, category, flags)


ERROR = {"code": 502, "message": "lost", "metadata": {"error_type": "provider_unavailable"}}
ERRORS: dict[str, bytes] = {
    "beside choices": events({**delta("error", content=""), "error": ERROR}),
    "beside empty choices": events({"id": "c1", "choices": [], "error": ERROR}),
    "instead of a chunk": events({"error": ERROR}),
    "as a named event": b"event: error\n" + events({"error": ERROR}),
    "as a named event without the member": b"event: error\n" + events(ERROR),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("before", [b"", events(delta(content="Hel"))])
def test_an_error_inside_a_stream(name: str, before: bytes) -> None:
    """An error in a 200 is an error whatever follows it; what came before it is kept."""
    after = events({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}, done=True)
    fields = record("chat", before + ERRORS[name] + after)
    assert (fields["error_category"], fields["complete"], fields["status_code"]) == (
        "upstream_error",
        False,
        200,
    )
    assert (fields["error"]["code"], fields["error"]["message"]) == (502, "lost")
    assert fields["error"]["source"] == "provider"
    assert fields["response"]["error"] == ERROR
    if before:
        assert message(fields)["content"].startswith("Hel")


@pytest.mark.parametrize("other", ["responses", "messages"])
def test_a_stream_of_another_api_is_never_lost(other: str) -> None:
    """Under the chat path the pieces of another API's answer cannot be merged, so the bytes are kept and flagged."""
    fields = record("chat", stream(other, "Hello, ", "you"))
    assert (fields["complete"], fields["flags"]) == (False, ["unknown_event"])
    assert all(piece in fields["response_raw"] for piece in ("Hello, ", "you"))
