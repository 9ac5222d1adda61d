"""The agents of the demonstration: a dozen rollouts over real HTTP, all at once, and what each of them saw.

`ROLLOUTS` is the whole programme. A rollout is one conversation, its calls one after another: a user's turn, tool
calls as long as the model makes them, a text, the next turn. What the client saw is kept apart from anything the
server recorded.
"""

import anyio
import httpx
import msgspec

from capture.demo.agent import SPEAKERS, Heard, Speaker, Turns, parsed, user_turn
from capture.demo.wire import Json

RETRY_COUNT = "x-stainless-retry-count"
CALL_TIMEOUT_S = 30.0
OK = 200
ONE_CALL_EACH = httpx.Limits(max_keepalive_connections=0)
"""A connection serves one call, so that the calls of a rollout meet whichever server process is free."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation: who it is, in which dialect and how, with which script.

    `joined` is how its calls name the rollout, `prefix` in the path or by `header`. `turns` counts the user's,
    `leave_after` the pieces of a stream after which the client hangs up.
    """

    name: str
    dialect: str
    model: str = "scripted"
    stream: bool = False
    turns: int = 1
    joined: str = "prefix"
    retries: int = 0
    leave_after: int | None = None


ROLLOUTS = (
    Rollout(name="chat-turns", dialect="chat", turns=3),
    Rollout(name="chat-tools", dialect="chat", model="scripted-tools", joined="header"),
    Rollout(name="chat-tools-sse", dialect="chat", model="scripted-tools?rounds=2", stream=True, turns=2),
    Rollout(
        name="responses-turns", dialect="responses", model="scripted-reasoning", turns=2, joined="header"
    ),
    Rollout(name="responses-tools-sse", dialect="responses", model="scripted-tools?rounds=3", stream=True),
    Rollout(name="messages-tools", dialect="messages", model="scripted-tools", turns=2),
    Rollout(
        name="messages-tools-sse",
        dialect="messages",
        model="scripted-tools?rounds=2&think_time_ms=20&tokens_per_s=500",
        stream=True,
        joined="header",
    ),
    Rollout(name="rate-limited", dialect="chat", model="scripted-429", stream=True, retries=1),
    Rollout(name="server-error", dialect="messages", model="scripted-500"),
    Rollout(name="error-in-stream", dialect="messages", model="scripted-error-in-stream", stream=True),
    Rollout(name="cut-stream", dialect="chat", model="scripted-cut", stream=True, joined="header"),
    Rollout(name="hang-up", dialect="chat", model="scripted-slow", stream=True, leave_after=5),
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One call as its client saw it.

    `heard` is null where there was no answer to hear; `finished` is false where the client left or the
    connection broke, `left` where it was the client.
    """

    status: int
    finished: bool
    left: bool = False
    heard: Heard | None = None
    response: Json | None = None

    @property
    def answered(self) -> bool:
        """Whether the client has an answer, and the whole of it."""
        return self.finished and self.status == OK


class Report(msgspec.Struct, frozen=True):
    """A rollout's calls in the order in which its client made them."""

    rollout_id: str
    rollout: Rollout
    calls: tuple[Seen, ...]


async def drive(url: str, run: str, rollouts: tuple[Rollout, ...] = ROLLOUTS) -> list[Report]:
    """Run all rollouts at once against a server; `run` comes first in every rollout id."""
    reports: list[Report] = []

    async def one(rollout: Rollout) -> None:
        rollout_id = f"{run}-{rollout.name}"
        async with _connect(url, rollout, rollout_id) as client:
            calls = await _converse(client, rollout, rollout_id)
        reports.append(Report(rollout_id, rollout, tuple(calls)))

    async with anyio.create_task_group() as group:
        for rollout in rollouts:
            group.start_soon(one, rollout)
    return sorted(reports, key=lambda report: rollouts.index(report.rollout))


def _connect(url: str, rollout: Rollout, rollout_id: str) -> httpx.AsyncClient:
    """Open a client whose every call names its rollout, in one of the two ways."""
    prefix = f"/ng-rollout/{rollout_id}" if rollout.joined == "prefix" else ""
    headers = {"x-rollout-id": rollout_id} if rollout.joined == "header" else {}
    return httpx.AsyncClient(
        base_url=url + prefix, headers=headers, timeout=CALL_TIMEOUT_S, limits=ONE_CALL_EACH, trust_env=False
    )


async def _converse(client: httpx.AsyncClient, rollout: Rollout, rollout_id: str) -> list[Seen]:
    speaker = SPEAKERS[rollout.dialect]
    turns: Turns = []
    calls: list[Seen] = []
    for number in range(rollout.turns):
        turns.append(user_turn(f"{rollout_id}: this is turn {number + 1}."))
        again = True
        while again:
            attempts = await _call(client, rollout, speaker, turns)
            calls += attempts
            heard = attempts[-1].heard
            again = bool(heard and heard.calls)
            turns += speaker.follow(attempts[-1].response) if attempts[-1].response else []
    return calls


async def _call(client: httpx.AsyncClient, rollout: Rollout, speaker: Speaker, turns: Turns) -> list[Seen]:
    """Make one call, again as often as the rollout allows and the server asks for; return every attempt."""
    attempts: list[Seen] = []
    body = speaker.ask(turns) | {"model": rollout.model, "stream": rollout.stream}
    for attempt in range(rollout.retries + 1):
        request = client.build_request("POST", speaker.path, json=body, headers={RETRY_COUNT: str(attempt)})
        response = await client.send(request, stream=True)
        attempts.append(await _take(response, rollout, speaker))
        if "retry-after-ms" not in response.headers:
            break
        await anyio.sleep(int(response.headers["retry-after-ms"]) / 1000)
    return attempts


async def _take(response: httpx.Response, rollout: Rollout, speaker: Speaker) -> Seen:
    """Read a response, or the first of its pieces if the rollout is one that leaves."""
    pieces: list[bytes] = []
    try:
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            if len(pieces) == rollout.leave_after:
                return _seen(response.status_code, b"".join(pieces), rollout, speaker, left=True)
    finally:
        await response.aclose()
    return _seen(response.status_code, b"".join(pieces), rollout, speaker, left=False)


def _seen(status: int, body: bytes, rollout: Rollout, speaker: Speaker, *, left: bool) -> Seen:
    if status != OK:
        return Seen(status=status, finished=True)
    response = speaker.fold(parsed(body)) if rollout.stream else msgspec.json.decode(body)
    finished = not left and (not rollout.stream or TERMINAL[rollout.dialect] in body)
    return Seen(status=status, finished=finished, left=left, heard=speaker.hear(response), response=response)


TERMINAL = {
    "chat": b"data: [DONE]\n\n",
    "responses": b"event: response.completed\n",
    "messages": b"event: message_stop\n",
}
"""The end of a whole stream, by dialect."""
