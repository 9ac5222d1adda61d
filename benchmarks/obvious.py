"""The obvious program: what one would write in an afternoon to record calls, with the standard library alone.

It joins the body, splits it into lines, calls `json.loads` on each and merges the deltas; then `json.dumps`, a lock,
a write and a sync for each call. `reassembly` holds it beside ours.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from pipeline.exchange import RawExchange

Json = dict[str, Any]

LABELS = {"id", "role", "type", "object", "model", "name", "finish_reason", "system_fingerprint"}


def grow(target: Json, delta: Json) -> None:
    """Merge one object into another by type, as one would: text is appended, lists and objects grow."""
    for key, value in delta.items():
        old = target.get(key)
        if value is None:
            target.setdefault(key, None)
        elif isinstance(value, str) and isinstance(old, str) and key not in LABELS:
            target[key] = old + value
        elif isinstance(value, dict) and isinstance(old, dict):
            grow(old, value)
        elif key == "tool_calls" and isinstance(value, list):
            calls = target.setdefault(key, {})
            for call in value:
                grow(calls.setdefault(call["index"], {}), call)
        elif isinstance(value, list) and isinstance(old, list):
            old.extend(value)
        else:
            target[key] = value


def merge_obviously(body: bytes) -> Json:
    """Put a chat stream together as one would: split, `json.loads`, merge, keep what is unknown."""
    top: Json = {}
    choices: dict[int, Json] = {}
    for line in body.decode().splitlines():
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line[6:])
        for choice in event.pop("choices", ()):
            index = choice.pop("index")
            grow(choices.setdefault(index, {"delta": {}}), choice)
        grow(top, event)
    return {**top, "choices": list(choices.values())}


def record_obviously(raw: RawExchange, path: Path) -> None:
    """Record one call as a simple capture does: decode whole, write under the lock, sync, for each call."""
    body = b"".join(raw.response_chunks)
    response = merge_obviously(body) if len(raw.response_chunks) > 1 else json.loads(body)
    request = json.loads(b"".join(raw.request_chunks))
    record = {"id": raw.call_id.hex(), "status": raw.status_code, "request": request, "response": response}
    if len(raw.response_chunks) > 1:
        record["response_raw"] = body.decode()
    line = json.dumps(record) + "\n"
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
