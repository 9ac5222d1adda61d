"""Gaps on their way to their files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import outbox as module
from pipeline import slots
from pipeline.intake import Ended
from pipeline.ledger import Ledger, new_identity
from pipeline.outbox import RETRY_S, Outbox
from pipeline.settings import PipelineSettings


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Give a ledger."""
    settings = PipelineSettings(directory=str(tmp_path))
    made = Ledger(settings, new_identity(settings))
    yield made
    made.close()


def dropped(ledger: Ledger | None, stem: str = "s") -> Ended:
    """Make a dropped call, with a slot where there is a ledger to take it from."""
    slot = None if ledger is None else ledger.open(b"i" * 16, 1.5, stem.encode())
    return Ended(slot, slots.DROPPED, b"i" * 16, stem, 1.5)


def test_a_slot_is_given_back_when_its_gap_is_durable(ledger: Ledger) -> None:
    """A gap is due at once, and its call is counted only when the line is in its file."""
    outbox = Outbox(ledger)
    outbox.name(dropped(ledger), "dropped", "why")
    (parcel,) = outbox.due(0.0)
    assert (parcel.event.stem, parcel.event.gap.code, parcel.event.gap.detail) == ("s", "dropped", "why")
    assert parcel.event.gap.model_call_id == (b"i" * 16).hex()
    assert (ledger.in_use, ledger.counts["dropped"]) == (1, 0)
    outbox.end(parcel, 0.0, committed=True)
    assert (ledger.in_use, ledger.counts["dropped"], bool(outbox)) == (0, 1, False)


def test_a_gap_that_could_not_be_written_is_due_again(ledger: Ledger) -> None:
    """After a failure the line waits a while and comes again, as often as it takes."""
    outbox = Outbox(ledger)
    outbox.name(dropped(ledger), "dropped", None)
    now = 10.0
    for _ in range(3):
        (parcel,) = outbox.due(now)
        outbox.end(parcel, now, committed=False)
        assert outbox.due(now + RETRY_S / 2) == []
        assert outbox
        now += RETRY_S
    assert ledger.in_use == 1


def test_gaps_without_a_slot_are_bounded(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on their way to a stuck worker count too; beyond the bound a call is counted and its line let go."""
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    outbox = Outbox(ledger)
    parcels = []
    for _ in range(5):
        outbox.name(dropped(None), "dropped", None)
        parcels += outbox.due(0.0)
    assert len(parcels) == 3
    assert (ledger.counts["dropped"], ledger.counts["gaps_unwritten"]) == (2, 2)
    outbox.name(dropped(ledger), "dropped", None)
    assert len(outbox.due(0.0)) == 1
    for parcel in parcels:
        outbox.end(parcel, 0.0, committed=True)
    assert ledger.counts["dropped"] == 5
