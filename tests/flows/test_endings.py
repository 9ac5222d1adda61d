"""How exchanges end: exceptions, cancellations and lost clients cross capture unchanged, each leaving one record."""

from collections.abc import Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from capture import StoredRecord
from capture.tap import Message, Receive, Scope, Send
from tests.flows.driving import (
    DISCONNECT,
    PIECE,
    REST,
    App,
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


class ProviderError(Exception):
    """An exception that carries a status, as frameworks' and clients' do."""

    status_code = 503


def raises(error: BaseException, *messages: Message) -> App:
    """Make an application that sends these messages, then raises."""

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        await says(*messages)(inner, receive, send)
        raise error

    return app


def ending(record: StoredRecord) -> tuple[Any, ...]:
    """Return what a record says of its end."""
    source = record.error.source if record.error else None
    return record.error_category, source, record.delivery, record.complete, record.status_code


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (ValueError("no"), "exception"),
        (TimeoutError(), "timeout"),
        (ConnectionResetError(), "connection"),
        (ProviderError(), "upstream_error"),
        (SystemExit(3), "exception"),
    ],
    ids=["plain", "timeout", "connection", "status", "exit"],
)
@pytest.mark.parametrize("begun", [True, False], ids=["streaming", "before"])
async def test_an_application_that_raises(
    site: Site, error: BaseException, category: str, *, begun: bool
) -> None:
    """Its very exception comes back, and is recorded by its class with what was answered before."""
    sent = [start(), body(PIECE), body(PIECE)] if begun else []
    server = Server([request()])
    with pytest.raises(type(error)) as raised:
        await site.around(raises(error, *sent))(scope(), server.receive, server.send)
    record = await site.record()
    assert raised.value is error
    assert server.sent == sent
    assert ending(record) == (category, "app", "failed", False, 200 if begun else None)
    assert record.error is not None
    assert record.error.type == f"{type(error).__module__}.{type(error).__qualname__}"
    assert (text_of(record) if begun else record.response) == ("HelHel" if begun else None)


async def test_an_application_that_answers_nothing(site: Site) -> None:
    """An application that returns without a response is recorded as a failure of its own."""
    server = Server([request()])
    await site.around(says())(scope(), server.receive, server.send)
    assert ending(await site.record()) == ("exception", "app", "failed", False, None)
    assert server.sent == []


async def test_a_second_start(site: Site) -> None:
    """A response that starts twice passes as it is; the first status is kept, and the second flagged."""
    messages = [start(), body(PIECE), start(500), body(REST, more=False)]
    server = Server([request()])
    await site.around(says(*messages))(scope(), server.receive, server.send)
    record = await site.record()
    assert server.sent == messages
    assert (record.status_code, record.flags, text_of(record)) == (200, ["double_start"], "Hello")


@pytest.mark.parametrize("own", [None, ClientDisconnect()], ids=["passed", "hidden"])
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_send_that_raises(site: Site, at: int, own: Exception | None) -> None:
    """A lost connection comes back as raised, and what passed before is recorded as the client's doing."""
    lost = OSError("gone")
    messages = [start(), body(PIECE), body(REST, more=False)]
    server = Server([request()], fail_at=at, failure=lost)

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        try:
            await says(*messages)(inner, receive, send)
        except OSError as error:
            raise own or error from None

    with pytest.raises((OSError, ClientDisconnect)) as raised:
        await site.around(app)(scope(), server.receive, server.send)
    record = await site.record()
    assert raised.value is (own or lost)
    assert server.sent == messages[:at]
    assert ending(record) == ("cancelled", "client", "client_gone", False, 200 if at else None)
    assert (record.http.response_bytes, record.timing.chunks) == ((0, 0), (0, 0), (len(PIECE), 1))[at]


async def test_a_message_that_the_server_refuses(site: Site) -> None:
    """An exception of the server's `send` that speaks of the message is the application's, not the client's."""
    server = Server([request()], fail_at=2, failure=RuntimeError("unexpected message"))
    with pytest.raises(RuntimeError):
        await site.around(says(start(), body(PIECE), start(500)))(scope(), server.receive, server.send)
    record = await site.record()
    assert ending(record) == ("exception", "app", "failed", False, 200)
    assert (record.flags, text_of(record)) == (["double_start"], "Hel")


@pytest.mark.parametrize("listening", [False, True], ids=["server", "client"])
async def test_a_cancelled_exchange(site: Site, *, listening: bool) -> None:
    """A cancellation, repeated while the application cleans up, comes back as it was."""
    seen: list[BaseException] = []
    server = Server([request(), *([DISCONNECT] if listening else [])])

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        await says(start(), body(PIECE))(inner, receive, send)
        if listening:
            await receive()
        stopped.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            await anyio.lowlevel.checkpoint()  # raises again: the scope is still cancelled

    async def observed() -> None:
        try:
            await site.around(app)(scope(), server.receive, server.send)
        except BaseException as error:
            seen.append(error)
            raise

    with anyio.CancelScope() as stopped:
        await observed()
    record = await site.record()
    assert isinstance(seen[0], anyio.get_cancelled_exc_class())
    assert ending(record)[:3] == (
        ("cancelled", "client", "client_gone") if listening else ("cancelled", "app", "failed")
    )
    assert text_of(record) == "Hel"


class Suspension:
    """Something to await that never comes, on no event loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def test_a_closed_coroutine(site: Site) -> None:
    """A stream that is dropped by closing its coroutine, outside of any loop, leaves its partial answer."""
    server = Server([request()])

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        await says(start(), body(PIECE))(inner, receive, send)
        await Suspension()

    coroutine: Any = site.around(app)(scope(), server.receive, server.send)
    coroutine.send(None)
    coroutine.close()
    (record,) = anyio.run(site.records)
    assert (ending(record)[0], text_of(record)) == ("cancelled", "Hel")


async def test_an_application_that_goes_on_without_its_client(site: Site) -> None:
    """An answer that is finished although its client was seen to leave is complete."""
    server = Server([request(), DISCONNECT])

    async def app(inner: Scope, receive: Receive, send: Send) -> None:
        await says(start(), body(PIECE))(inner, receive, send)
        await receive()
        await send(body(REST, more=False))

    await site.around(app)(scope(), server.receive, server.send)
    record = await site.record()
    assert (ending(record), text_of(record)) == ((None, None, "client_gone", True, 200), "Hello")


class EndingServer(Server):
    """A server that says `http.disconnect` once the response is over, while its last `send` still waits."""

    def __init__(self) -> None:
        super().__init__([request()])
        self._over = anyio.Event()

    async def receive(self) -> Message:
        """Give the request, then wait for the response to be over."""
        if not self.incoming:
            await self._over.wait()
            return DISCONNECT
        return await super().receive()

    async def send(self, message: Message) -> None:
        """Take a message; the last one for ever, or until the application is done with it."""
        await super().send(message)
        if message["type"] == "http.response.body" and not message["more_body"]:
            self._over.set()
            await anyio.sleep_forever()


async def test_the_end_of_a_response_is_no_client_that_left(site: Site) -> None:
    """A disconnect by which a server tells the end of a response is no failure, though it cancels the last `send`."""

    async def stream(inner: Scope, receive: Receive, send: Send) -> None:
        await receive()
        response = StreamingResponse(iter([PIECE, REST]), media_type="text/event-stream")
        await response(inner, receive, send)

    server = EndingServer()
    await site.around(stream)(scope(), server.receive, server.send)
    assert ending(await site.record()) == (None, None, "sent", True, 200)


class RefusedError(Exception):
    """An upstream's refusal, as the clients of an application raise it."""

    status = 429
    response_content = b'{"error":{"message":"slow down","code":"rpm"}}'


async def test_a_raised_upstream_error_keeps_its_body(site: Site) -> None:
    """Status, code and body of an answer that the application raised instead of passing on are in the record."""
    server = Server([request()])
    with pytest.raises(RefusedError):
        await site.around(raises(RefusedError()))(scope(), server.receive, server.send)
    record = await site.record()
    assert record.error_category == "rate_limit"
    assert record.error is not None
    assert (record.error.code, record.error.source) == ("rpm", "app")
    assert record.response_raw == RefusedError.response_content.decode()
    assert (record.response, record.status_code) == (None, None)


async def test_a_body_that_cannot_be_read_is_left_out(site: Site) -> None:
    """An exception whose body raises when it is looked at is recorded without one."""

    class UnreadError(Exception):
        @property
        def response(self) -> None:
            raise RuntimeError("not read")

    server = Server([request()])
    with pytest.raises(UnreadError):
        await site.around(raises(UnreadError()))(scope(), server.receive, server.send)
    record = await site.record()
    assert (record.error_category, record.response_raw) == ("exception", None)
