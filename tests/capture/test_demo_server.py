"""The scripted model on the wire, without an SDK: what it says, when, and how it fails."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import msgspec
import pytest

from capture.demo.scripts import DEAF, SCRIPTS, BadParameterError, ScriptedModel, UnknownModelError, resolve
from capture.demo.server import DIALECTS, ScriptedError, create_app

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TURNS: dict[str, Json] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100},
}
TERMINAL = {
    "/v1/chat/completions": b"data: [DONE]\n\n",
    "/v1/responses": b"event: response.completed\n",
    "/v1/messages": b"event: message_stop\n",
}
every_dialect = pytest.mark.parametrize("path", DIALECTS)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """Talk to the application without a socket."""
    transport = httpx.ASGITransport(create_app(ScriptedModel(tokens=12)))
    async with httpx.AsyncClient(transport=transport, base_url="http://scripted") as opened:
        yield opened


async def ask(client: httpx.AsyncClient, path: str, model: str, **members: Any) -> httpx.Response:  # noqa: ANN401
    """Make the dialect's smallest request of a model."""
    return await client.post(path, json=TURNS[path] | {"model": model} | members)


def values(body: bytes) -> list[Json]:
    """Parse a stream's data lines, `[DONE]` left out."""
    lines = (line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: "))
    return [json.loads(line) for line in lines if line != b"[DONE]"]


@every_dialect
async def test_the_same_request_gets_the_same_answer(client: httpx.AsyncClient, path: str) -> None:
    """Two servers would answer a request with the same bytes, and another request with others."""
    first, again, other = [
        await ask(client, path, model) for model in ("scripted", "scripted", "scripted-reasoning")
    ]
    assert first.content == again.content
    assert first.content != other.content


@every_dialect
async def test_a_stream_ends_with_its_terminal_event(client: httpx.AsyncClient, path: str) -> None:
    """An unbroken stream is an event stream whose last event is the dialect's own end."""
    answer = await ask(client, path, "scripted", stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert TERMINAL[path] in answer.content[-2500:]


@every_dialect
async def test_a_cut_stream_lacks_its_terminal_event(client: httpx.AsyncClient, path: str) -> None:
    """A cut stream is a 200 that holds the first tokens and no end."""
    answer = await ask(client, path, "scripted-cut?at=3", stream=True)
    assert answer.status_code == 200
    assert TERMINAL[path] not in answer.content
    assert sum(b"delta" in line for line in answer.content.splitlines() if line.startswith(b"data")) >= 3


@every_dialect
async def test_an_error_strikes_inside_the_stream(client: httpx.AsyncClient, path: str) -> None:
    """After its tokens the stream holds a provider's error in the dialect's form, and no end."""
    answer = await ask(client, path, "scripted-error-in-stream?at=3", stream=True)
    assert "Overloaded" in json.dumps(values(answer.content)[-1])
    assert TERMINAL[path] not in answer.content


@every_dialect
@pytest.mark.parametrize(
    ("model", "status"),
    [
        ("scripted-500", 500),
        ("scripted-529", 529),
        ("scripted-context", 400),
        ("scripted-error-in-stream", 500),
        ("no-such-model", 404),
        ("scripted?tokens=-1", 400),
        ("scripted?colour=red", 400),
    ],
)
async def test_errors_have_their_status_and_the_provider_form(
    client: httpx.AsyncClient, path: str, model: str, status: int
) -> None:
    """A failed call answers with its status, and a JSON body whose `error` has a type and a message."""
    answer = await ask(client, path, model)
    assert answer.status_code == status
    assert set(answer.json()["error"]) >= {"type", "message"}


@every_dialect
@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"model": "scripted"}', b'{"model": "\xff"}'])
async def test_bad_bodies_are_refused(client: httpx.AsyncClient, path: str, body: bytes) -> None:
    """What is not a request of the dialect gets a 400, never a 500."""
    assert (await client.post(path, content=body)).status_code == 400


@every_dialect
async def test_a_429_is_over_at_the_second_attempt(client: httpx.AsyncClient, path: str) -> None:
    """The first attempt is told when to come again, and the one that says it is a retry succeeds."""
    first = await ask(client, path, "scripted-429?retry_after_ms=1500")
    assert (first.status_code, first.headers["retry-after"]) == (429, "2")
    body = TURNS[path] | {"model": "scripted-429"}
    retried = await client.post(path, json=body, headers={"x-stainless-retry-count": "1"})
    assert retried.status_code == 200


@every_dialect
async def test_a_body_may_be_no_json(client: httpx.AsyncClient, path: str) -> None:
    """One script answers 200 with HTML under a JSON content type, another with half of its JSON."""
    for model in ("scripted-not-json", "scripted-cut"):
        answer = await ask(client, path, model)
        assert answer.status_code == 200
        with pytest.raises(json.JSONDecodeError):
            answer.json()


@every_dialect
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["scripted-exception", "scripted-exception-in-stream"])
async def test_the_application_may_raise(
    client: httpx.AsyncClient, path: str, model: str, *, stream: bool
) -> None:
    """An exception script lets its exception out of the application."""
    with pytest.raises(ScriptedError, match=model):
        await ask(client, path, model, stream=stream)


async def test_choices_are_interleaved(client: httpx.AsyncClient) -> None:
    """With n=3 a chat stream carries three different texts, their chunks taking turns."""
    path = "/v1/chat/completions"
    answer = await ask(client, path, "scripted", stream=True, n=3)
    chunks = [value["choices"][0] for value in values(answer.content)]
    assert [chunk["index"] for chunk in chunks[:6]] == [0, 1, 2, 0, 1, 2]
    texts = {
        "".join(chunk["delta"].get("content") or "" for chunk in chunks if chunk["index"] == index)
        for index in range(3)
    }
    assert len(texts) == 3


async def test_usage_is_streamed_only_when_asked_for(client: httpx.AsyncClient) -> None:
    """`stream_options.include_usage` adds one chunk without choices, and null usage on the others."""
    path = "/v1/chat/completions"
    plain = values((await ask(client, path, "scripted", stream=True)).content)
    asked = values(
        (await ask(client, path, "scripted", stream=True, stream_options={"include_usage": True})).content
    )
    assert all("usage" not in value for value in plain)
    assert [value["usage"] is None for value in asked] == [True] * (len(asked) - 1) + [False]
    assert asked[-1]["choices"] == []


async def test_tool_calls_stop_after_their_rounds(client: httpx.AsyncClient) -> None:
    """With rounds=2 two answers call two offered tools at once, and the third is a text."""
    turns: list[Json] = [{"role": "user", "content": "hi"}]
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "act")]
    finishes = []
    for _ in range(3):
        body = {"model": "scripted-tools?rounds=2", "messages": turns, "tools": tools}
        choice = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]
        finishes.append(choice["finish_reason"])
        calls = choice["message"].get("tool_calls", [])
        assert [call["function"]["name"] for call in calls] in (["look", "act"], [])
        turns = [
            *turns,
            choice["message"],
            *({"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in calls),
        ]
    assert finishes == ["tool_calls", "tool_calls", "stop"]


@every_dialect
@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_come_at_their_rate(client: httpx.AsyncClient, path: str, *, stream: bool) -> None:
    """40 ms of thought and 11 more tokens at 200 a second take 95 ms at least."""
    started = anyio.current_time()
    await ask(client, path, "scripted?think_time_ms=40&tokens_per_s=200", stream=stream)
    assert anyio.current_time() - started >= 0.095


@pytest.mark.parametrize("deaf", ["", DEAF])
@pytest.mark.parametrize("stream", [False, True])
@every_dialect
async def test_deaf_scripts_never_ask_for_the_client(path: str, deaf: str, *, stream: bool) -> None:
    """A client that is gone at once ends a listening script, while a deaf one reads one message and sends it all."""
    received, sent = await run_with_client_gone(
        path, f"scripted-slow{deaf}?tokens=10&tokens_per_s=200", stream=stream
    )
    assert received == (1 if deaf else 2)
    assert bool(sent) and not sent[-1].get("more_body") if deaf else len(sent) < 10


async def run_with_client_gone(path: str, model: str, *, stream: bool) -> tuple[int, list[Json]]:
    """Serve one request whose client has left; count the calls of `receive`, collect what was sent."""
    body = msgspec.json.encode(TURNS[path] | {"model": model, "stream": stream})
    waiting = [{"type": "http.request", "body": body, "more_body": False}]
    received, sent = 0, []

    async def receive() -> Json:
        nonlocal received
        received += 1
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(dict(message))

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    await create_app()(scope, receive, send)
    return received, sent


async def test_every_script_is_listed(client: httpx.AsyncClient) -> None:
    """`GET /v1/models` names each script, and its deaf form."""
    names = {entry["id"] for entry in (await client.get("/v1/models")).json()["data"]}
    assert names == {name + ending for name in SCRIPTS for ending in ("", DEAF)}


async def test_tokens_are_counted_without_an_answer(client: httpx.AsyncClient) -> None:
    """The count of a prompt is what an answer's usage says of it."""
    body = TURNS["/v1/messages"] | {"model": "scripted"}
    counted = await client.post("/v1/messages/count_tokens", json=body)
    answered = await client.post("/v1/messages", json=body)
    assert counted.json()["input_tokens"] == answered.json()["usage"]["input_tokens"]


async def test_numbers_come_from_the_name_then_the_script_then_the_server() -> None:
    """A number in the name wins over the script's, and the script's over the server's."""
    base = ScriptedModel.from_environ({"SCRIPTED_TOKENS": "7", "SCRIPTED_AT": "9", "PATH": "/"})
    assert resolve("scripted", base).model.tokens == 7
    assert resolve("scripted-slow", base).model.tokens == 200
    assert resolve("scripted-slow?tokens=3", base).model.tokens == 3
    assert resolve("scripted-slow?tokens=3", base).model.at == 9


async def test_wrong_names_and_numbers_are_told_apart() -> None:
    """An unknown script, an unknown number and a number out of bounds each raise an error of their own kind."""
    with pytest.raises(UnknownModelError, match="nobody"):
        resolve("nobody?tokens=1", ScriptedModel())
    for suffix in ("tokens=two", "tokens=9999999", "colour=1"):
        with pytest.raises(BadParameterError):
            resolve(f"scripted?{suffix}", ScriptedModel())
