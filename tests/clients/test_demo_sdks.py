"""The official SDKs against the scripted model: what they accumulate from its streams is what it says unstreamed."""

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from capture.demo.processes import Server
from tests.clients.servers import scripted

MESSAGES: Any = [{"role": "user", "content": "hi"}]
answering = pytest.mark.parametrize(
    "model", ["scripted", "scripted-reasoning", "scripted-tools", "scripted-refusal", "scripted-429"]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run one scripted model for all tests of this file."""
    with scripted(tmp_path_factory.mktemp("scripted")) as running:
        yield running


@pytest.fixture
def gpt(server: Server) -> Iterator[openai.OpenAI]:
    """Open the openai SDK's client."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        yield client


@pytest.fixture
def claude(server: Server) -> Iterator[anthropic.Anthropic]:
    """Open the anthropic SDK's client."""
    with anthropic.Anthropic(base_url=server.url, api_key="none") as client:
        yield client


def holds(streamed: object, whole: object) -> bool:
    """Whether every member of the unstreamed answer is in the accumulated one with the same value."""
    if isinstance(whole, dict) and isinstance(streamed, dict):
        return all(holds(streamed.get(name), value) for name, value in whole.items())
    if isinstance(whole, list) and isinstance(streamed, list):
        return len(whole) == len(streamed) and all(map(holds, streamed, whole))
    return streamed == whole


@answering
def test_chat_streams_to_the_same_answer(gpt: openai.OpenAI, model: str) -> None:
    """The openai SDK accumulates a chat stream to the completion it gets unstreamed, retrying a 429 both times."""
    whole = gpt.chat.completions.create(model=model, messages=MESSAGES)
    with gpt.chat.completions.stream(
        model=model, messages=MESSAGES, stream_options={"include_usage": True}
    ) as stream:
        accumulated = stream.get_final_completion().to_dict()
    assert holds(accumulated | {"object": "chat.completion"}, whole.to_dict())


@answering
def test_responses_stream_to_the_same_answer(gpt: openai.OpenAI, model: str) -> None:
    """The openai SDK accumulates a stream of Responses to the response it gets unstreamed."""
    whole = gpt.responses.create(model=model, input="hi")
    with gpt.responses.stream(model=model, input="hi") as stream:
        kinds = [event.type for event in stream]
        accumulated = stream.get_final_response().to_dict()
    assert kinds[0] == "response.created"
    assert holds(accumulated, whole.to_dict())


@answering
def test_messages_stream_to_the_same_answer(claude: anthropic.Anthropic, model: str) -> None:
    """The anthropic SDK accumulates a stream of Messages to the message it gets unstreamed."""
    whole = claude.messages.create(model=model, messages=MESSAGES, max_tokens=100)
    with claude.messages.stream(model=model, messages=MESSAGES, max_tokens=100) as stream:
        accumulated = stream.get_final_message().to_dict()
    assert holds(accumulated, whole.to_dict())


def test_thinking_is_signed(claude: anthropic.Anthropic) -> None:
    """A thinking block that was streamed carries its signature, before the text."""
    with claude.messages.stream(model="scripted-reasoning", messages=MESSAGES, max_tokens=100) as stream:
        thinking, text = stream.get_final_message().content
    assert (thinking.type, text.type) == ("thinking", "text")
    assert thinking.type == "thinking" and len(thinking.signature) > 100  # noqa: PT018 - narrows the type


def test_both_sdks_list_the_models(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """The list of models parses in either SDK and names the same scripts."""
    assert {model.id for model in gpt.models.list()} == {model.id for model in claude.models.list()}


def test_errors_become_the_sdks_own(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    """Statuses and in-stream errors raise the SDK's exception with the provider's words."""
    eager, bold = gpt.with_options(max_retries=0), claude.with_options(max_retries=0)
    with pytest.raises(openai.RateLimitError):
        eager.chat.completions.create(model="scripted-429", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="context length") as caught:
        eager.responses.create(model="scripted-context", input="hi")
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.APIError, match="Overloaded"):
        list(eager.chat.completions.create(model="scripted-error-in-stream", messages=MESSAGES, stream=True))
    with pytest.raises(anthropic.InternalServerError):
        bold.messages.create(model="scripted-529", messages=MESSAGES, max_tokens=9)
    with (
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        bold.messages.stream(model="scripted-error-in-stream", messages=MESSAGES, max_tokens=9) as stream,
    ):
        stream.get_final_message()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_asynchronous_clients_agree(server: Server) -> None:
    """The asynchronous SDKs hold a whole tool-using conversation, streamed, to its text."""
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        turns: list[Any] = [*MESSAGES]
        async with client.chat.completions.stream(model="scripted-tools", messages=turns) as stream:
            called = (await stream.get_final_completion()).choices[0].message
        calls = called.tool_calls or []
        assert [call.function.name for call in calls] == ["read_file", "run_tests"]
        answered: list[Any] = [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in calls]
        made: Any = {
            "role": "assistant",
            "tool_calls": [call.model_dump(include={"id", "type", "function"}) for call in calls],
        }
        final = await client.chat.completions.create(
            model="scripted-tools", messages=[*turns, made, *answered]
        )
    assert final.choices[0].finish_reason == "stop"
    async with anthropic.AsyncAnthropic(base_url=server.url, api_key="none") as claude:
        message = await claude.messages.create(model="scripted-tools", messages=MESSAGES, max_tokens=9)
    assert message.stop_reason == "tool_use"
