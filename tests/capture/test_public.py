"""The public face of the package: which names there are, and that each is what it says."""

import subprocess
import sys

import pytest

import capture

PUBLIC = """
CaptureConfig CaptureMiddleware install current CurrentExchange
rollout_context current_rollout_id make_rollout_id check_rollout_id next_attempt prefixed_url rollout_id_from_run
CaptureStore StoredRecord ModelCallRecord Settled PendingCall Gap Cleared Status ServerStatus InFlight
assemble_step_records StepRecord lineage_of aggregate_rollout_metrics aggregate_step_records RolloutMetrics
assemble_rollout Trajectory TrajectoryItem
merge_capture_into_record amerge_capture_into_record
CaptureError CaptureConfigError NoCallsError UncorrelatedCallError __version__
"""
"""Every public name. A name is added here and in `__all__`; to take one away is a change that breaks users."""


def test_the_public_names_are_these() -> None:
    """What may be imported from the package is a list that somebody decided on."""
    assert set(capture.__all__) == set(PUBLIC.split())
    assert len(capture.__all__) == len(PUBLIC.split())


@pytest.mark.parametrize("name", capture.__all__)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    """Each name loads, and says what it is."""
    value = getattr(capture, name)
    assert isinstance(value, str) or value.__doc__


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """Names load on first use; a wrong one is refused as in any module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = capture.nothing


def test_a_server_does_not_load_the_views() -> None:
    """Whoever only serves imports nothing of the reading side."""
    code = "import sys, capture; capture.CaptureMiddleware; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert not {"capture.steps", "capture.merge", "capture.store"} & set(loaded.stdout.split())
