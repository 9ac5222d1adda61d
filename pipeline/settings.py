"""What the pipeline is told by whoever starts it: plain values, already checked, each with its unit.

`capture.config` makes it from the user's settings; the whole of it crosses to a worker as its first frame.
"""

import msgspec


class ServerIdentity(msgspec.Struct, frozen=True):
    """Which server process wrote a record. `instance` is new for each process, also after a fork."""

    name: str | None
    instance: str
    host: str
    pid: int


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline's knobs. Paths are absolute; `state_directory` is null for the default of DESIGN."""

    directory: str
    state_directory: str | None = None
    server_name: str | None = None
    labels: dict[str, str] = {}
    queue_max_events: int = 2048
    queue_max_bytes: int = 64 << 20
    open_max_bytes: int = 1 << 30
    body_max_bytes: int = 64 << 20
    batch_max_records: int = 512
    batch_max_bytes: int = 8 << 20
    flush_interval_ms: int = 100
    workers: int = 1
    worker_kind: str = "process"
    worker_nice: int = 10
    fsync: str = "batch"
    lock_timeout_ms: int = 5000
    file_mode: int = 0o600
    directory_mode: int = 0o700
    shutdown_timeout_ms: int = 5000
