"""Every ASGI message of one exchange, and two clocks, into one `RawExchange`.

A Tap sees everything and answers nothing: `wrap` makes two callables that pass each message on as the same object,
at once, and tell the Tap. Whatever goes wrong in here is counted while the request goes on. The exchange is handed
over once, as soon as `await send(last message)` has returned or raised, or by `end` where no last message ever came.
What the application does afterwards is not part of the exchange.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from pipeline.exchange import Failure, RawExchange

from .annotate import CurrentExchange
from .failures import describe, source_of, source_of_send
from .kept import Kept
from .recorder import Recorder
from .routes import Route
from .secrets import mask_query, reduce_headers

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_clock = time.monotonic


class Tap:
    """The observer of one exchange. What most exchanges never see or change has its value in the class."""

    _headers: Any = ()
    _status: int | None = None
    _request_read: int | None = None
    _start: int | None = None
    _disconnect: int | None = None
    _failure: Failure | None = None
    _listened = False
    _double_start = False
    _complete = False
    _done = False
    _closing = False
    _over = False

    def __init__(self, recorder: Recorder, route: Route, scope: Scope) -> None:
        self._zero = _clock()
        self._started_at = started_at = time.time()
        self._recorder = recorder
        self._route = route
        self._scope = scope
        self.seq, call_id = recorder.next_call()
        stem = route.stem or recorder.uncorrelated_stem(started_at)
        self.exchange = CurrentExchange(call_id, route.rollout_id, stem, route.dialect)
        self._slot = recorder.open(call_id, started_at, stem.encode())
        self._request = Kept(recorder.budget, recorder.body_max_bytes)
        self._response = Kept(recorder.budget, recorder.body_max_bytes)
        self._times: list[float] = []
        self._wait_so_far: Callable[[], float] = float

    def wrap_receive(self, receive: Receive) -> Receive:
        """Return the `receive` that the application gets."""
        saw_request, count_error = self._saw_request, self._recorder.count_error

        async def tapped_receive() -> Message:
            if self._request_read is not None:
                self._listened = True
            message = await receive()
            try:
                saw_request(message)
            except Exception as error:  # noqa: BLE001 - capture may be broken, serving may not: counted
                count_error(error)
            return message

        return tapped_receive

    def wrap_send(self, send: Send) -> Send:
        """Return the `send` that the application gets.

        A plain chunk takes the short way: two list items, two clocks and two sums. What is no bytes, lacks a key or
        crosses the allowance takes the long one.
        """
        saw_response, response = self._saw_response, self._response
        keep, keep_time = response.chunks.append, self._times.append
        size, allowance, begun, waited = 0, response.allowance, False, 0.0
        self._wait_so_far = lambda: waited

        async def tapped_send(message: Message) -> None:
            nonlocal size, allowance, begun, waited
            now = _clock()
            plain = False
            if begun:
                try:
                    body, more = message["body"], message["more_body"]
                    plain = more is True and type(body) is bytes and (grown := size + len(body)) <= allowance
                except Exception:  # noqa: BLE001, S110 - the long way looks closer, and counts what is a fault
                    pass
            if plain:
                size = grown
                keep(body)
                keep_time(now)
            else:
                more, added = saw_response(message, now, size)
                size, allowance, begun = size + added, response.allowance, True
            try:
                await send(message)
            except BaseException as error:
                size -= self._send_raised(error, message, len(body) if plain else added, last=not more)
                raise
            waited += _clock() - now
            if not more:
                self._sent_last(size)

        return tapped_send

    def end(self, error: BaseException | None) -> None:
        """Hand the exchange over, unless that was done; `error` is what the application raised."""
        if self._done:
            return
        self._done = True
        recorder = self._recorder
        try:
            digests = self._request.release(), self._response.release()
            if self.exchange.skipped:
                recorder.skip(self._slot)
                return
            if error is not None and self._failure is None:
                self._failure = describe(error, source_of(error))
            recorder.offer(self._raw_exchange(_clock(), *digests), self._slot)
        except Exception as fault:  # noqa: BLE001 - as above
            exchange = self.exchange
            recorder.fail(fault, self._slot, exchange.call_id, exchange.stem, self._started_at)

    def _since(self, now: float) -> int:
        """Return nanoseconds since the scope was received."""
        return int((now - self._zero) * 1e9)

    def _saw_request(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.request":
            body = message.get("body")
            if body:
                kept = self._request
                data = body if type(body) is bytes else bytes(body)
                size = len(data) + (kept.kept_size or 0)
                if kept.keep(data, size):
                    kept.kept_size = size
            if not message.get("more_body"):
                self._request_read = int((_clock() - self._zero) * 1e9)
        elif kind == "http.disconnect":
            self._saw_disconnect()

    def _saw_disconnect(self) -> None:
        """Note that the client left, unless the last message was sent before.

        ASGI tells an application that the response is over by the same message. Under hypercorn it comes while the
        last `send` is still waiting, which a framework that listens then cancels.
        """
        if self._closing:
            self._over = True
        elif self._disconnect is None:
            self._disconnect = self._since(_clock())

    def _saw_response(self, message: Message, now: float, size: int) -> tuple[bool, int]:
        """Note any message on its way to the client: whether more is to come, and the bytes that were kept of it."""
        try:
            kind, data, more = message["type"], None, True
            if kind == "http.response.body":
                data = message.get("body")
                if not message.get("more_body"):
                    more, self._closing = False, True
            elif kind == "http.response.start":
                self._saw_start(message, now)
            return more, self._keep(data, now, size) if data else 0
        except Exception as fault:  # noqa: BLE001 - capture may be broken, serving may not: counted
            self._recorder.count_error(fault)
            return True, 0

    def _keep(self, body: Any, now: float, size: int) -> int:  # noqa: ANN401 - bytes, or what is sent in their place
        """Keep a chunk if it may be; return the bytes that were kept."""
        data = body if type(body) is bytes else bytes(body)
        if not self._response.keep(data, size + len(data)):
            return 0
        self._times.append(now)
        return len(data)

    def _saw_start(self, message: Message, now: float) -> None:
        if self._start is not None:
            self._double_start = True
            return
        self._start = self._since(now)
        status = message.get("status")
        self._status = status if type(status) is int else _plain_status(status)
        self._headers = message.get("headers") or ()

    def _sent_last(self, size: int) -> None:
        """End with the last message; `size` is that of the chunks that are kept."""
        if not self._done:
            self._response.kept_size = size
            self._complete = True
            self.end(None)

    def _send_raised(self, error: BaseException, message: Message, added: int, *, last: bool) -> int:
        """Take a message back that `send` raised on, and end if it was the last; return the bytes taken back."""
        size = self._take_back(error, message, added) if isinstance(error, Exception) else 0
        if last:
            self._end_refused(error)
        return size

    def _take_back(self, error: Exception, message: Message, added: int) -> int:
        """Keep what the server's `send` raised first: the application may hide it behind one of its own.

        A refused message did not cross the edge, and is taken back; whether a cancelled one did, nobody knows.
        `added` is what was kept of it. Returns the number of kept bytes that were taken back.
        """
        if self._failure is None:
            self._failure = describe(error, source_of_send(error))
        if added:
            self._times.pop()
            self._response.chunks.pop()
        elif (
            type(message) is dict and message.get("type") == "http.response.start" and not self._double_start
        ):
            self._start, self._status, self._headers = None, None, ()
        return added

    def _end_refused(self, error: BaseException) -> None:
        """End with a last message that `send` raised on; one that was cancelled for the response is over is whole."""
        self._complete = self._over and not isinstance(error, Exception)
        self.end(None if self._complete else error)

    def _raw_exchange(
        self, ended: float, request_sha256: bytes | None, response_sha256: bytes | None
    ) -> RawExchange:
        scope, route, exchange = self._scope, self._route, self.exchange
        annotations, events = exchange.hand_over(self._recorder.offer_note)
        query, version = scope.get("query_string"), scope.get("http_version")
        return RawExchange(
            exchange.call_id,
            self.seq,
            route.rollout_id,
            exchange.stem,
            exchange.dialect,
            route.correlation,
            scope["method"],
            route.path,
            mask_query(query) if query else "",
            self._started_at,
            self._since(ended),
            version if type(version) is str else None,
            reduce_headers(scope["headers"]),
            reduce_headers(self._headers),
            self._status,
            self._request_read,
            self._start,
            self._disconnect,
            int(self._wait_so_far() * 1e9),
            self._complete,
            self._listened,
            self._double_start,
            self._failure,
            tuple(self._request.chunks),
            tuple(self._response.chunks),
            (),
            tuple(self._times),
            self._zero,
            self._request.size,
            self._response.size,
            request_sha256,
            response_sha256,
            annotations,
            events,
        )


def _plain_status(status: object) -> int | None:
    """Return a status of an integer's kind (`http.HTTPStatus`) as a plain one; nothing for what is none."""
    return int(status) if isinstance(status, int) else None
