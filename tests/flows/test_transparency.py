"""Capture is invisible: messages, scopes and exceptions pass as they are, whatever an application does."""

import copy
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from capture import CaptureMiddleware, current
from capture.tap import Message, Receive, Scope, Send
from tests.flows.driving import (
    ASKED,
    DISCONNECT,
    PIECE,
    REST,
    Server,
    Site,
    body,
    request,
    says,
    scope,
    start,
    text_of,
)

pytestmark = pytest.mark.anyio


async def test_messages_are_the_same_objects(site: Site) -> None:
    """Every message arrives as the very object that was sent, in both directions and in order."""
    outgoing = [start(), body(PIECE), {"type": "http.response.debug"}, body(REST), body(b"", more=False)]
    incoming = [request(ASKED[:9], more=True), request(ASKED[9:]), DISCONNECT]
    read: list[Message] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        read.extend([await receive() for _ in incoming])
        for message in outgoing:
            await send(message)

    before = copy.deepcopy((incoming, outgoing))
    server = Server(incoming)
    await site.around(app)(scope(), server.receive, server.send)
    assert list(map(id, read)) == list(map(id, incoming))
    assert list(map(id, server.sent)) == list(map(id, outgoing))
    assert (incoming, outgoing) == before
    assert text_of(await site.record()) == "Hello"


async def test_the_scope_is_not_mutated(site: Site) -> None:
    """The application gets its own path and the exchange in its state; the server's scope stays as it was."""
    given = scope()
    before = {**given, "state": {**given["state"]}}
    seen: list[Scope] = []

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        seen.append(inner)
        inner["state"]["more"] = 1
        await says(start(), body(PIECE + REST, more=False))(inner, receive, send)

    server = Server([request()])
    await site.around(app)(given, server.receive, server.send)
    assert given == before
    assert (seen[0]["path"], seen[0]["raw_path"]) == ("/v1/chat/completions", b"/v1/chat/completions")
    assert seen[0]["state"]["mine"] is given["state"]["mine"]
    assert seen[0]["state"]["capture"].model_call_id == (await site.record()).model_call_id


async def test_keys_that_asgi_leaves_out(site: Site) -> None:
    """Messages and scopes without any of their optional keys are served and recorded."""
    bare: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/ng-rollout/r/v1/chat/completions",
        "headers": [],
    }
    messages: list[Message] = [
        {"type": "http.response.start", "status": 200},
        {"type": "http.response.body", "body": PIECE + REST, "more_body": True},
        {"type": "http.response.body", "more_body": True},
        {"type": "http.response.body"},
    ]
    server = Server([{"type": "http.request"}])
    await site.around(says(*messages))(bare, server.receive, server.send)
    record = await site.record()
    assert list(map(id, server.sent)) == list(map(id, messages))
    assert (record.complete, record.http.request_bytes, text_of(record)) == (True, 0, "Hello")


@pytest.mark.parametrize("kind", ["websocket", "zz", "lifespan"])
async def test_other_scopes_pass_untouched(site: Site, kind: str) -> None:
    """What is not HTTP reaches the application as it is, its exception comes back, and nothing is recorded."""
    error = RuntimeError("no such protocol here")
    other: Scope = {"type": kind, "path": "/v1/responses", "asgi": {"version": "3.0"}}
    server = Server([{"type": f"{kind}.startup"}])
    seen: list[object] = []

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        seen.extend((inner, await receive()))
        await send({"type": f"{kind}.sent"})
        raise error

    with pytest.raises(RuntimeError) as raised:
        await site.around(app)(other, server.receive, server.send)
    assert raised.value is error
    assert seen[0] is other
    assert seen[1] is server.given[0]
    assert server.sent == [{"type": f"{kind}.sent"}]
    assert site.store.stems() == []


async def test_a_websocket_loses_its_prefix_only(site: Site) -> None:
    """Behind the prefix a WebSocket is served on its own path, with the server's own callables, and not recorded."""
    seen: list[Any] = []

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        seen.extend((inner["path"], inner["state"], receive, send))

    server = Server()
    given = scope("/ng-rollout/r/v1/realtime", type="websocket")
    receive, send = server.receive, server.send
    await site.around(app)(given, receive, send)
    assert seen == ["/v1/realtime", given["state"], receive, send]
    assert given["path"] == "/ng-rollout/r/v1/realtime"
    assert site.store.stems() == []


async def test_bodies_are_copied_before_they_are_reused(site: Site) -> None:
    """A buffer that the application fills again after each `send` is recorded as it was sent."""
    buffer = bytearray(len(PIECE))
    wide = memoryview(REST + b"\n" * (-len(REST) % 4)).cast("I")

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(start())
        for data in (PIECE, PIECE.replace(b"Hel", b"lo ")):
            buffer[:] = data
            await send(body(buffer))
            await send(body(memoryview(buffer)[:0]))
        buffer[:] = bytes(len(buffer))
        await send(body(wide, more=False))

    server = Server([request()])
    await site.around(app)(scope(), server.receive, server.send)
    record = await site.record()
    assert text_of(record) == "Hello lo"
    assert record.http.response_bytes == 2 * len(PIECE) + wide.nbytes
    assert server.sent[1]["body"] is buffer


async def test_an_application_that_never_reads(site: Site) -> None:
    """An answer without a look at the request is recorded, and nothing is read in the application's place."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start())
        await send(body(PIECE + REST, more=False))

    server = Server([request()])
    await site.around(app)(scope(), server.receive, server.send)
    record = await site.record()
    assert server.given == []
    assert (record.complete, record.delivery, record.request, text_of(record)) == (
        True,
        "unknown",
        None,
        "Hello",
    )


async def test_an_exchange_ends_with_its_last_message(site: Site) -> None:
    """What an application does after its last message, even raising, is passed on but is no part of the exchange."""
    error = ValueError("in the background")

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        await says(start(), body(PIECE + REST, more=False))(inner, receive, send)
        assert text_of(await site.record()) == "Hello"
        raise error

    server = Server([request()])
    with pytest.raises(ValueError, match="in the background") as raised:
        await site.around(app)(scope(), server.receive, server.send)
    assert raised.value is error
    assert (await site.record()).error_category is None


async def test_the_current_exchange_ends_with_it(site: Site) -> None:
    """Notes that are made after an exchange, or around it, reach no exchange that they do not belong to."""
    inner_app = site.around(says(start(), body(PIECE + REST, more=False)))
    inner, outer = Server([request()]), Server([request()])

    async def app(outer_scope: Scope, receive: Receive, send: Send) -> None:
        mine = current().model_call_id
        await inner_app(scope("/ng-rollout/other/v1/chat/completions"), inner.receive, inner.send)
        assert current().model_call_id == mine
        current().annotate(who="outer")
        await says(start(), body(PIECE + REST, more=False))(outer_scope, receive, send)

    await site.around(app)(scope(), outer.receive, outer.send)
    assert current().model_call_id == ""
    assert (await site.record()).annotations == {"who": "outer"}
    assert (await site.record("other")).annotations is None


def test_two_loops_in_two_threads(site: Site) -> None:
    """One middleware object serves two event loops at once, and each of their calls is recorded once."""
    middleware = site.around(says(start(), body(PIECE + REST, more=False)))

    async def serve() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(50):
                server = Server([request()])
                group.start_soon(middleware, scope(), server.receive, server.send)

    threads = [
        threading.Thread(target=anyio.run, args=(serve,), kwargs={"backend": name}) for name in BACKENDS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = anyio.run(site.records)
    assert len({record.model_call_id for record in records}) == len(records) == 100
    assert all(record.complete for record in records)


BACKENDS = ("asyncio", "trio")

PATHS = [
    ("/r/a1/v1/messages", "a1"),
    ("/rx/v1/messages", None),
    ("/r/", None),
    ("/r//v1/messages", None),
    ("/r/a1", None),
    ("/r/r/v1/messages", "r"),
]
"""A path, and the rollout that it names under the prefix `/r`."""


@pytest.mark.parametrize("place", ["outermost", "mounted", "root_path"])
@pytest.mark.parametrize(("path", "rollout"), PATHS)
async def test_prefixes_end_at_segments(tmp_path: Path, place: str, path: str, rollout: str | None) -> None:
    """A path carries the prefix by whole segments, outermost, behind a mount and behind a server's root path."""
    site = Site(tmp_path / "records", rollout_prefix="/r")
    seen: list[tuple[str, bytes]] = []

    async def messages(asked: Request) -> JSONResponse:
        seen.append((asked.scope["path"], asked.scope["raw_path"]))
        return JSONResponse({"type": "message", "content": []})

    root = {"outermost": "", "mounted": "/api", "root_path": "/v1"}[place]
    app: Any = Starlette(routes=[Route("/v1/messages", messages, methods=["POST"])])
    captured = site.around(app)
    if place == "mounted":
        captured = Starlette(routes=[Mount("/api", captured)])  # type: ignore[assignment]
    server = Server([request(b"{}")])
    given = scope(root + path, root_path="" if place == "mounted" else root)
    await captured(given, server.receive, server.send)
    assert (await site.store.asettle()).complete
    assert site.store.rollouts() == ([rollout] if rollout else [])
    assert seen == ([(f"{root}/v1/messages", f"{root}/v1/messages".encode())] if rollout else [])
    assert server.sent[0]["status"] == (200 if rollout else 404)
    site.close()


async def test_a_capture_inside_a_capture_passes_through(site: Site) -> None:
    """Two middlewares around one application record each call once."""
    app = CaptureMiddleware(site.around(says(start(), body(PIECE + REST, more=False))), site.config)
    server = Server([request()])
    await app(scope(), server.receive, server.send)
    assert (await site.record()).complete
