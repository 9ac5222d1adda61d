"""`current()`: a handler's notes on its own exchange, and what it may decide about it.

Plain in-memory calls, checked where they are made: a value that could not be stored raises here, in the handler,
not later in a thread that nobody watches. Notes that come after the exchange was handed over (from a background
task, say) travel on their own and are joined by call id when the rollout is read.
"""

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from pipeline.exchange import Annotation

DIALECTS: Final = ("chat", "responses", "messages")


class CurrentExchange:
    """The exchange that a handler is serving now. Get it by `current()` or as `request.state.capture`."""

    __slots__ = ("_annotations", "_dialect", "_events", "_late", "call_id", "rollout_id", "skipped", "stem")

    def __init__(self, call_id: bytes, rollout_id: str | None, stem: str, dialect: str) -> None:
        self.call_id = call_id
        self.rollout_id = rollout_id
        self.skipped = False
        self.stem = stem
        self._dialect = dialect
        self._annotations: dict[str, Any] | None = None
        self._events: list[dict[str, Any]] | None = None
        self._late: Callable[[Annotation], None] | None = None

    @property
    def model_call_id(self) -> str:
        """The id under which the record of this exchange will be found: 32 hexadecimal digits."""
        return self.call_id.hex()

    @property
    def dialect(self) -> str:
        """The wire format by which the bodies are read; may be set where the path says it wrongly."""
        return self._dialect

    @dialect.setter
    def dialect(self, value: str) -> None:
        if value not in DIALECTS:
            raise ValueError(f"dialect={value!r} is none of {', '.join(DIALECTS)}")
        self._dialect = value

    def annotate(self, **values: Any) -> None:  # noqa: ANN401 - whatever JSON can say
        """Add values to the record's `annotations`; a later value of the same name wins.

        Raises TypeError for a value that is neither JSON nor plainly convertible to it.
        """
        checked = _storable(values)
        if self._late is not None:
            self._late(Annotation(call_id=self.call_id, stem=self.stem, annotations=checked))
        else:
            self._annotations = {**(self._annotations or {}), **checked}

    def event(
        self,
        name: str,
        started_at: float,
        ended_at: float | None = None,
        *,
        call_id: str | None = None,
        **values: Any,  # noqa: ANN401 - whatever JSON can say
    ) -> None:
        """Add one timed event (a tool's run, say) to the record's `events`. Times are Unix seconds.

        `call_id` is the tool call that it belongs to. Raises TypeError for values that cannot be stored, and
        ValueError where it ends before it starts.
        """
        ended = time.time() if ended_at is None else ended_at
        if ended < started_at:
            raise ValueError(f"ended_at={ended} is before started_at={started_at}")
        event = {"name": name, "started_at": started_at, "ended_at": ended, "call_id": call_id, **values}
        checked = _storable(event)
        if self._late is not None:
            self._late(Annotation(call_id=self.call_id, stem=self.stem, events=[checked]))
        else:
            self._events = [*(self._events or []), checked]

    def skip(self) -> None:
        """Do not record this exchange; it is counted as skipped. Too late once the response is complete."""
        self.skipped = True

    def hand_over(
        self, offer: Callable[[Annotation], None]
    ) -> tuple[dict[str, Any] | None, list[dict[str, Any]] | None]:
        """Return what was noted so far; from now on notes travel on their own, by `offer`. The edge's call."""
        self._late = offer
        return self._annotations, self._events


NOWHERE: Final = CurrentExchange(b"", None, "", "chat")
"""What `current()` gives where nothing is captured: notes on it go nowhere, so handlers need no condition."""

_current: ContextVar[CurrentExchange] = ContextVar("model_call_capture_current", default=NOWHERE)


def current() -> CurrentExchange:
    """Return the exchange this handler serves; where none is captured, one whose notes go nowhere."""
    found = _current.get()
    return CurrentExchange(b"", None, "", "chat") if found is NOWHERE else found


def enter(exchange: CurrentExchange) -> CurrentExchange:
    """Make `exchange` the current one of this task, and return the one it was inside of. The edge's call."""
    outer = _current.get()
    _current.set(exchange)
    return outer


def leave(exchange: CurrentExchange, outer: CurrentExchange) -> None:
    """Undo `enter`, unless another task ends the exchange than began it. The edge's call.

    A token would not do: it can be reset in its own context only, and a stream that is dropped ends anywhere.
    """
    if _current.get() is exchange:
        _current.set(outer)


def _storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Copy values as plain JSON types. Raises TypeError."""
    try:
        plain: dict[str, Any] = msgspec.to_builtins(dict(values), str_keys=True)
        msgspec.msgpack.encode(plain)
    except (ValueError, OverflowError, RecursionError) as error:
        raise TypeError(f"cannot be stored: {error}") from error
    return plain
