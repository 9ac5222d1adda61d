"""One pipeline per process and directory, shared by every middleware that writes there.

Joining makes it; leaving drains it, and ends it when nobody uses it any more and nothing is open. Under a server
without lifespan nobody leaves, and the signal chain and the interpreter's end do the same work.
"""

import threading

from . import signals
from .runner import Pipeline
from .settings import PipelineSettings

_guard = threading.Lock()
_shared: dict[str, Pipeline] = {}
_users: dict[str, int] = {}


def join(settings: PipelineSettings, *, in_main_thread: bool) -> Pipeline:
    """Return the running pipeline for this directory, made if there is none. Raises ValueError on other settings.

    In the main thread the signal chain is set in front of the server's handlers.
    """
    with _guard:
        pipeline = _shared.get(settings.directory)
        if pipeline is None or pipeline.closed:
            pipeline = _shared[settings.directory] = Pipeline(settings)
            _users[settings.directory] = 0
        elif pipeline.settings != settings:
            raise ValueError(f"directory={settings.directory!r} is in use here with other settings")
        _users[settings.directory] += 1
    if in_main_thread:
        signals.chain(pipeline)
    return pipeline


def leave(pipeline: Pipeline) -> None:
    """Drain, within the shutdown time; end the pipeline if this was its last user and no call is open."""
    timeout_s = pipeline.settings.shutdown_timeout_ms / 1000
    directory = pipeline.settings.directory
    with _guard:
        _users[directory] = max(0, _users.get(directory, 0) - 1)
        last = _users[directory] == 0
    pipeline.drain(timeout_s)
    if last and not pipeline.ledger.in_use:
        pipeline.close(timeout_s)
