from typing import Any

import pytest

from tests.answers import CLOSING, DIALECTS, ENVELOPE, MESSAGE, WRITE, Json, odd, unstreamed
from tests.exchanges import delta, events, record

Call = tuple[str, str, list[str]]
"""A tool call: its id, its name, and its arguments in the pieces they come in."""


def opened(dialect: str, at: int, call: Call, first: str = "") -> Json:
    """Make the event that opens a call, which may bring the first piece of its arguments."""
    call_id, name, _ = call
    made: dict[str, Json] = {
        "chat": delta(
            tool_calls=[{"index": at, "id": call_id, "function": {"name": name, "arguments": first}}]
        ),
        "responses": {
            "type": "response.output_item.added",
            "output_index": at,
            "item": {
                "type": "function_call",
                "id": f"i{at}",
                "call_id": call_id,
                "name": name,
                "arguments": first,
            },
        },
        "messages": {
            "type": "content_block_start",
            "index": at,
            "content_block": {"type": "tool_use", "id": call_id, "name": name, "input": {}},
        },
    }
    return made[dialect]


def grown(dialect: str, at: int, piece: str) -> Json:
    """Make the event that brings a piece of a call's arguments."""
    made: dict[str, Json] = {
        "chat": delta(tool_calls=[{"index": at, "function": {"arguments": piece}}]),
        "responses": {
            "type": "response.function_call_arguments.delta",
            "item_id": f"i{at}",
            "output_index": at,
            "delta": piece,
        },
        "messages": {
            "type": "content_block_delta",
            "index": at,
            "delta": {"type": "input_json_delta", "partial_json": piece},
        },
    }
    return made[dialect]


ENDING: dict[str, list[Json]] = {
    "chat": [delta("tool_calls")],
    "responses": CLOSING["responses"],
    "messages": [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}],
}
STARTING: dict[str, list[Json]] = {
    "chat": [],
    "responses": [{"type": "response.created", "response": ENVELOPE}],
    "messages": [{"type": "message_start", "message": MESSAGE}],
}
F: Call = ("c1", "f", ['{"a"', ":1}"])
G: Call = ("c2", "g", ['{"b"', ":2}"])


def written(dialect: str, *made: Json) -> bytes:
    """Write a stream of these events between the dialect's first and last ones."""
    return WRITE[dialect](*STARTING[dialect], *made, *ENDING[dialect])


def calls(fields: Json) -> list[tuple[Any, Any, Any]]:
    """Return the record's calls as (id, name, arguments)."""
    return [(call["call_id"], call["name"], call["arguments"]) for call in fields["tool_calls"] or ()]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_parallel_calls_in_any_interleaving(dialect: str) -> None:
    """Cases 6 and 9: fragments reach the call that is named, in whatever order they come, cut after any event."""
    orders = [[0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1], [1, 1, 0, 0]]
    for order in orders:
        pieces = [iter(F[2]), iter(G[2])]
        middle = [grown(dialect, at, next(pieces[at])) for at in order]
        made = [opened(dialect, 0, F), opened(dialect, 1, G), *middle]
        fields = record(dialect, written(dialect, *made))
        assert calls(fields) == [("c1", "f", {"a": 1}), ("c2", "g", {"b": 2})]
        assert (fields["finish"], odd(fields)) == ("tool_calls", set())
        for count in range(1, len(made)):
            cut = record(dialect, WRITE["responses"](*STARTING[dialect], *made[:count]))
            assert [call[0] for call in calls(cut)] == ["c1", "c2"][:count]
            assert not cut["complete"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_index_for_all_calls(dialect: str) -> None:
    """Case 6: three calls under one index stay three, in their order, each with its own arguments; that is told."""
    made = []
    for number in (1, 2, 3):
        call: Call = (f"c{number}", "w", [])
        made += [opened(dialect, 0, call)]
        if dialect == "responses":
            made[-1]["item"]["id"] = f"i{number}"
        piece = grown(dialect, 0, f'{{"c":{number}}}')
        made += [{**piece, "item_id": f"i{number}"} if dialect == "responses" else piece]
    fields = record(dialect, written(dialect, *made))
    assert calls(fields) == [(f"c{number}", "w", {"c": number}) for number in (1, 2, 3)]
    assert odd(fields) <= {"tool_index_shared", "repeated_index"}
    assert odd(fields)


@pytest.mark.parametrize("dialect", ["responses", "messages"])
def test_calls_without_an_index(dialect: str) -> None:
    """Case 7's siblings: without any index, order and ids still tell two calls apart."""
    made = [
        {key: value for key, value in event.items() if key not in ("index", "output_index")}
        for at, call in enumerate((F, G))
        for event in (opened(dialect, at, call), *(grown(dialect, at, piece) for piece in call[2]))
    ]
    assert calls(record(dialect, written(dialect, *made))) == [("c1", "f", {"a": 1}), ("c2", "g", {"b": 2})]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_fragment_for_a_call_that_never_opened(dialect: str) -> None:
    """Case 9: it makes a call of its own and is added to no other."""
    made = [opened(dialect, 0, F), grown(dialect, 1, "{}"), *(grown(dialect, 0, piece) for piece in F[2])]
    fields = record(dialect, written(dialect, *made))
    assert calls(fields) == [("c1", "f", {"a": 1}), (None if dialect != "responses" else "i1", None, {})]


@pytest.mark.parametrize("dialect", ["responses", "messages"])
def test_a_fragment_for_a_call_that_is_closed(dialect: str) -> None:
    """Case 9: a fragment behind the end of its call is flagged and reaches no sibling."""
    close: dict[str, Json] = {
        "messages": {"type": "content_block_stop", "index": 0},
        "responses": {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"id": "i0", "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        },
    }
    made = [opened(dialect, 0, F), grown(dialect, 0, "{}"), close[dialect], opened(dialect, 1, G)]
    made += [grown(dialect, 0, " "), *(grown(dialect, 1, piece) for piece in G[2])]
    fields = record(dialect, written(dialect, *made))
    assert calls(fields) == [("c1", "f", {}), ("c2", "g", {"b": 2})]
    assert "late_delta" in fields["flags"]


BROKEN = '{"a":'
WHOLE: dict[str, Json] = {
    "chat": {
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": BROKEN}}]},
            }
        ]
    },
    "responses": {
        "status": "completed",
        "output": [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": BROKEN}],
    },
    "messages": {
        "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": BROKEN}],
        "stop_reason": "tool_use",
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_arguments_cut_by_a_token_limit(dialect: str) -> None:
    """S4: the provider's word and the broken text of the arguments stay, and a flag says so, streamed or not."""
    streamed = record(dialect, written(dialect, opened(dialect, 0, F), grown(dialect, 0, BROKEN)))
    for fields in (streamed, unstreamed(dialect, events(WHOLE[dialect])[6:-2])):
        assert calls(fields) == [("c1", "f", BROKEN)]
        assert (fields["finish"], odd(fields)) == ("tool_calls", {"invalid_arguments"})
        assert fields["response_raw"] is None


BLOCKS = ("server_tool_use", "mcp_tool_use", "tool_use", "a_tool_of_a_kind_to_come")


@pytest.mark.parametrize("kind", BLOCKS)
def test_input_of_blocks_that_are_no_tool_use(kind: str) -> None:
    """S5: input in pieces is kept for any kind of block, and input that came whole stays without any delta."""
    block = {"type": kind, "id": "t", "name": "n", "input": {}}
    for fields, more in ((block, [grown("messages", 0, '{"q":1}')]), ({**block, "input": {"q": 1}}, [])):
        start = {"type": "content_block_start", "index": 0, "content_block": fields}
        found = record("messages", written("messages", start, *more))
        assert found["response"]["content"] == [{**block, "input": {"q": 1}}]
        assert odd(found) == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_name_and_arguments_in_the_first_chunk(dialect: str) -> None:
    """S8: two entries of one index in the first chunk, or arguments in the opening event, are one call."""
    made = [opened(dialect, 0, F, F[2][0]), grown(dialect, 0, F[2][1])]
    if dialect == "chat":
        both = made[0]["choices"][0]["delta"]["tool_calls"]
        both.append({"index": 0, "function": {"arguments": both[0]["function"].pop("arguments")}})
    elif dialect == "messages":
        made.insert(1, grown(dialect, 0, F[2][0]))
    assert calls(record(dialect, written(dialect, *made))) == [("c1", "f", {"a": 1})]


ODD_CALLS: dict[str, tuple[Json, Any]] = {
    "arguments as an object": ({"function": {"name": "f", "arguments": {"a": 1}}}, {"a": 1}),
    "arguments null": ({"function": {"name": "f", "arguments": None}}, None),
    "an empty custom member beside the function": (
        {"custom": {}, "function": {"name": "f", "arguments": '{"a":1}'}},
        {"a": 1},
    ),
}


@pytest.mark.parametrize("name", ODD_CALLS)
def test_odd_shapes_of_a_call(name: str) -> None:
    """Shapes that gateways send are read streamed and whole."""
    call, arguments = ODD_CALLS[name]
    whole = {"choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    streamed = record("chat", events(delta("tool_calls", tool_calls=[{"index": 0, **call}]), done=True))
    for fields in (streamed, unstreamed("chat", events(whole)[6:-2])):
        assert calls(fields) == [(None, "f", arguments)]
        assert odd(fields) == set()


def test_a_signature_that_comes_alone_belongs_to_its_call() -> None:
    """Opaque members of a call survive, on the call's fragment and on one of their own without index and id."""
    extra = {"extra_content": {"google": {"thought_signature": "S"}}}
    first = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    for fragments in ([{**first, **extra}], [first, extra]):
        made = [delta(tool_calls=[fragment]) for fragment in fragments]
        fields = record("chat", events(*made, delta("stop"), done=True))
        (call,) = fields["response"]["choices"][0]["message"]["tool_calls"]
        assert call["extra_content"] == extra["extra_content"]
        assert odd(fields) == {"tool_index_missing"}
