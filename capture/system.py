"""Which systems this runs on: Linux, and macOS as well as it goes. Said at import, before a stranger error would be.

Elsewhere there are no file locks that a process keeps until its last descriptor is closed, no inherited descriptors
by number and no process groups, and the promises made here rest on them.
"""

SYSTEMS = ("linux", "darwin")


def refuse_system(platform: str) -> None:
    """Raise ImportError on a system that is not among `SYSTEMS`; `platform` is as in `sys.platform`."""
    if platform not in SYSTEMS:
        raise ImportError(
            f"model-call-capture runs on Linux and macOS, not on {platform!r}: it needs flock and process groups"
        )
