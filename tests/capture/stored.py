"""Record lines as the pipeline writes them, made without a pipeline."""

import json
from pathlib import Path
from typing import Any

from pipeline.gaps import record_path
from pipeline.process import encode, process
from pipeline.settings import ServerIdentity
from pipeline.stems import stem_of
from tests.pipeline.test_frames import exchange

SERVER = ServerIdentity("name", "instance", "host", 1)


def call_id(number: int) -> str:
    """Make the id of call `number`."""
    return f"{number:032x}"


def line_of(number: int, rollout_id: str | None = "r", **members: Any) -> bytes:  # noqa: ANN401 - any member of a record
    """Make a record's line without its LF; `members` replace those of the record."""
    raw = exchange(call_id=bytes.fromhex(call_id(number)), rollout_id=rollout_id, failure=None)
    line = encode(process(raw, SERVER, {}))
    if members:
        line = json.dumps({**json.loads(line), **members}, separators=(",", ":"), ensure_ascii=False).encode()
    return line


def write(directory: Path, *numbers: int, rollout_id: str = "r") -> Path:
    """Append the records of these calls to their rollout's file; return its path."""
    path = record_path(directory, stem_of(rollout_id))
    with path.open("ab") as file:
        for number in numbers:
            file.write(line_of(number, rollout_id) + b"\n")
    return path
