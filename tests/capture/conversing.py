"""Scripted rollouts as records: conversations in neutral words, written in any dialect, taken through the real way.

A conversation is a list of `Turn`s. `Rollout.call` makes the record of one call with that history and an answer; its
times are given, everything else is what `process` makes of the bytes.
"""

import json
from typing import Any, NamedTuple

from capture.reading import StoredRecord, parse_line
from capture.steps import StepRecord
from pipeline.process import encode, process
from tests.exchanges import JSON_BODY, SERVER, exchange

Json = dict[str, Any]
DIALECTS = ("chat", "responses", "messages")


class Turn(NamedTuple):
    """Something said: by whom, the words, the tool calls made, or the call that it is the output of."""

    who: str
    text: str
    calls: tuple[tuple[str, str, Json], ...] = ()
    call_id: str | None = None
    thought: str | None = None


def system(text: str) -> Turn:
    """Instruct."""
    return Turn("system", text)


def user(text: str) -> Turn:
    """Ask."""
    return Turn("user", text)


def model(text: str, *calls: tuple[str, str, Json], thought: str | None = None) -> Turn:
    """Answer, with tool calls as (id, name, arguments)."""
    return Turn("assistant", text, calls, thought=thought)


def tool(call_id: str, text: str) -> Turn:
    """Return what a tool said."""
    return Turn("tool", text, call_id=call_id)


def bash(call_id: str, command: str = "ls") -> tuple[str, str, Json]:
    """Make a call of a shell tool."""
    return (call_id, "bash", {"command": command})


class Rollout:
    """Makes the records of one rollout; calls take 1 s, one after the other, unless times are given."""

    def __init__(self, dialect: str = "chat") -> None:
        self.dialect = dialect
        self.records: list[StoredRecord] = []
        self._clock = 1000.0

    def call(
        self,
        history: list[Turn],
        answer: Turn | None,
        *,
        at: float | None = None,
        seconds: float = 1.0,
        headers: Json | None = None,
        **request: Any,  # noqa: ANN401 - members of the request
    ) -> StoredRecord:
        """Add one call; without an answer it fails with status 500."""
        started = self._clock if at is None else 1000.0 + at
        self._clock = max(self._clock, started + seconds) + 0.5
        number = len(self.records)
        body = {"model": "m", **ASK[self.dialect](history), **request}
        whole = FAILURE if answer is None else ANSWER[self.dialect](answer) | {"id": f"resp-{number}"}
        raw = exchange(
            self.dialect,
            json.dumps(whole).encode(),
            call_id=number.to_bytes(16, "big"),
            started_at=started,
            ended_ns=int(seconds * 1e9),
            status_code=500 if answer is None else 200,
            request_chunks=(json.dumps(body).encode(),),
            request_headers=tuple((k.encode(), str(v).encode()) for k, v in (headers or {}).items()),
            response_headers=JSON_BODY,
        )
        record = parse_line(encode(process(raw, SERVER, {})))
        assert record is not None
        self.records.append(record)
        return record


def places(steps: list[StepRecord]) -> list[tuple[str, int | None, int | None, int | None]]:
    """Return relation, branch, parent and turn of each step."""
    return [(step.relation, step.branch, step.parent_step, step.turn_index) for step in steps]


def thread(rollout: Rollout, history: list[Turn], *rounds: Turn) -> list[Turn]:
    """Make a call for each round, each history holding what came before; return the last history."""
    for answer in rounds:
        rollout.call(history, answer)
        history = [*history, answer, *(tool(call_id, f"out {call_id}") for call_id, _, _ in answer.calls)]
    return history


FAILURE: Json = {"error": {"message": "no", "type": "server_error"}}
USAGE = {"input_tokens": 10, "output_tokens": 5}


def _ask_chat(history: list[Turn]) -> Json:
    return {"messages": [_chat_message(turn) for turn in history]}


def _chat_message(turn: Turn) -> Json:
    if turn.who == "tool":
        return {"role": "tool", "tool_call_id": turn.call_id, "content": turn.text}
    message: Json = {"role": turn.who, "content": turn.text or None}
    if turn.calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, n, a in turn.calls
        ]
    if turn.thought:
        message["reasoning_content"] = turn.thought
    return message


def _answer_chat(turn: Turn) -> Json:
    finish = "tool_calls" if turn.calls else "stop"
    choice = {"index": 0, "message": _chat_message(turn), "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


def _ask_responses(history: list[Turn]) -> Json:
    return {"input": [item for turn in history for item in _responses_items(turn, "input_text")]}


def _responses_items(turn: Turn, kind: str) -> list[Json]:
    if turn.who == "tool":
        return [{"type": "function_call_output", "call_id": turn.call_id, "output": turn.text}]
    items: list[Json] = []
    if turn.thought:
        items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": turn.thought}]})
    if turn.text:
        kind = "output_text" if turn.who == "assistant" else kind
        content = [{"type": kind, "text": turn.text}]
        items.append({"type": "message", "role": turn.who, "content": content})
    calls = [
        {"type": "function_call", "call_id": i, "name": n, "arguments": json.dumps(a)}
        for i, n, a in turn.calls
    ]
    return items + calls


def _answer_responses(turn: Turn) -> Json:
    output = _responses_items(turn, "output_text")
    usage = {**USAGE, "total_tokens": 15}
    return {"object": "response", "model": "m", "status": "completed", "output": output, "usage": usage}


def _ask_messages(history: list[Turn]) -> Json:
    """Write a conversation: instructions apart, outputs that follow each other in one message."""
    instructions = "".join(turn.text for turn in history if turn.who == "system")
    messages: list[Json] = []
    for turn in history:
        if turn.who == "system":
            continue
        blocks = _blocks(turn)
        if turn.who == "tool" and messages and messages[-1].get("tool"):
            messages[-1]["content"] += blocks
        else:
            role = "user" if turn.who == "tool" else turn.who
            messages.append({"role": role, "content": blocks, "tool": turn.who == "tool"})
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    return {"system": instructions, "messages": plain} if instructions else {"messages": plain}


def _blocks(turn: Turn) -> list[Json]:
    if turn.who == "tool":
        return [{"type": "tool_result", "tool_use_id": turn.call_id, "content": turn.text}]
    thought = [{"type": "thinking", "thinking": turn.thought, "signature": "s"}] if turn.thought else []
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    return thought + text + [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in turn.calls]


def _answer_messages(turn: Turn) -> Json:
    reason = "tool_use" if turn.calls else "end_turn"
    return {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": _blocks(turn),
        "stop_reason": reason,
        "usage": USAGE,
    }


ASK = {"chat": _ask_chat, "responses": _ask_responses, "messages": _ask_messages}
ANSWER = {"chat": _answer_chat, "responses": _answer_responses, "messages": _answer_messages}
