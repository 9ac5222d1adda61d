"""Stems of file names: readable where the id allows it, bounded, safe and injective everywhere."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stems import SAFE, SAFE_MAX_BYTES, is_uncorrelated, stem_of, uncorrelated_stem

ANY_ID = st.text(alphabet=st.characters(codec=None, categories=None), max_size=400)
SAFE_ID = st.text(alphabet=SAFE, min_size=1, max_size=SAFE_MAX_BYTES).filter(
    lambda text: not (text.startswith(".") or text.endswith("."))
)
STEM = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(~[0-9a-f]{32})?|~[0-9a-f]{32}")


@given(SAFE_ID)
def test_safe_ids_are_their_own_stem(rollout_id: str) -> None:
    """People find the file of a plainly named rollout under its own name."""
    assert stem_of(rollout_id) == rollout_id


@given(ANY_ID)
def test_every_stem_is_a_bounded_safe_name(rollout_id: str) -> None:
    """No text, however odd, leaves the alphabet, the length or the folder."""
    stem = stem_of(rollout_id)
    assert STEM.fullmatch(stem)
    assert len(stem.encode("ascii")) <= SAFE_MAX_BYTES
    assert not stem.endswith(".")


@given(ANY_ID, ANY_ID)
def test_two_ids_never_share_a_stem(one: str, other: str) -> None:
    """Equal stems mean equal ids."""
    assert (stem_of(one) == stem_of(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/b", "a\\b"),
        ("a b", "A b"),
        ("x" * 201, "x" * 202),
        ("\ud800", "?"),
        ("", "_"),
        ("é", "e\u0301"),
        ("a.", "a"),
        (".a", "_a"),
        ("a\n", "a"),
    ],
)
def test_ids_that_look_alike_stay_apart_when_case_is_folded(one: str, other: str) -> None:
    """Cut, replaced and case-folded ids still have their own file."""
    assert stem_of(one).casefold() != stem_of(other).casefold()


@pytest.mark.parametrize(
    "rollout_id",
    [
        "../../x",
        "/etc/x",
        "..",
        ".",
        "",
        "a/../../b",
        "C:\\x",
        "a\0b",
        "~root",
        ".hidden",
        "a\nb",
        "x" * 5000,
    ],
)
def test_hostile_ids_are_digested(rollout_id: str) -> None:
    """Ids that name paths, hidden files or too much carry a digest."""
    stem = stem_of(rollout_id)
    assert re.search(r"~[0-9a-f]{32}$", stem)
    assert "/" not in stem
    assert not stem.startswith(".")


def test_a_digested_id_can_be_fed_back_without_meeting_its_source() -> None:
    """A rollout named like another one's stem gets a stem of its own."""
    stem = stem_of("a/b")
    assert stem_of(stem) != stem


def test_stems_stay_as_they_are_between_versions() -> None:
    """Files written by an earlier version are found again."""
    assert stem_of("../../x") == "_._.._x~9cdf6a50100a862e14286c7a334296da"


def test_uncorrelated_calls_are_never_mixed_into_a_rollout() -> None:
    """The stem of calls without a rollout is recognised, and no id leads to it."""
    stem = uncorrelated_stem("4f2a", "2026-01-31")
    assert stem == "uncorrelated~4f2a~2026-01-31"
    assert is_uncorrelated(stem)
    assert not is_uncorrelated(stem_of(stem))
    assert not is_uncorrelated(stem_of("uncorrelated"))
    assert not is_uncorrelated(stem_of("uncorrelated~"))
