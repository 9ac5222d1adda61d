import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.exchanges import exchange, read_back
from tests.sdk_rule import missing
from tests.skips import SKIPS

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
DEVIATIONS = {
    "ad940ef26894": ("token_id", "the SDK adds token ids up; the last one is kept"),
    "d74c92b4eeca": (
        "cost",
        "the SDK passes over the last chunk, whose type label is its own; the wire wins",
    ),
}
"""Exchange to the member where the wire wins over the SDK, and why."""


def lines(name: str) -> dict[str, dict[str, Any]]:
    """Read one file of the corpus by id; nothing where the corpus is absent."""
    path = CORPUS / name
    rows: Iterable[dict[str, Any]] = (
        map(json.loads, path.read_text().split("\n")[:-1]) if path.exists() else iter(())
    )
    return {row["id"]: row for row in rows}


EXCHANGES, VERDICTS = lines("open.jsonl"), lines("oracle.jsonl")


def recorded(row: dict[str, Any], chunk_bytes: int) -> dict[str, Any]:
    """Process a recorded exchange whose body comes in chunks of this size, and read its line back."""
    body = base64.b64decode(row["response_body_b64"])
    chunks = [body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)]
    headers = [(name.lower(), str(value)) for name, value in (row["response_headers"] or {}).items()]
    kept = tuple((name.encode(), value.encode()) for name, value in headers if name != "content-encoding")
    asked = (row["request_body"] or "").encode()
    return read_back(
        exchange(
            row["dialect"], chunks, response_headers=kept, status_code=row["status"], request_chunks=(asked,)
        )
    )


@pytest.mark.skipif(not EXCHANGES, reason=SKIPS["corpus-absent"])
def test_recorded_exchanges_are_what_the_sdk_makes_of_them() -> None:
    """Every recorded stream that the official SDK accepts is assembled to the same values, at any chunk size."""
    for identity, verdict in VERDICTS.items():
        if not verdict["ok"] or identity not in EXCHANGES:
            continue
        whole, pieces = (recorded(EXCHANGES[identity], size) for size in (1 << 30, 61))
        expected = DEVIATIONS.get(identity, ("", ""))[0]
        wrong = [
            found
            for found in missing(verdict["final"], whole["response"])
            if not (expected and expected in found)
        ]
        assert not wrong, identity
        assert {**whole, "timing": 0, "response_chunks": 0} == {**pieces, "timing": 0, "response_chunks": 0}


@pytest.mark.skipif(not EXCHANGES, reason=SKIPS["corpus-absent"])
def test_no_recorded_exchange_falls_back_to_raw() -> None:
    """Streams that the SDK rejects, errors and unstreamed bodies are whole all the same, and judged."""
    for identity, row in EXCHANGES.items():
        fields = recorded(row, 4096)
        assert fields["response"], identity
        assert fields["response_raw"] is None, (identity, fields["flags"])
        if row["status"] >= 400:
            assert fields["error_category"], identity
        pending = fields["response"].get("status") in {"queued", "in_progress"}
        if fields["error_category"] in {None, "incomplete"}:
            assert fields["complete"] is not pending, identity
            assert fields["finish"] or pending or row["dialect"] == "chat", identity
