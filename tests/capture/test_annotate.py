"""A handler's notes on its own exchange, and what it may decide about it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from capture.annotate import CurrentExchange, current, enter, leave
from pipeline.exchange import Annotation


@pytest.fixture
def exchange() -> CurrentExchange:
    """Give an exchange that a handler serves."""
    return CurrentExchange(b"i" * 16, "r", "r", "chat")


def taken(exchange: CurrentExchange) -> tuple[dict[str, Any] | None, list[dict[str, Any]] | None]:
    """Take what was noted, as at hand-over."""
    return exchange.hand_over(lambda _: None)


def test_notes_are_gathered(exchange: CurrentExchange) -> None:
    """Later values of a name win, events stay in order, and the id is the record's."""
    exchange.annotate(score=1, kept=True)
    exchange.annotate(score=2)
    exchange.event("tool", 1.0, 2.0, call_id="c", ok=True)
    exchange.event("other", 3.0, 3.0)
    annotations, events = taken(exchange)
    assert annotations == {"score": 2, "kept": True}
    assert events is not None
    assert [event["name"] for event in events] == ["tool", "other"]
    assert events[0] == {"name": "tool", "started_at": 1.0, "ended_at": 2.0, "call_id": "c", "ok": True}
    assert exchange.model_call_id == "69" * 16


def test_an_event_without_an_end_ends_now(exchange: CurrentExchange) -> None:
    """The end of an event is the moment it is told."""
    exchange.event("tool", 1.0)
    _, events = taken(exchange)
    assert events is not None
    assert events[0]["ended_at"] > 1_700_000_000


def test_notes_are_copies(exchange: CurrentExchange) -> None:
    """What a handler does with its value afterwards changes no record."""
    value: dict[str, Any] = {"list": [1]}
    exchange.annotate(value=value)
    value["list"].append(2)
    assert taken(exchange)[0] == {"value": {"list": [1]}}


def test_values_with_a_plain_form_are_taken(exchange: CurrentExchange) -> None:
    """Times, sets and keys that are numbers become what JSON has for them."""
    exchange.annotate(at=datetime(2026, 1, 2, tzinfo=UTC), names={"x"}, by_number={1: "a"})
    assert taken(exchange)[0] == {"at": "2026-01-02T00:00:00Z", "names": ["x"], "by_number": {"1": "a"}}


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value", [object(), len, 1j, 1 << 70, "\udc80", _loop()], ids=lambda value: type(value).__name__
)
def test_what_cannot_be_stored_raises_in_the_handler(exchange: CurrentExchange, value: object) -> None:
    """A value without a JSON form raises TypeError where it is given, and nothing of the call is kept."""
    with pytest.raises(TypeError):
        exchange.annotate(good=1, bad=value)
    with pytest.raises(TypeError):
        exchange.event("tool", 1.0, 2.0, bad=value)
    assert taken(exchange) == (None, None)


def test_wrong_calls_raise(exchange: CurrentExchange) -> None:
    """An event that ends before it starts and a dialect that is none are the handler's mistakes."""
    with pytest.raises(ValueError, match="before"):
        exchange.event("tool", 2.0, 1.0)
    with pytest.raises(ValueError, match="responses"):
        exchange.dialect = "grpc"
    exchange.dialect = "messages"
    assert exchange.dialect == "messages"


def test_late_notes_travel_on_their_own(exchange: CurrentExchange) -> None:
    """After the hand-over each note is sent with the call's id; what was taken before is not sent again."""
    sent: list[Annotation] = []
    exchange.annotate(early=1)
    exchange.hand_over(sent.append)
    exchange.annotate(late=2)
    exchange.event("tool", 1.0, 2.0)
    assert [(note.call_id, note.stem, note.annotations) for note in sent] == [
        (b"i" * 16, "r", {"late": 2}),
        (b"i" * 16, "r", None),
    ]
    assert taken(exchange) == ({"early": 1}, None)


@pytest.mark.parametrize(
    "note", [lambda each: each.annotate(a=1), lambda each: each.skip(), lambda each: each.event("x", 1.0)]
)
def test_where_nothing_is_captured_notes_go_nowhere(note: Callable[[CurrentExchange], None]) -> None:
    """Outside of a captured exchange a handler needs no condition, and one call's notes never meet another's."""
    note(current())
    assert taken(current()) == (None, None)
    assert not current().skipped


def test_current_is_the_innermost(exchange: CurrentExchange) -> None:
    """Entering makes an exchange current, leaving brings back the one around it."""
    inner = CurrentExchange(b"j" * 16, "r", "r", "chat")
    outside = enter(exchange)
    around = enter(inner)
    assert current() is inner
    leave(inner, around)
    assert current() is exchange
    leave(inner, around)
    assert current() is exchange
    leave(exchange, outside)
    assert current() is not exchange
