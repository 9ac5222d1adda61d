"""The demonstration's clients against a real server, and the comparison that judges records by them."""

from collections.abc import Iterator
from typing import Any

import anyio
import msgspec
import pytest

from capture.demo.compare import disagreements
from capture.demo.drive import ROLLOUTS, Report, Seen, drive
from tests.clients.servers import scripted

BY_HEADER = tuple(msgspec.structs.replace(rollout, joined="header") for rollout in ROLLOUTS)
"""Without capture nobody takes the prefix off."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Report]]:
    """Drive all rollouts once against two server processes without capture."""
    with scripted(tmp_path_factory.mktemp("scripted"), workers=2) as server:
        yield {report.rollout.name: report for report in anyio.run(drive, server.url, "run", BY_HEADER)}


def recorded(report: Report) -> list[dict[str, Any]]:
    """Make the records that a perfect recorder would have of a rollout, last call first."""
    records = [
        {
            "rollout_id": report.rollout_id,
            "dialect": report.rollout.dialect,
            "status_code": seen.status,
            "complete": seen.answered,
            "started_at": float(number),
            "error_category": category(seen),
            "response": seen.response,
        }
        for number, seen in enumerate(report.calls)
    ]
    return records[::-1]


def category(seen: Seen) -> str | None:
    """Name how a call ended, as far as the comparison asks."""
    if seen.left:
        return "cancelled"
    return None if seen.answered else "upstream_error"


def test_a_dozen_rollouts_run(reports: dict[str, Report]) -> None:
    """All twelve rollouts finish, each with an id of its own that names it."""
    assert [*reports] == [rollout.name for rollout in ROLLOUTS]
    assert {report.rollout_id for report in reports.values()} == {f"run-{name}" for name in reports}
    assert len(reports) == 12


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("chat-tools", [2, 0]),
        ("chat-tools-sse", [2, 2, 0, 0]),
        ("responses-tools-sse", [2, 2, 2, 0]),
        ("messages-tools", [2, 0, 0]),
        ("messages-tools-sse", [2, 2, 0]),
    ],
)
def test_agents_answer_tool_calls_until_there_is_a_text(
    reports: dict[str, Report], name: str, calls: list[int]
) -> None:
    """In each dialect an agent makes two parallel tool calls as often as it is asked to, then hears a text."""
    heard = [seen.heard for seen in reports[name].calls if seen.heard]
    assert [len(each.calls) for each in heard] == calls
    assert heard[-1].text
    assert all(each.output_tokens for each in heard)


def test_faults_look_to_clients_as_they_should(reports: dict[str, Report]) -> None:
    """A 429 is tried again and answered, a 500 is not, broken streams do not finish, and one client leaves."""
    ways = {
        name: [(seen.status, seen.finished, seen.left) for seen in reports[name].calls]
        for name in ("rate-limited", "server-error", "error-in-stream", "cut-stream", "hang-up")
    }
    assert ways == {
        "rate-limited": [(429, True, False), (200, True, False)],
        "server-error": [(500, True, False)],
        "error-in-stream": [(200, False, False)],
        "cut-stream": [(200, False, False)],
        "hang-up": [(200, False, True)],
    }


@pytest.mark.parametrize("name", [rollout.name for rollout in ROLLOUTS])
def test_perfect_records_agree(reports: dict[str, Report], name: str) -> None:
    """Records that hold what the client saw raise no disagreement, in whatever order they are read."""
    assert disagreements(reports[name], recorded(reports[name]), []) == []


@pytest.mark.parametrize(
    ("name", "member", "value"),
    [
        ("chat-turns", "status_code", 500),
        ("chat-turns", "rollout_id", "another"),
        ("chat-turns", "complete", False),
        ("chat-turns", "error_category", "upstream_error"),
        ("cut-stream", "error_category", None),
        ("server-error", "error_category", None),
        ("hang-up", "error_category", "stream_truncated"),
        ("chat-tools", "response", {"choices": [{"message": {"content": "another text"}}]}),
        ("hang-up", "response", {"choices": [{"message": {"content": "another text"}}]}),
    ],
)
def test_a_wrong_record_is_told(reports: dict[str, Report], name: str, member: str, value: object) -> None:
    """Any member of a record that contradicts its client is a disagreement that names the call."""
    first, *rest = recorded(reports[name])[::-1]
    assert disagreements(reports[name], [first | {member: value}, *rest], [])[0].startswith("call 1: ")


def test_missing_records_and_gaps_are_told(reports: dict[str, Report]) -> None:
    """A call without a record and a gap are disagreements, also where everything else agrees."""
    report = reports["chat-turns"]
    gap = {"code": "dropped", "model_call_id": "7f"}
    assert len(disagreements(report, recorded(report)[1:], [])) == 1
    assert disagreements(report, recorded(report), [gap]) == ["gap dropped for call 7f"]
