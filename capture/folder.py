"""The record directory at start: made where it is missing, tried, or refused with its path and the reason.

Blocking; called once when capture starts, never while a request is served.
"""

import os
import tempfile
from pathlib import Path

from filelock import lock_descriptor

from capture.config import CaptureConfig
from capture.errors import CaptureConfigError


def check_directory(config: CaptureConfig) -> Path:
    """Make `config.directory` with `directory_mode` where it is missing; write a nameless file there and lock it.

    Raises `CaptureConfigError` naming the path and what the system said (no directory, no permission, read-only,
    no space, no locks), or that no directory is set.
    """
    directory = Path(config.pipeline_settings().directory)
    try:
        if not directory.exists():
            directory.mkdir(mode=config.directory_mode, parents=True, exist_ok=True)
            directory.chmod(config.directory_mode)  # mkdir takes the umask off
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"\n")
            lock_descriptor(probe.fileno(), blocking=False)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CaptureConfigError([f"directory {directory} cannot be written: {reason}"]) from error
    return directory
