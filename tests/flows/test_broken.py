"""Capture may be broken, serving may not: whatever goes wrong in capture is counted while the request goes on.

Broken here are the values that servers and applications hand over, and capture's own ground: its ledger, its bounds.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import anyio
import pytest

from capture.tap import Message, Receive, Scope, Send
from tests.exchanges import exchange
from tests.flows.driving import PIECE, REST, Server, Site, body, request, says, scope, start, text_of

pytestmark = pytest.mark.anyio

ANSWER = [start(), body(PIECE), body(REST, more=False)]


class Hostile:
    """An object that raises on everything that is done with it, in words that raise, too."""

    def __iter__(self) -> Iterator[NoReturn]:
        raise HostileError

    def __bool__(self) -> bool:
        raise HostileError


class HostileError(Exception):
    """An exception without words."""

    def __str__(self) -> str:
        raise ZeroDivisionError


async def serve(
    site: Site, given: Scope, messages: Sequence[Message], incoming: Message | None = None
) -> None:
    """Serve one call, and see that it was served as without capture."""
    server = Server([incoming or request()])
    await site.around(says(*messages))(given, server.receive, server.send)
    assert list(map(id, server.sent)) == list(map(id, messages))


@pytest.mark.parametrize(
    "change",
    [
        {"headers": None},
        {"headers": 7},
        {"headers": [7]},
        {"headers": [(b"x",)]},
        {"headers": Hostile()},
        {"raw_path": 7},
        {"raw_path": "/ng-rollout/r/v1/chat/completions"},
        {"raw_path": b"\xff/%ff"},
        {"query_string": None},
        {"query_string": "a=b"},
        {"query_string": 7},
        {"root_path": 7},
        {"method": None},
        {"http_version": 2},
        {"path": "/ng-rollout/r\udc80/v1/chat/completions", "raw_path": None},
        {"state": None},
        {"state": 7},
        {"state": Hostile()},
    ],
    ids=str,
)
async def test_odd_scopes_are_served(site: Site, change: dict[str, Any]) -> None:
    """A scope with a member of a wrong type is served; the call is recorded, or a fault or a gap tells of it."""
    await serve(site, scope(**change), ANSWER)
    settled = await site.store.asettle()
    known = [text_of(record) for name in site.store.rollouts() for record in site.store.read(name)]
    assert known == ["Hello"] or site.faults() or "method" in change
    assert not settled.pending


@pytest.mark.parametrize(
    "message",
    [
        start(headers=None),
        start(headers=7),
        start(headers=[(7, None), (b"x-request-id", "text")]),
        start(headers=iter([(b"content-type", b"text/event-stream")])),
        start(headers=Hostile()),
        start() | {"status": "200"},
        start() | {"status": None},
        body("text"),
        body(7),
        body(Hostile()),
        body(None),
        body(b"x", more="yes"),
        body(b"x", more=Hostile()),
        {"type": 7},
        {},
    ],
    ids=str,
)
async def test_odd_messages_are_passed_on(site: Site, message: Message) -> None:
    """A message with a member of a wrong type is passed on; the call is recorded, or named as a gap."""
    messages = [*([] if "status" in message else [start()]), message, *ANSWER[1:]]
    await serve(site, scope(), messages)
    settled = await site.store.asettle("r")
    assert not settled.pending
    assert len(site.store.read("r")) + len(settled.gaps) == 1


@pytest.mark.parametrize(
    "message", [{}, {"type": 7}, request(7), request(Hostile()), {"body": b"x"}], ids=str
)
async def test_odd_requests_are_passed_on(site: Site, message: Message) -> None:
    """A message from the server with a member of a wrong type reaches the application; the call is recorded."""
    seen: list[Message] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(await receive())
        for each in ANSWER:
            await send(each)

    server = Server([message])
    await site.around(app)(scope(), server.receive, server.send)
    assert seen[0] is message
    assert text_of(await site.record()) == "Hello"


async def test_a_pipeline_that_ends_under_a_call(site: Site) -> None:
    """A call that is open when the pipeline ends is served, and named as a gap; the next one is recorded."""

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        await says(*ANSWER[:2])(inner, receive, send)
        site.close()
        await send(ANSWER[2])

    server = Server([request()])
    await site.around(app)(scope(), server.receive, server.send)
    assert server.sent == ANSWER
    await serve(site, scope(), ANSWER)
    settled = await site.store.asettle("r")
    assert ([gap.code for gap in settled.gaps], len(site.store.read("r"))) == (["lost"], 1)


async def test_an_exchange_that_cannot_be_framed(site: Site) -> None:
    """An exchange of which no frame can be made is a counted failure, and those around it are recorded."""
    pipeline = site.pipeline
    await serve(site, scope(), ANSWER)
    pipeline.offer(exchange("chat", stem="bad", path="\ud800", call_id=bytes(16)), None)
    await serve(site, scope(), ANSWER)
    assert len(await site.records()) == 2
    assert pipeline.drain(5)
    assert [gap.code for gap in site.store.gaps("bad")] == ["failed"]


async def test_sends_that_overlap(site: Site) -> None:
    """An application that returns while a `send` of its own still waits loses nothing of what it sent."""
    server = Server([request()])
    begun, held = anyio.Event(), anyio.Event()

    async def slow_send(message: Message) -> None:
        if message == ANSWER[1]:
            begun.set()
            await held.wait()
        await server.send(message)

    async def send_quietly(send: Send) -> None:
        await send(ANSWER[1])

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(ANSWER[0])
        group.start_soon(send_quietly, send)
        await begun.wait()
        await send(ANSWER[2])

    async with anyio.create_task_group() as group:
        await site.around(app)(scope(), server.receive, slow_send)
        held.set()
    record = await site.record()
    assert text_of(record) == "Hello"
    assert record.http.response_bytes == len(PIECE + REST)
    assert record.timing.send_wait_ms is not None
    assert 0 <= record.timing.send_wait_ms < 60_000
