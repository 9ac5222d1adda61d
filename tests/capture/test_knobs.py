"""The forms of settings: what each takes and what each refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.config import KNOBS, CaptureConfig
from capture.errors import CaptureConfigError

WRONG = [
    ("enabled", "perhaps"),
    ("enabled", 1),
    ("directory", ""),
    ("directory", "~/records"),
    ("directory", "a\0b"),
    ("directory", 7),
    ("server_name", "a\nb"),
    ("server_name", "x" * 201),
    ("labels", "run"),
    ("labels", "run=1,run=2"),
    ("labels", {"run": 7}),
    ("labels", {"": "x"}),
    ("labels", [("run", "7")]),
    ("routes", "/v1/messages=claude"),
    ("routes", "v1/messages=messages"),
    ("routes", "/v1/messages/=messages"),
    ("routes", "/v1/messages?beta=true=messages"),
    ("routes", {"/": "chat"}),
    ("rollout_prefix", "ng-rollout"),
    ("rollout_prefix", "/ng-rollout/"),
    ("rollout_prefix", "/"),
    ("rollout_prefix", "/a//b"),
    ("rollout_prefix", "/a b"),
    ("rollout_prefix", "/a%20b"),
    ("rollout_prefix", None),
    ("rollout_headers", "x y"),
    ("rollout_headers", "authorization"),
    ("rollout_headers", ["X-Api-Key"]),
    ("rollout_headers", "x-run,,x-rollout-id"),
    ("rollout_headers", [7]),
    ("uncorrelated", "drop"),
    ("uncorrelated", 1),
    ("queue_max_events", 0),
    ("queue_max_events", 1.0),
    ("queue_max_events", True),
    ("queue_max_bytes", "64 Mi B"),
    ("queue_max_bytes", "-1"),
    ("queue_max_bytes", "1.5GiB"),
    ("queue_max_bytes", "1PiB"),
    ("queue_max_bytes", 0),
    ("queue_max_bytes", "9" * 5000),
    ("file_mode", "0400"),
    ("file_mode", "rw"),
    ("file_mode", 600),
    ("file_mode", "-1"),
    ("directory_mode", 0o600),
    ("directory_mode", "7"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_by_name(name: str, value: object) -> None:
    """A value outside of what a setting allows is refused with its name and what is allowed."""
    with pytest.raises(CaptureConfigError) as refused:
        CaptureConfig.load({}, **{name: value})
    (problem,) = refused.value.problems
    assert problem.startswith(f"{name} is ")
    assert problem.endswith(f"; allowed: {KNOBS[name].form.allowed}")
    assert len(problem) < 400


@given(st.integers(1, 1 << 40))
def test_a_size_is_shown_as_it_is_read(size: int) -> None:
    """The shown form of a size gives the same number of bytes."""
    form = KNOBS["queue_max_bytes"].form
    assert form.read(form.show(size)) == size
