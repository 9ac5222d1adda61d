"""The official SDKs as judges: what they make of generated streams over real HTTP is what the record says."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import openai
import pytest

from tests.clients import grammar
from tests.exchanges import events, named, record
from tests.sdk_rule import missing

STREAMS_PER_DIALECT = 60
QUESTION: Any = [{"role": "user", "content": "hi"}]


class Replay(BaseHTTPRequestHandler):
    """Answers every request with the server's current stream."""

    def do_POST(self) -> None:
        """Read the request whole, then send the stream in one piece."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.server.stream)  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    """Serve on a free port of the loopback until the test is over."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Replay) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def from_chat(url: str) -> str:
    """Return what the SDK accumulates from a chat stream, as JSON."""
    with (
        openai.OpenAI(api_key="x", base_url=url, max_retries=0) as client,
        client.chat.completions.stream(model="m", messages=QUESTION) as stream,
    ):
        stream.until_done()
        return stream.current_completion_snapshot.to_json()


def from_responses(url: str) -> str:
    """Return what the SDK accumulates from a Responses stream, as JSON."""
    with (
        openai.OpenAI(api_key="x", base_url=url, max_retries=0) as client,
        client.responses.stream(model="m", input="hi") as stream,
    ):
        return stream.get_final_response().to_json()


def from_messages(url: str) -> str:
    """Return what the SDK accumulates from a Messages stream, as JSON."""
    with (
        anthropic.Anthropic(api_key="x", base_url=url, max_retries=0) as client,
        client.messages.stream(model="m", messages=QUESTION, max_tokens=9) as stream,
    ):
        return stream.get_final_message().to_json()


def untimed(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what says how the chunks came."""
    return {name: value for name, value in fields.items() if name not in {"timing", "response_chunks"}}


Row = tuple[
    Callable[[random.Random], list[dict[str, Any]]],
    Callable[[list[dict[str, Any]]], bytes],
    Callable[[str], str],
]
ROWS: dict[str, Row] = {
    "chat": (grammar.chat, lambda made: events(*made, done=True), from_chat),
    "responses": (grammar.responses, lambda made: named(*made), from_responses),
    "messages": (grammar.messages, lambda made: named(*made), from_messages),
}


@pytest.mark.parametrize("dialect", ROWS)
def test_generated_streams_are_what_the_sdk_makes_of_them(dialect: str, server: Any) -> None:  # noqa: ANN401
    """For streams of every order that the grammar allows, the SDK's result is in the record's response."""
    make, write, accumulate = ROWS[dialect]
    for seed in range(STREAMS_PER_DIALECT):
        chance = random.Random(seed)
        server.stream = write(grammar.with_extras(chance, make(chance)))
        final = json.loads(accumulate(f"http://127.0.0.1:{server.server_port}"))
        fields = record(dialect, server.stream)
        assert missing(final, fields["response"]) == [], seed
        assert fields["complete"]
        assert set(fields["flags"]) <= {"items_recovered"}
        for size in (1, 7, 61):
            chunks = [server.stream[at : at + size] for at in range(0, len(server.stream), size)]
            assert untimed(record(dialect, chunks)) == untimed(fields), seed
