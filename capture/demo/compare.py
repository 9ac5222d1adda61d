"""What the clients saw against what was recorded: pure, a sentence for every disagreement.

Calls of a rollout follow each other, so the client's n-th call is the n-th record by start. Nothing of a record is
believed that the client could see for itself: status, text, reasoning, tool calls, token counts, how it ended.
"""

from collections.abc import Iterator, Sequence

from capture.demo.agent import SPEAKERS, Heard
from capture.demo.drive import Report, Seen
from capture.demo.wire import Json

LEFT = "cancelled"


def disagreements(report: Report, records: Sequence[Json], gaps: Sequence[Json]) -> list[str]:
    """Compare a rollout's calls with its records (as plain values) and its gaps; empty where all agree."""
    found = [f"gap {gap['code']} for call {gap['model_call_id']}" for gap in gaps]
    if len(records) != len(report.calls):
        return [*found, f"the client made {len(report.calls)} calls, {len(records)} are recorded"]
    ordered = sorted(records, key=lambda record: record["started_at"])
    for number, (seen, record) in enumerate(zip(report.calls, ordered, strict=True), start=1):
        found += [f"call {number}: {problem}" for problem in _problems(report, seen, record)]
    return found


def _problems(report: Report, seen: Seen, record: Json) -> Iterator[str]:
    expected = {
        "rollout_id": report.rollout_id,
        "dialect": report.rollout.dialect,
        "status_code": seen.status,
        "complete": seen.answered,
    }
    for name, value in expected.items():
        if record[name] != value:
            yield f"{name} is recorded as {record[name]!r}, the client saw {value!r}"
    if seen.answered == bool(record["error_category"]):
        got = "a whole answer" if seen.answered else "none, or a broken one"
        yield f"error_category is {record['error_category']!r}, the client got {got}"
    if seen.left and record["error_category"] != LEFT:
        yield f"the client left, error_category is {record['error_category']!r}"
    if seen.heard is not None:
        yield from _misheard(seen, seen.heard, SPEAKERS[report.rollout.dialect].hear(record["response"]))


def _misheard(seen: Seen, heard: Heard, recorded: Heard) -> Iterator[str]:
    """Expect of a client that left a beginning of what was recorded, and of everyone else exactly that."""
    if seen.left:
        if not recorded.text.startswith(heard.text):
            yield f"recorded is {recorded.text!r}, the client had heard {heard.text!r} when it left"
    elif heard != recorded:
        yield f"recorded is {recorded}, the client heard {heard}"
