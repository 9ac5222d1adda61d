"""A handler's notes on its own call, all the way: from what it said to record, step, trajectory and merged row.

The handlers are Starlette's, under the real middleware and pipeline; what they note is what servers have to tell: how
long a tool ran, that no model was asked, that the path says the wire format wrongly.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from capture import (
    CaptureMiddleware,
    Trajectory,
    assemble_rollout,
    assemble_step_records,
    current,
    merge_capture_into_record,
)
from tests.answers import stream
from tests.flows.driving import ROLLOUT, Site

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
Handler = Callable[[Request], Awaitable[Response]]

CHAT = "/v1/chat/completions"
RUN: Json = {"name": "bash", "started_at": 1000.0, "ended_at": 1002.5, "call_id": "c1", "exit_code": 0}
"""The run of a tool, as a handler notes it."""

CALL: Json = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
ASKED: list[Json] = [{"role": "user", "content": "What is there?"}]
CALLED: Json = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD: Json = {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}


def completion(message: Json) -> Json:
    """Write a chat answer of one message."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice]}


async def post(site: Site, handler: Handler, *requests: Json, path: str = CHAT) -> None:
    """Serve requests one after the other by one handler under capture."""
    app = Starlette(routes=[Route(path, handler, methods=["POST"])])
    around: CaptureMiddleware = site.around(app)
    url = f"http://server/ng-rollout/{ROLLOUT}"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(around), base_url=url) as client:
        for body in requests:
            assert (await client.post(path, json=body)).status_code == httpx.codes.OK


async def account(site: Site) -> Trajectory:
    """Settle and assemble the rollout."""
    return assemble_rollout(await site.records())


def events_at(found: Trajectory, kind: str) -> list[list[Json] | None]:
    """Return the timings that stand at the items of one type."""
    return [item.events for item in found.items if item.type == kind]


async def test_a_tool_that_the_handler_ran_is_timed_at_its_call(site: Site) -> None:
    """A server that runs the tool while it answers: the event is the record's, the step's, and at the tool call."""

    async def handler(request: Request) -> Response:
        await request.body()
        current().event(**RUN)
        return JSONResponse(completion(CALLED))

    await post(site, handler, {"model": "m", "messages": ASKED})
    record = await site.record()
    found = await account(site)
    assert record.events == [RUN]
    assert [step.events for step in found.steps] == [[RUN]]
    assert events_at(found, "function_call") == [[RUN]]


async def test_a_tool_that_ran_between_two_calls_is_timed_at_its_output(site: Site) -> None:
    """An agent that tells its next call how long the tool took: the event stands at the output that came with it."""

    async def handler(request: Request) -> Response:
        again = len((await request.json())["messages"]) > 1
        if again:
            request.state.capture.event(**RUN)
        answer = {"role": "assistant", "content": "One file."} if again else CALLED
        return JSONResponse(completion(answer))

    history = [*ASKED, CALLED, TOLD]
    await post(site, handler, {"model": "m", "messages": ASKED}, {"model": "m", "messages": history})
    found = await account(site)
    assert [step.events for step in found.steps] == [None, [RUN]]
    assert events_at(found, "function_call_output") == [[RUN]]
    assert events_at(found, "function_call") == [None]


async def test_a_tool_of_nobody_here_stays_with_its_step(site: Site) -> None:
    """An event whose tool call is not in the rollout is put at no other one, and not lost."""

    async def handler(request: Request) -> Response:
        await request.body()
        current().event(**{**RUN, "call_id": "c9"})
        return JSONResponse(completion(CALLED))

    await post(site, handler, {"model": "m", "messages": ASKED})
    found = await account(site)
    assert [step.events for step in found.steps] == [[{**RUN, "call_id": "c9"}]]
    assert all(item.events is None for item in found.items)


async def test_a_call_that_was_answered_locally_says_so_everywhere(site: Site) -> None:
    """That no model was asked, and why, is in record, step, trajectory and merged row, and is no error by itself."""
    said: Json = {
        "upstream_attempted": False,
        "response_source": "local",
        "local_response_reason": "empty_assistant",
    }

    async def handler(request: Request) -> Response:
        await request.body()
        current().annotate(**said, policy="step-400")
        return JSONResponse(completion({"role": "assistant", "content": ""}))

    await post(site, handler, {"model": "m", "messages": ASKED})
    record = await site.record()
    row: Json = {}
    attached = merge_capture_into_record(row, site.store, ROLLOUT)
    assert attached is not None
    (step,) = (await account(site)).steps
    for found in (record, step):
        assert {name: getattr(found, name) for name in said} == said
        assert found.upstream_status_code is None
        assert found.annotations == {**said, "policy": "step-400"}
        assert (found.error_category, found.complete) == (None, True)
    assert {name: attached["calls"][0][name] for name in said} == said


async def test_an_upstream_that_failed_behind_a_good_answer_keeps_its_status(site: Site) -> None:
    """A proxy that hides a 503 from its client tells it to the record, beside the 200 that crossed the edge."""

    async def handler(request: Request) -> Response:
        await request.body()
        current().annotate(upstream_attempted=True, response_source="local", upstream_status_code=503)
        return JSONResponse(completion({"role": "assistant", "content": "sorry"}))

    await post(site, handler, {"model": "m", "messages": ASKED})
    (step,) = assemble_step_records(await site.records())
    assert (step.status_code, step.upstream_status_code, step.upstream_attempted) == (200, 503, True)


@pytest.mark.parametrize("dialect", ["messages", "responses"])
async def test_a_handler_that_knows_the_wire_format_better_than_the_path(site: Site, dialect: str) -> None:
    """With `.dialect` set the stream is read as what it is, in record, step and trajectory."""

    async def handler(request: Request) -> Response:
        await request.body()
        request.state.capture.dialect = dialect
        return Response(stream(dialect, "Hello, ", "you"), media_type="text/event-stream")

    asked = {"input": "hi"} if dialect == "responses" else {"messages": [{"role": "user", "content": "hi"}]}
    await post(site, handler, {"model": "m", "stream": True, **asked})
    record = await site.record()
    found = await account(site)
    assert (record.dialect, record.complete, record.error_category) == (dialect, True, None)
    assert [(step.dialect, step.relation) for step in found.steps] == [(dialect, "root")]
    assert [(item.role, item.text) for item in found.items] == [("user", "hi"), ("assistant", "Hello, you")]


async def test_without_the_override_the_path_decides(site: Site) -> None:
    """The same stream under the chat path, with nothing said, is no chat answer, and its bytes are kept."""

    async def handler(request: Request) -> Response:
        await request.body()
        return Response(stream("messages", "Hello"), media_type="text/event-stream")

    await post(site, handler, {"model": "m", "stream": True, "messages": ASKED})
    record = await site.record()
    assert (record.dialect, record.complete) == ("chat", False)
    assert "Hello" in (record.response_raw or "")


async def test_notes_of_a_background_task_are_in_the_views_too(site: Site) -> None:
    """What is noted after the answer went out reaches step, trajectory and merged row, and not the record's line."""

    async def handler(request: Request) -> Response:
        await request.body()
        mine = current()

        async def later() -> None:
            mine.event(**RUN)
            mine.annotate(checked=True)

        return JSONResponse(completion(CALLED), background=BackgroundTask(later))

    await post(site, handler, {"model": "m", "messages": ASKED})
    await site.records()
    assert site.pipeline.close(5)
    found = await account(site)
    attached = merge_capture_into_record({}, site.store, ROLLOUT)
    assert [step.annotations for step in found.steps] == [{"checked": True}]
    assert events_at(found, "function_call") == [[RUN]]
    assert attached is not None
    assert attached["calls"][0]["events"] == [RUN]
    (line,) = (site.store.directory / f"{ROLLOUT}.capture.jsonl").read_bytes().splitlines()
    assert json.loads(line)["events"] is None


async def test_a_call_that_the_handler_leaves_out_is_neither_a_record_nor_a_gap(site: Site) -> None:
    """A skipped call is counted as such; settling finds nothing missing and nothing pending."""

    async def handler(request: Request) -> Response:
        await request.body()
        current().skip()
        return JSONResponse(completion(CALLED))

    await post(site, handler, {"model": "m", "messages": ASKED})
    assert await site.records() == []
    assert site.store.gaps(ROLLOUT) == []
    pipeline = site.pipeline
    assert pipeline.close(5)
    assert pipeline.ledger.counts["skipped"] == 1
