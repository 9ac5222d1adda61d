"""The official SDKs against two server processes under capture: what an SDK returned is what was recorded.

Each test makes its calls under a rollout of its own, named by the path of the client's `base_url` as agents do it,
settles that rollout, and holds the SDK's own accumulation against the record's `response`.
"""

from typing import Any

import msgspec
import openai
import pytest

from tests.clients.sdks import CHAT, CLAUDE, DIALECTS, MESSAGES, RESPONSES, Served, check, dump, missing

MODELS = [
    "scripted",
    "scripted-reasoning",
    "scripted-tools",
    "scripted-refusal",
    "scripted?tokens=0",
]
in_each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
streamed_or_not = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
for_each_model = pytest.mark.parametrize("model", MODELS)
under_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""The SDKs leave asynchronous generators unfinished, which trio warns of."""


@for_each_model
@streamed_or_not
@in_each_dialect
def test_sync(served: Served, dialect: str, model: str, *, streamed: bool) -> None:
    """What the synchronous SDK returned or accumulated equals the recorded response."""
    calls = DIALECTS[dialect]
    with served.client(dialect) as client:
        if streamed:
            with calls.stream(client, model) as stream:
                returned = getattr(stream, calls.last)()
        else:
            returned = calls.create(client, model)
    check(served.record(), returned, dialect=dialect, streamed=streamed)


@pytest.mark.anyio
@under_asyncio
@for_each_model
@streamed_or_not
@in_each_dialect
async def test_async(served: Served, dialect: str, model: str, *, streamed: bool) -> None:
    """What the asynchronous SDK returned or accumulated equals the recorded response."""
    calls = DIALECTS[dialect]
    async with served.client(dialect, is_async=True) as client:
        if streamed:
            async with calls.stream(client, model) as stream:
                returned = await getattr(stream, calls.last)()
        else:
            returned = await calls.create(client, model)
    check(served.record(), returned, dialect=dialect, streamed=streamed)


def test_the_sent_request_is_recorded(served: Served) -> None:
    """The record's request is the body that the SDK put on the wire, streamed or not, with nothing added."""
    bodies: list[Any] = []
    for dialect, calls in DIALECTS.items():
        with served.client(dialect) as client:
            raw = calls.raw(client).create(model="scripted", **calls.asks)
            bodies.append(msgspec.json.decode(raw.http_request.content))
    assert [record.request for record in served.records()] == bodies


def test_reasoning_and_tools_are_read(served: Served) -> None:
    """Parallel tool calls and reasoning stand in the record's own members as the SDK gave them."""
    with (
        served.client("messages") as client,
        client.messages.stream(model="scripted-tools", **CLAUDE) as stream,
    ):
        thinking, *calls = stream.get_final_message().content
    record = served.record()
    assert record.reasoning_content == thinking.thinking
    assert record.response["content"][0]["signature"] == thinking.signature
    assert [(call.call_id, call.name, call.arguments) for call in record.tool_calls or ()] == [
        (call.id, call.name, call.input) for call in calls
    ]
    assert (len(calls), record.finish) == (2, "tool_calls")


def test_choices_stay_apart(served: Served) -> None:
    """Two choices, interleaved on the wire, are two in the record as in the SDK."""
    with (
        served.client("chat") as client,
        client.chat.completions.stream(model="scripted-tools", n=2, **CHAT) as stream,
    ):
        returned = stream.get_final_completion()
    record = served.record()
    check(record, returned, dialect="chat", streamed=True)
    assert (record.choices, len(returned.choices)) == (2, 2)


def test_an_answer_at_the_token_limit(served: Served) -> None:
    """What an SDK read of an answer that was cut by the token limit, whole or streamed, is what was recorded."""
    with (
        served.client("chat") as client,
        pytest.raises(openai.LengthFinishReasonError) as refused,
        client.chat.completions.stream(model="scripted-length", **CHAT) as stream,
    ):
        stream.get_final_completion()
    with served.client("responses") as client:
        whole = client.responses.create(model="scripted-length", **RESPONSES)
        events = list(client.responses.create(model="scripted-length", stream=True, **RESPONSES))
    with (
        served.client("messages") as client,
        client.messages.stream(model="scripted-length", **CLAUDE) as stream,
    ):
        message = stream.get_final_message()
    returned = [refused.value.completion, whole, events[-1].response, message]
    records = served.records()
    assert [missing(dump(sdk), record.response) for sdk, record in zip(returned, records, strict=True)] == [
        []
    ] * 4
    assert [record.finish for record in records] == ["length"] * 4
    assert [record.error_category for record in records] == [None, "incomplete", "incomplete", None]


def test_a_conversation(served: Served) -> None:
    """A tool-using conversation of plain streamed calls is recorded in its order, each request growing."""
    turns: list[Any] = [*MESSAGES]
    texts = []
    with served.client("chat") as client:
        for _ in range(2):
            with client.chat.completions.stream(model="scripted-tools", messages=turns) as stream:
                message = stream.get_final_completion().choices[0].message
            texts.append(message.content)
            made = {
                "role": "assistant",
                **message.model_dump(include={"content", "tool_calls"}, exclude_none=True),
            }
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": "ok"}
                for call in message.tool_calls or ()
            ]
            turns += [made, *results]
    records = served.records()
    assert [len(record.request["messages"]) for record in records] == [1, 4]
    assert [record.finish for record in records] == ["tool_calls", "stop"]
    assert [record.response["choices"][0]["message"]["content"] for record in records] == texts
