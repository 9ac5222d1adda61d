"""Calls over real sockets, each with a rollout and a mark of its own, and what their clients know of them.

One connection a call, so that a server that is killed takes only its own calls along. A call is *answered* when its
client has read the whole answer; only then does anybody owe it a record.
"""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from capture import CaptureStore, StoredRecord
from pipeline.gaps import GAP_SUFFIX, parse_gaps

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}


class Call(NamedTuple):
    """One call as its client knows it."""

    rollout_id: str
    mark: str
    answered: bool


def body_of(dialect: str, mark: str, *, stream: bool, model: str = "scripted") -> bytes:
    """Make a small request of a dialect; `mark` is in its metadata."""
    turn = [{"role": "user", "content": f"hello {mark}"}]
    body: dict[str, object] = {"model": model, "stream": stream, "metadata": {"mark": mark}}
    body["input" if dialect == "responses" else "messages"] = turn
    if dialect == "messages":
        body["max_tokens"] = 64
    return json.dumps(body).encode()


async def call(url: str, rollout_id: str, mark: str, *, dialect: str = "chat", stream: bool = True) -> Call:
    """Make one call and read its answer to the end, or to where the server died."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    body = body_of(dialect, mark, stream=stream)
    head = (
        f"POST /ng-rollout/{rollout_id}{PATHS[dialect]} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(head.encode() + body)
            answer = await reader.read()
        finally:
            writer.close()
    except OSError:
        return Call(rollout_id, mark, answered=False)
    return Call(rollout_id, mark, answered=is_whole(answer))


def is_whole(answer: bytes) -> bool:
    """Whether an HTTP/1.1 answer was read to its end."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(length) and len(body) == int(length[0].split(b":")[1])


async def calls(url: str, rollouts: Iterable[str], each: int, prefix: str) -> list[Call]:
    """Make `each` calls of every rollout, all at once, in turn through the dialects, streamed and not."""
    kinds = [(dialect, stream) for dialect in PATHS for stream in (True, False)]
    jobs = []
    for number, (rollout_id, index) in enumerate((name, i) for name in rollouts for i in range(each)):
        dialect, stream = kinds[number % len(kinds)]
        mark = f"{prefix}-{rollout_id}-{index}"
        jobs.append(call(url, rollout_id, mark, dialect=dialect, stream=stream))
    return list(await asyncio.gather(*jobs))


class Tally(NamedTuple):
    """What the files say of a set of calls."""

    missing: list[str]
    duplicates: list[str]
    false_gaps: list[str]
    gaps: int
    recorded: int


def tally(directory: Path, made: list[Call]) -> Tally:
    """Hold the files against what the clients know: answered calls without record or gap, doubles, false gaps."""
    store = CaptureStore(directory)
    missing: list[str] = []
    duplicates: list[str] = []
    false_gaps: list[str] = []
    gaps = recorded = 0
    for rollout_id in {each.rollout_id for each in made}:
        records = store.read(rollout_id)
        marks = [_mark_of(record) for record in records]
        ids = {record.model_call_id for record in records}
        named = _named(directory, rollout_id)
        answered = {each.mark for each in made if each.rollout_id == rollout_id and each.answered}
        unrecorded = sorted(answered - set(marks))
        recorded += len(records)
        gaps += len(named)
        missing += unrecorded[len(named - ids) :]
        duplicates += [mark for mark in set(marks) if marks.count(mark) > 1]
        false_gaps += sorted(named & ids)
    return Tally(missing, duplicates, false_gaps, gaps, recorded)


def _mark_of(record: StoredRecord) -> str:
    """Return the mark of a call, also of one that was stored raw because workers died with it twice."""
    request = record.request or json.loads(record.request_raw or "{}")
    return str(request["metadata"]["mark"])


def _named(directory: Path, rollout_id: str) -> set[str]:
    path = directory / (rollout_id + GAP_SUFFIX)
    if not path.exists():
        return set()
    return {gap.model_call_id or "" for gap in parse_gaps(path.read_bytes())}


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children (Linux)."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found
