import json
from typing import Any

import pytest

from tests.answers import odd, unstreamed
from tests.exchanges import delta, events, record

Json = dict[str, Any]


def beside(finish: str | None = None, content: str = "", **fields: object) -> Json:
    """Make a chat chunk whose choice says these things beside its delta."""
    chunk = delta(finish, content=content)
    chunk["choices"][0].update(fields)
    return chunk


def first_choice(fields: Json) -> Json:
    """Return choice 0 of the response."""
    choice: Json = fields["response"]["choices"][0]
    return choice


def test_a_text_that_echoes_the_delta_is_what_it_was_first() -> None:
    """A member that repeats each delta is no answer of its own; its first value counts, also where that is empty."""
    made = [beside(text=piece, content=piece) for piece in ("", "He", "llo")]
    choice = first_choice(record("chat", events(*made, beside("stop", text="", seed=7), done=True)))
    assert (choice["text"], choice["seed"], choice["message"]["content"]) == ("", 7, "Hello")


def test_text_completions_grow_into_the_completion_that_they_stream() -> None:
    """Text in a delta's place is appended, for each choice, with the lists of its log probabilities."""

    def piece(text: str, index: int, finish: str | None = None) -> Json:
        logprobs = {"tokens": [text], "token_logprobs": [-1.0], "top_logprobs": None}
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
        return {"id": "c1", "object": "text_completion", "created": 5, "model": "m", "choices": [choice]}

    made = [piece("He", 0), piece("A", 1), piece("llo", 0, "stop"), piece("B", 1, "length")]
    fields = record("chat", events(*made, done=True))
    logprobs = {"tokens": ["He", "llo"], "token_logprobs": [-1.0, -1.0], "top_logprobs": None}
    assert first_choice(fields) == {
        "index": 0,
        "text": "Hello",
        "logprobs": logprobs,
        "finish_reason": "stop",
    }
    assert fields["response"]["choices"][1]["text"] == "AB"
    assert fields["response"]["object"] == "text_completion"
    assert (fields["choices"], fields["finish"], fields["complete"], fields["flags"]) == (2, "stop", True, [])
    assert fields["timing"]["first_token_ms"] is not None
    assert unstreamed("chat", json.dumps(fields["response"]).encode())["finish"] == "stop"


def test_a_stream_of_chunks_without_any_choice() -> None:
    """Chunks whose lists of choices are all empty amount to a completion without choices, which is not complete."""
    usage = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": []}
    fields = record("chat", events(chunk, {**chunk, "usage": usage}, done=True))
    assert fields["response"] == {**chunk, "object": "chat.completion", "usage": usage}
    assert (fields["choices"], fields["complete"], fields["usage"]["input_tokens"]) == (None, False, 3)


def test_a_finish_reason_that_is_none_stays_verbatim() -> None:
    """A word for "not yet" that no reason follows is in the response, and no reason in the record's words."""
    for word in ("", "null"):
        fields = record("chat", events(delta(word, content="a"), delta(word), done=True))
        assert first_choice(fields)["finish_reason"] == word
        assert (fields["finish_reason"], fields["finish"], odd(fields)) == (None, None, {"no_finish_reason"})
        assert first_choice(record("chat", events(delta(word), delta("stop"))))["finish_reason"] == "stop"


ODD_CHOICES: dict[str, tuple[list[Json], str, Any]] = {
    "log probabilities as a bare list, null before": (
        [beside(logprobs=None), beside(logprobs=[-1.0]), beside(logprobs=[-2.0])],
        "logprobs",
        [-1.0, -2.0],
    ),
    "an object behind nothing": (
        [beside(info={}), beside(info={"a": 1}), beside(info={"b": 2})],
        "info",
        {"a": 1, "b": 2},
    ),
}


@pytest.mark.parametrize("name", ODD_CHOICES)
def test_members_beside_a_delta(name: str) -> None:
    """What a choice says beside its delta is kept whole, whatever its shape."""
    made, member, expected = ODD_CHOICES[name]
    fields = record("chat", events(*made, delta("stop"), done=True))
    assert (first_choice(fields)[member], fields["flags"]) == (expected, [])


UNMERGED: dict[str, list[Json]] = {
    "another type beside the delta": [beside(info={"a": 1}), beside(info=["b"])],
    "log probabilities of another type": [
        beside(logprobs={"content": [{"token": "a"}]}),
        beside(logprobs=[1]),
    ],
    "a delta that is text": [{"choices": [{"index": 0, "delta": "a"}]}],
    "a message that is text": [{"choices": [{"index": 0, "message": "a"}]}],
    "a text that is a list": [{"choices": [{"index": 0, "text": ["a"]}]}],
}


@pytest.mark.parametrize("name", UNMERGED)
def test_what_a_choice_cannot_take_in_is_flagged(name: str) -> None:
    """Shapes that cannot be merged replace nothing and leave the bytes to look at."""
    fields = record("chat", events(*UNMERGED[name], delta("stop", content="x"), done=True))
    assert odd(fields) == {"unexpected_shape"}
    assert first_choice(fields)["message"]["content"] == "x"
    assert fields["response_raw"] is not None


def test_events_of_another_api_that_grow_are_never_lost() -> None:
    """Where events without choices bring more than their first one, the bytes are kept; what repeats is harmless."""
    pieces = [
        {"model": "m", "created_at": at, "message": {"role": "assistant", "content": at}} for at in "ab"
    ]
    fields = record("chat", events(*pieces))
    assert (fields["flags"], fields["complete"]) == (["unknown_event"], False)
    assert '"b"' in fields["response_raw"]
    same = {"id": "c1", "provider": "p", "created": 1}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    made = [delta(content="a"), same, {**same, "created": 2, "id": "c2", "usage": usage}, delta("stop")]
    assert odd(record("chat", events(*made, done=True))) <= {"identity_changed"}


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource", "ERROR"])
def test_a_reason_that_says_error_is_one(reason: str) -> None:
    """An answer that its provider gave up is a failure by any of the words for it, streamed or not."""
    whole = {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": reason}]}
    for fields in (
        record("chat", events(delta(content="a"), delta(reason), done=True)),
        unstreamed("chat", json.dumps(whole).encode()),
    ):
        assert (fields["finish"], fields["finish_reason"]) == ("error", reason)
        assert (fields["error_category"], fields["complete"]) == ("upstream_error", False)


def test_a_detail_of_usage_that_becomes_null_is_not_erased() -> None:
    """Per count the last value that is not null wins, inside the details as well."""
    known = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": None}}
    later = {
        "prompt_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": None, "audio_tokens": 1},
        "x": None,
    }
    fields = record("chat", events({**delta(content="a"), "usage": known}, {**delta("stop"), "usage": later}))
    assert fields["response"]["usage"]["prompt_tokens_details"] == {"cached_tokens": 4, "audio_tokens": 1}
    assert (fields["usage"]["cache_read_tokens"], fields["usage"]["input_audio_tokens"]) == (4, 1)


def test_reasoning_beside_its_sealed_form() -> None:
    """Reasoning under a third name is the record's reasoning, streamed or whole; the sealed form stays beside it."""
    made = [delta(reasoning_text=piece) for piece in ("hm", "m")]
    streamed = record("chat", events(*made, delta("stop", content="x", reasoning_opaque="S"), done=True))
    assert first_choice(streamed)["message"] == {
        "reasoning_text": "hmm",
        "content": "x",
        "reasoning_opaque": "S",
    }
    for fields in (streamed, unstreamed("chat", json.dumps(streamed["response"]).encode())):
        assert fields["reasoning_content"] == "hmm"


def test_a_message_behind_deltas_that_says_something_else() -> None:
    """A last message that is not what the deltas amounted to is not appended to them; the bytes show both."""
    last = {"choices": [{"index": 0, "message": {"content": "Hello."}, "finish_reason": "stop"}]}
    fields = record("chat", events(delta(content=" Hel"), delta(content="lo."), last, done=True))
    assert first_choice(fields)["message"]["content"] == " Hello."
    assert (fields["flags"], fields["finish"]) == (["unexpected_shape"], "stop")
    assert '"Hello."' in fields["response_raw"]


REASONS = {
    "content_filter: PROHIBITED_CONTENT": "content_filter",
    "content_filter: a word to come": "content_filter",
    "function_call_filter: MALFORMED_FUNCTION_CALL": "error",
    "MAX_TOKENS": "length",
    "a word: to come": "other",
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_of_two_words(reason: str) -> None:
    """A server's own word behind the common one tells more than it; a choice may be nothing but its reason."""
    bare = {"choices": [{"index": 0, "finish_reason": reason}]}
    for fields in (
        record("chat", events(bare, done=True)),
        unstreamed("chat", json.dumps(bare).encode()),
    ):
        assert (fields["finish"], fields["finish_reason"]) == (REASONS[reason], reason)
        assert fields["complete"] is (REASONS[reason] != "error")


def test_a_reason_to_finish_that_is_in_an_object() -> None:
    """Where a choice tells its reason in an object of its own, it counts as one, streamed or whole."""
    last = beside(finish_details={"type": "max_tokens"})
    del last["choices"][0]["finish_reason"]
    streamed = record("chat", events(delta(content="a"), last))
    for fields in (streamed, unstreamed("chat", json.dumps(streamed["response"]).encode())):
        assert (fields["finish"], fields["finish_reason"], fields["complete"]) == (
            "length",
            "max_tokens",
            True,
        )


def test_a_call_that_is_empty_is_none() -> None:
    """Servers that send every member of their types send a legacy call without a name and arguments."""
    empty = {"name": "", "arguments": ""}
    whole = {
        "choices": [
            {"index": 0, "message": {"content": "a", "function_call": empty}, "finish_reason": "stop"}
        ]
    }
    for fields in (
        record("chat", events(delta(content="a", function_call=empty), delta("stop"), done=True)),
        unstreamed("chat", json.dumps(whole).encode()),
    ):
        assert first_choice(fields)["message"]["function_call"] == empty
        assert fields["tool_calls"] is None
    silent = record("chat", events(delta(function_call=empty, audio={"data": ""}), delta("stop"), done=True))
    assert silent["timing"]["first_token_ms"] is None
