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

from .annotate import CurrentExchange, send_late_notes, taken
from .failures import describe, source_of
from .kept import Kept
from .recorder import Recorder
from .routes import Route
from .secrets import mask_query, reduce_headers

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_clock = time.monotonic_ns


class Tap:
    """The observer of one exchange."""

    __slots__ = (
        "_complete",
        "_disconnect",
        "_done",
        "_double_start",
        "_failure",
        "_headers",
        "_listened",
        "_recorder",
        "_request",
        "_request_read",
        "_response",
        "_response_start",
        "_route",
        "_scope",
        "_send_wait",
        "_slot",
        "_started_at",
        "_status",
        "_times",
        "_zero",
        "exchange",
        "seq",
    )

    def __init__(self, recorder: Recorder, route: Route, scope: Scope) -> None:
        self._zero = _clock()
        self._started_at = time.time()
        self._recorder = recorder
        self._route = route
        self._scope = scope
        self.seq, call_id = recorder.next_call()
        stem = route.stem or recorder.uncorrelated_stem(self._started_at)
        self.exchange = CurrentExchange(call_id, route.rollout_id, stem, route.dialect)
        self._slot = recorder.open(call_id, self._started_at, stem)
        limit = recorder.body_max_bytes
        self._request = Kept(recorder.budget, limit)
        self._response = Kept(recorder.budget, limit)
        self._times: list[int] = []
        self._send_wait = 0
        self._status: int | None = None
        self._headers: Any = None
        self._request_read: int | None = None
        self._response_start: int | None = None
        self._disconnect: int | None = None
        self._failure: Failure | None = None
        self._listened = self._double_start = self._complete = self._done = False

    def wrap(self, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """Return the two callables that the application gets."""
        saw_request, saw_response = self._saw_request, self._saw_response
        count_error = self._recorder.count_error

        async def tapped_receive() -> Message:
            self._listened = self._request_read is not None
            message = await receive()
            try:
                saw_request(message)
            except Exception as error:  # noqa: BLE001 - capture may be broken, serving may not: counted
                count_error(error)
            return message

        async def tapped_send(message: Message) -> None:
            now = _clock()
            last = False
            try:
                last = saw_response(message, now)
            except Exception as error:  # noqa: BLE001 - as above
                count_error(error)
            try:
                await send(message)
            except BaseException as error:
                self._send_raised(error, last=last)
                raise
            self._send_wait += _clock() - now
            if last:
                self._complete = True
                self.end(None)

        return tapped_receive, tapped_send

    def end(self, error: BaseException | None) -> None:
        """Hand the exchange over, unless that was done; `error` is what the application raised."""
        if self._done:
            return
        self._done = True
        ended = _clock() - self._zero
        recorder = self._recorder
        try:
            digests = self._request.release(), self._response.release()
            if self.exchange.skipped:
                recorder.skip(self._slot)
                return
            if error is not None and self._failure is None:
                self._failure = describe(error, source_of(error))
            notes = taken(self.exchange)
            send_late_notes(self.exchange, recorder.offer_note)
            recorder.offer(self._raw_exchange(ended, digests, notes), self._slot)
        except Exception as fault:  # noqa: BLE001 - as above
            recorder.count_error(fault)

    def _saw_request(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.request":
            body = message.get("body")
            if body:
                self._request.keep(body)
            if not message.get("more_body"):
                self._request_read = _clock() - self._zero
        elif kind == "http.disconnect" and self._disconnect is None and not self._done:
            self._disconnect = _clock() - self._zero

    def _saw_response(self, message: Message, now: int) -> bool:
        """Note a message on its way to the client; whether it is the last one."""
        kind = message["type"]
        if kind == "http.response.body":
            body = message.get("body")
            if body and self._response.keep(body):
                self._times.append(now - self._zero)
            return not message.get("more_body")
        if kind == "http.response.start":
            if self._response_start is not None:
                self._double_start = True
                return False
            self._status = message.get("status")
            self._headers = message.get("headers")
            self._response_start = now - self._zero
        return False

    def _send_raised(self, error: BaseException, *, last: bool) -> None:
        """Keep what the server's `send` raised first: the application may hide it behind one of its own."""
        if self._failure is None and isinstance(error, Exception):
            self._failure = describe(error, "send")
        if last:
            self.end(error)

    def _raw_exchange(
        self,
        ended: int,
        digests: tuple[bytes | None, bytes | None],
        notes: tuple[dict[str, Any] | None, list[dict[str, Any]] | None],
    ) -> RawExchange:
        scope, route, exchange = self._scope, self._route, self.exchange
        return RawExchange(
            call_id=exchange.call_id,
            seq=self.seq,
            rollout_id=route.rollout_id,
            stem=exchange.stem,
            dialect=exchange.dialect,
            correlation=route.correlation,
            method=scope["method"],
            path=route.path,
            query=mask_query(scope.get("query_string") or b""),
            http_version=scope.get("http_version"),
            request_headers=reduce_headers(scope["headers"]),
            response_headers=reduce_headers(self._headers or ()),
            status_code=self._status,
            started_at=self._started_at,
            request_read_ns=self._request_read,
            response_start_ns=self._response_start,
            disconnect_ns=self._disconnect,
            ended_ns=ended,
            send_wait_ns=self._send_wait,
            response_complete=self._complete,
            listened=self._listened,
            double_start=self._double_start,
            failure=self._failure,
            request_chunks=tuple(self._request.chunks),
            response_chunks=tuple(self._response.chunks),
            response_times_ns=tuple(self._times),
            request_bytes=self._request.size,
            response_bytes=self._response.size,
            request_sha256=digests[0],
            response_sha256=digests[1],
            annotations=notes[0],
            events=notes[1],
        )
