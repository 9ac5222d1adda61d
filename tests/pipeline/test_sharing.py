"""One pipeline per process and directory."""

from pathlib import Path

import msgspec
import pytest

from pipeline import sharing
from pipeline.settings import PipelineSettings
from tests.pipeline.deadly import call_id
from tests.pipeline.test_frames import exchange


@pytest.fixture
def settings(tmp_path: Path) -> PipelineSettings:
    """Give settings with a worker thread."""
    return PipelineSettings(directory=str(tmp_path), worker_kind="thread", flush_interval_ms=1)


def test_who_joins_a_directory_shares_its_pipeline(settings: PipelineSettings, tmp_path: Path) -> None:
    """Two middlewares get one pipeline; the first to leave drains it, the last one ends it."""
    one = sharing.join(settings, in_main_thread=False)
    assert sharing.join(settings, in_main_thread=False) is one
    slot = one.ledger.open(call_id(1), 1.0, b"s")
    one.offer(exchange(failure=None), slot)
    sharing.leave(one)
    assert not one.closed
    assert (tmp_path / "s.capture.jsonl").exists()
    sharing.leave(one)
    assert one.closed


def test_other_settings_for_one_directory_are_refused(settings: PipelineSettings) -> None:
    """Two middlewares that disagree would each be half obeyed."""
    one = sharing.join(settings, in_main_thread=False)
    with pytest.raises(ValueError, match="other settings"):
        sharing.join(msgspec.structs.replace(settings, workers=2), in_main_thread=False)
    sharing.leave(one)
    assert one.closed


def test_a_new_pipeline_follows_an_ended_one(settings: PipelineSettings) -> None:
    """After the end the next to join gets a running pipeline under another name."""
    first = sharing.join(settings, in_main_thread=False)
    sharing.leave(first)
    second = sharing.join(settings, in_main_thread=False)
    assert second is not first
    assert second.identity.instance != first.identity.instance
    assert not second.closed
    sharing.leave(second)


def test_an_open_call_keeps_the_pipeline(settings: PipelineSettings, tmp_path: Path) -> None:
    """The last to leave does not end it under a call that is still open; the call is recorded when it ends."""
    one = sharing.join(settings, in_main_thread=False)
    slot = one.ledger.open(call_id(1), 1.0, b"s")
    sharing.leave(one)
    assert not one.closed
    one.offer(exchange(failure=None), slot)
    assert one.close(10)
    assert (tmp_path / "s.capture.jsonl").exists()
