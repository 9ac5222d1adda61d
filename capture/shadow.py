"""The packages' names are common words: make sure that `pipeline` is ours before anything imports it.

A user's own `pipeline.py` in the working folder would otherwise be imported in its place, with errors that name
neither file. Looks without running anybody's module.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent


def refuse_shadow(name: str) -> None:
    """Raise ImportError naming the file, if `name` would be imported from anywhere but beside this package."""
    loaded = sys.modules.get(name)
    spec = getattr(loaded, "__spec__", None) if loaded is not None else find_spec(name)
    origin = getattr(spec, "origin", None) or getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve().parent.parent != HOME:
        where = origin or "a folder without __init__.py, or nowhere"
        raise ImportError(
            f"model-call-capture needs its own package {name!r}, but {where} is found first; rename that file, "
            f"or start the server from another folder (python -P, with uvicorn --app-dir elsewhere, keeps the "
            f"working folder off sys.path)"
        )
