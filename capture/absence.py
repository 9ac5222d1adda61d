"""Why a rollout may have no calls: what the directory holds instead, as one sentence for whoever expected some.

Looks at what is there only where something is missing, so it may read every account of the directory.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from pipeline.stems import is_uncorrelated

from .errors import NoCallsError

if TYPE_CHECKING:
    from .store import CaptureStore

CORRELATE = "send the header x-rollout-id, or put /ng-rollout/<id> in front of the path"


def absence(store: "CaptureStore", rollout_id: str) -> NoCallsError:
    """Return the error that says what `store` has in place of a rollout's calls."""
    if not store.directory.is_dir():
        return NoCallsError(rollout_id, f"there is no directory {store.directory}")
    unnamed = [stem for stem in store.stems() if is_uncorrelated(stem)]
    if unnamed:
        said = f"calls in {store.directory} named no rollout, see {unnamed[-1]}; {CORRELATE}"
        return NoCallsError(rollout_id, said)
    rollouts = store.rollouts()
    if near := get_close_matches(rollout_id, rollouts, n=3):
        return NoCallsError(rollout_id, f"{store.directory} has {', '.join(near)}")
    if rollouts:
        return NoCallsError(rollout_id, f"{store.directory} has {len(rollouts)} others; {CORRELATE}")
    status = store.status()
    writers = len(status.servers) + status.retired.processes
    seen = f"of {writers} server processes none served a call to one of its routes"
    nobody = "no server process ever wrote there; is capture enabled, and is this its directory?"
    return NoCallsError(rollout_id, f"{store.directory} is empty: {seen if writers else nobody}")
