"""Clients that hang up, on real sockets: one record per call, and the rules by which it is told how the call ended.

Where the application listens for its client, a call that was left midway is `cancelled` by the client, with what was
answered until then. Where it does not listen, nobody can know, and the whole answer that went nowhere is complete,
its delivery unknown. A client that leaves at its dialect's last event has had its answer, whatever came after.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest

from capture import CaptureStore, StoredRecord
from capture.demo.agent import SPEAKERS, parsed
from capture.demo.answers import compose
from capture.demo.scripts import ScriptedModel, resolve
from capture.demo.server import DIALECTS
from tests.clients.hosts import connected, hosted, post, read_until, read_whole
from tests.clients.sites import Site, environ

pytestmark = pytest.mark.anyio

SLOW = "?tokens=400&tokens_per_s=40"
"""10 s of tokens: nobody here waits for their end."""
SHORT = "?tokens=20&tokens_per_s=100"
TURNS: list[Any] = [{"role": "user", "content": "Go on."}]


class Wire(NamedTuple):
    """What a raw client needs of a dialect: a mark in each piece of text, the last event, and a piece's text."""

    piece: bytes
    end: bytes
    text: Callable[[Any], str]


WIRES = {
    "chat": Wire(
        b'"content":"',
        b"data: [DONE]\n\n",
        lambda event: (event["choices"][0]["delta"].get("content") if event["choices"] else "") or "",
    ),
    "responses": Wire(
        b"event: response.output_text.delta",
        b"event: response.completed",
        lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
    ),
    "messages": Wire(
        b"event: content_block_delta",
        b"event: message_stop",
        lambda event: event["delta"].get("text", "") if event["type"] == "content_block_delta" else "",
    ),
}
in_each_dialect = pytest.mark.parametrize("dialect", WIRES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run one server for all tests of this file but those of other makes."""
    folder = tmp_path_factory.mktemp("hangups")
    with hosted("uvicorn-httptools", folder, environ(folder)) as server:
        yield Site(server.url, CaptureStore(folder / "records"))


@pytest.fixture
def anyio_backend() -> str:
    """Run the clients under asyncio; the servers have loops of their own."""
    return "asyncio"


def body(dialect: str, model: str, *, stream: bool) -> bytes:
    """Write a request's body."""
    asked = SPEAKERS[dialect].ask(TURNS) | {"model": model, "stream": stream}
    return msgspec.json.encode(asked)


def whole_text(dialect: str, asked: bytes) -> str:
    """Return the text that the scripted model has for a request."""
    wire = DIALECTS[SPEAKERS[dialect].path]
    ask = wire.read(asked)
    answer = compose(ask, resolve(ask.model, ScriptedModel()))
    return SPEAKERS[dialect].hear(wire.whole(ask, answer)).text


def text_of(record: StoredRecord) -> str:
    """Return the text of a record's response, partial or whole."""
    return SPEAKERS[record.dialect].hear(record.response).text


def ending(record: StoredRecord) -> tuple[Any, ...]:
    """Return what a record says of its end."""
    source = record.error.source if record.error else None
    return record.error_category, source, record.delivery, record.complete, record.status_code


CANCELLED = ("cancelled", "client", "client_gone", False, 200)
COMPLETE_UNHEARD = (None, None, "unknown", True, 200)


async def leave_midway(site: Site, rollout: str, dialect: str, asked: bytes, count: int) -> list[str]:
    """Have so many clients leave in the middle of their streams, each elsewhere; return what each had heard."""
    wire, heard = WIRES[dialect], [""] * count

    async def client(number: int) -> None:
        async with connected(site.url, reset=number % 2 == 0) as stream:
            await stream.send(post(f"/ng-rollout/{rollout}{SPEAKERS[dialect].path}", asked, number))
            got = await read_until(stream, wire.piece, 3 + number % 5)
        heard[number] = "".join(map(wire.text, parsed(got)))

    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(client, number)
    return heard


async def leave_at(site: Site, path: str, asked: bytes, mark: bytes, count: int) -> None:
    """Have so many clients leave as soon as they have read `mark`."""

    async def client(number: int) -> None:
        async with connected(site.url, reset=number % 2 == 0) as stream:
            await stream.send(post(path, asked, number))
            await read_until(stream, mark)

    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(client, number)


def check_partial(records: list[StoredRecord], heard: list[str], asked: bytes) -> None:
    """Each record is cancelled by its client, and holds at least what the client had heard, and not all."""
    assert [ending(record) for record in records] == [CANCELLED] * len(records)
    for record, text in zip(records, heard, strict=True):
        whole = whole_text(record.dialect, asked)
        assert text
        assert text_of(record).startswith(text)
        assert whole.startswith(text_of(record))
        assert len(text_of(record)) < len(whole)


@in_each_dialect
async def test_sixty_streams_left_midway(site: Site, dialect: str) -> None:
    """60 of 60 clients that hang up midway are recorded as cancelled, with the partial answer."""
    asked = body(dialect, f"scripted{SLOW}", stream=True)
    heard = await leave_midway(site, f"midway-{dialect}", dialect, asked, 60)
    check_partial(site.records(f"midway-{dialect}", 60), heard, asked)


@in_each_dialect
async def test_streams_of_a_deaf_application(site: Site, dialect: str) -> None:
    """Where the application does not listen, a stream whose client left is complete, its delivery unknown."""
    asked = body(dialect, f"scripted-deaf{SHORT}", stream=True)
    await leave_midway(site, f"deaf-{dialect}", dialect, asked, 20)
    records = site.records(f"deaf-{dialect}", 20)
    assert [ending(record) for record in records] == [COMPLETE_UNHEARD] * 20
    assert {text_of(record) for record in records} == {whole_text(dialect, asked)}


@in_each_dialect
@pytest.mark.parametrize("query", ["", "?linger=1"], ids=["ended", "unended"])
async def test_leaving_at_the_last_event(site: Site, dialect: str, query: str) -> None:
    """A client that leaves at its dialect's last event has a complete call, though the server had not ended it."""
    rollout = f"end-{dialect}{len(query)}"
    asked = body(dialect, "scripted", stream=True)
    path = f"/ng-rollout/{rollout}{SPEAKERS[dialect].path}{query}"
    await leave_at(site, path, asked, WIRES[dialect].end, 20)
    records = site.records(rollout, 20)
    assert {(record.error_category, record.complete) for record in records} == {(None, True)}
    assert {text_of(record) for record in records} == {whole_text(dialect, asked)}
    if query:
        assert {record.delivery for record in records} == {"client_gone"}


@in_each_dialect
@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (f"scripted{SLOW}", ("cancelled", "client", "client_gone", False, None)),
        (f"scripted-deaf{SHORT}", COMPLETE_UNHEARD),
    ],
    ids=["listening", "deaf"],
)
async def test_leaving_before_an_unstreamed_answer(
    site: Site, dialect: str, model: str, wanted: tuple[Any, ...]
) -> None:
    """Left before its answer, an unstreamed call is cancelled where the application listens, else complete."""
    asked = body(dialect, model, stream=False)
    rollouts = [f"unstreamed-{dialect}-{wanted[2]}-{number}" for number in range(4)]

    async def client(number: int) -> None:
        async with connected(site.url, reset=number % 2 == 0) as stream:
            await stream.send(post(f"/ng-rollout/{rollouts[number]}{SPEAKERS[dialect].path}", asked, 0))
            await site.begun(rollouts[number])

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(client, number)
    records = [record for rollout in rollouts for record in site.records(rollout, 1)]
    assert [ending(record) for record in records] == [wanted] * 4
    assert [record.request for record in records] == [msgspec.json.decode(asked)] * 4


@in_each_dialect
async def test_other_servers(every_site: Site, dialect: str) -> None:
    """On servers of every make, plain calls are sent and complete, and streams left midway cancelled."""
    path = f"/ng-rollout/plain-{dialect}{SPEAKERS[dialect].path}"
    asked = body(dialect, "scripted", stream=False)
    async with connected(every_site.url) as stream:
        await stream.send(post(path, asked, 0))
        answer = msgspec.json.decode(await read_whole(stream))
        await stream.send(post(path, body(dialect, "scripted", stream=True), 1))
        await read_until(stream, b"\r\n0\r\n\r\n")
    slow = body(dialect, f"scripted{SLOW}", stream=True)
    heard = await leave_midway(every_site, f"midway-{dialect}", dialect, slow, 12)
    check_partial(every_site.records(f"midway-{dialect}", 12), heard, slow)
    plain, streamed = every_site.records(f"plain-{dialect}", 2)
    assert [ending(record) for record in (plain, streamed)] == [(None, None, "sent", True, 200)] * 2
    assert plain.response == answer
    assert text_of(streamed) == text_of(plain) == whole_text(dialect, asked)


@in_each_dialect
async def test_other_servers_and_a_deaf_application(every_site: Site, dialect: str) -> None:
    """On servers of every make, an application that does not listen goes on alone, and its call is complete."""
    asked = body(dialect, f"scripted-deaf{SHORT}", stream=True)
    await leave_midway(every_site, f"deaf-{dialect}", dialect, asked, 6)
    records = every_site.records(f"deaf-{dialect}", 6)
    assert [ending(record) for record in records] == [COMPLETE_UNHEARD] * 6
    assert {text_of(record) for record in records} == {whole_text(dialect, asked)}
