"""How the official SDKs are asked in each dialect, and how what they returned is held against a record.

The same table serves the synchronous and the asynchronous clients. The SDKs' models leave out what they do not know
and add members of their own (`parsed`), so each member that the SDK has and that is not null must be in the record
with the same value.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import anthropic
import openai

from capture import CaptureStore, StoredRecord

MESSAGES: Any = [{"role": "user", "content": "What is in the file?"}]
SCHEMA: Any = {"type": "object", "properties": {"about": {"type": "string"}, "limit": {"type": "integer"}}}
FUNCTION: Any = {"name": "look", "description": "Look it up.", "parameters": SCHEMA}
SDK_ONLY = {"parsed", "parsed_arguments", "output_parsed", "parsed_output"}
"""Members that an SDK makes of the answer; no server sent them."""

CHAT: Any = {"messages": MESSAGES, "tools": [{"type": "function", "function": FUNCTION}]}
RESPONSES: Any = {"input": MESSAGES, "tools": [{"type": "function", "strict": False} | FUNCTION]}
CLAUDE: Any = {
    "messages": MESSAGES,
    "max_tokens": 100,
    "tools": [{"name": "look", "input_schema": SCHEMA}],
}


class Calls(NamedTuple):
    """How an SDK is asked in one dialect, the same for its sync and async client; `last` ends a stream."""

    resource: Callable[[Any], Any]
    asks: dict[str, Any]
    last: str

    def create(self, client: Any, model: str) -> Any:  # noqa: ANN401 - an SDK's model, or the promise of one
        """Ask for a whole answer."""
        return self.resource(client).create(model=model, **self.asks)

    def stream(self, client: Any, model: str) -> Any:  # noqa: ANN401 - an SDK's stream manager
        """Ask for a stream that the SDK accumulates."""
        usage = {"stream_options": {"include_usage": True}} if "completion" in self.last else {}
        return self.resource(client).stream(model=model, **self.asks, **usage)

    def raw(self, client: Any) -> Any:  # noqa: ANN401 - an SDK's resource
        """Ask in a way that also shows the HTTP exchange."""
        return self.resource(client).with_raw_response


DIALECTS = {
    "chat": Calls(lambda client: client.chat.completions, CHAT, "get_final_completion"),
    "responses": Calls(lambda client: client.responses, RESPONSES, "get_final_response"),
    "messages": Calls(lambda client: client.messages, CLAUDE, "get_final_message"),
}


class Served(NamedTuple):
    """A captured server, and one test's rollout on it."""

    url: str
    store: CaptureStore
    rollout: str

    def client(self, dialect: str, *, is_async: bool = False, **options: Any) -> Any:  # noqa: ANN401
        """Open the SDK's client of a dialect; close it with `with`."""
        base = f"{self.url}/ng-rollout/{self.rollout}"
        if dialect == "messages":
            claude = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
            return claude(base_url=base, api_key="none", **options)
        gpt = openai.AsyncOpenAI if is_async else openai.OpenAI
        return gpt(base_url=f"{base}/v1", api_key="none", **options)

    def records(self) -> list[StoredRecord]:
        """Settle the rollout and return its records; nothing is pending or missing."""
        settled = self.store.settle(self.rollout)
        assert settled.complete, settled
        return self.store.read(self.rollout)

    def record(self) -> StoredRecord:
        """Return the one record."""
        (record,) = self.records()
        return record


def missing(sdk: Any, recorded: Any, at: str = "") -> list[str]:  # noqa: ANN401 - any two JSON values
    """Name what the SDK has that the record has not, or has with another value."""
    if isinstance(sdk, dict) and isinstance(recorded, dict):
        members = {name: value for name, value in sdk.items() if name not in SDK_ONLY and value is not None}
        return [line for name in members for line in missing(sdk[name], recorded.get(name), f"{at}/{name}")]
    if isinstance(sdk, list) and isinstance(recorded, list) and len(sdk) == len(recorded):
        pairs = enumerate(zip(sdk, recorded, strict=True))
        return [line for index, pair in pairs for line in missing(*pair, f"{at}/{index}")]
    return [] if sdk == recorded else [f"{at}: {sdk!r} != {recorded!r}"]


def dump(returned: Any) -> Any:  # noqa: ANN401 - an SDK's model, as JSON values
    """Return what an SDK's model holds that was on the wire."""
    return returned.model_dump(exclude_unset=True)


def check(record: StoredRecord, returned: Any, *, dialect: str, streamed: bool) -> None:  # noqa: ANN401 - an SDK's model
    """Hold a good call's record against what the SDK returned."""
    assert missing(dump(returned), record.response) == []
    assert (record.dialect, record.stream, record.status_code) == (dialect, streamed, 200)
    assert (record.error_category, record.complete, record.flags) == (None, True, [])
    assert (record.response_id, record.model_served) == (returned.id, returned.model)
    assert record.correlation.source == "prefix"
    assert record.client.retry_count == 0
