"""Ledgers that are there but cannot be read from here: another user's, say.

What a reader cannot see it must not take for nothing. A settle that overlooked such a server process would call a
rollout complete while its calls are still on their way.
"""

import os
from pathlib import Path

from . import places
from .account import LEDGER_SUFFIX


def unreadable_ledgers(directory: Path) -> list[str]:
    """Return the ledger files that this process may not read, and the folders of ledgers that it may not list."""
    folders = {str(places.default_folder(directory)), *places.announced(directory).values()}
    found: list[str] = []
    for folder in sorted(folders - {places.ANONYMOUS}):
        if not os.access(folder, os.F_OK):
            continue
        if not os.access(folder, os.R_OK | os.X_OK):
            found.append(folder)
            continue
        ledgers = sorted(Path(folder).glob(f"*{LEDGER_SUFFIX}"))
        found += [path.name for path in ledgers if _is_closed(path)]
    return found


def _is_closed(path: Path) -> bool:
    """Whether a file is there and may not be read; one that has just gone is not there."""
    return os.access(path, os.F_OK) and not os.access(path, os.R_OK)
