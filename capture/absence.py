"""Why a rollout may have no calls: what the directory holds instead, as one sentence for whoever expected some.

Looks at what is there only where something is missing, so it may read every account of the directory.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from pipeline.stems import is_uncorrelated

from .errors import NoCallsError
from .status import read_status

CORRELATE = "send the header x-rollout-id, or put /ng-rollout/<id> in front of the path"


def absence(directory: Path, stems: Sequence[str], rollouts: Sequence[str], rollout_id: str) -> NoCallsError:
    """Return the error that says what a directory with these files and rollouts has in place of calls."""
    if not directory.is_dir():
        return NoCallsError(rollout_id, f"there is no directory {directory}")
    unnamed = [stem for stem in stems if is_uncorrelated(stem)]
    if unnamed:
        said = f"calls in {directory} named no rollout, see {unnamed[-1]}; {CORRELATE}"
        return NoCallsError(rollout_id, said)
    if near := get_close_matches(rollout_id, rollouts, n=3):
        return NoCallsError(rollout_id, f"{directory} has {', '.join(near)}")
    if rollouts:
        return NoCallsError(rollout_id, f"{directory} has {len(rollouts)} others; {CORRELATE}")
    status = read_status(directory)
    writers = len(status.servers) + status.retired.processes
    seen = f"of {writers} server processes none served a call to one of its routes"
    nobody = "no server process ever wrote there; is capture enabled, and is this its directory?"
    return NoCallsError(rollout_id, f"{directory} is empty: {seen if writers else nobody}")
