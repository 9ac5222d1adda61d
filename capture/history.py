"""A record's request and answers as items: one form for the three dialects.

What an agent said, heard and called reads the same whoever's API it went through: `message`, `reasoning`,
`function_call`, `function_call_output`. A dialect is a row of `READERS`. Nothing here raises, whatever a body holds;
what is no item of a known kind keeps its own type, and its content as it came.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from pipeline.dialects.base import Json, as_list, as_text, tool_call
from pipeline.record import ModelCallRecord

MESSAGE = "message"
REASONING = "reasoning"
CALL = "function_call"
OUTPUT = "function_call_output"
REFERENCE = "item_reference"

INSTRUCTORS = frozenset({"system", "developer"})
"""Roles of instructions. Those in front of everything else are the conversation's context, not a part of it."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of a conversation. `content` holds what is not text, as it came, less cache marks."""

    type: str
    role: str | None = None
    text: str | None = None
    content: Any = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None


class Item(Piece, frozen=True, kw_only=True):
    """A piece as it stood in a request or a response, with the provider's own id of it."""

    item_id: str | None = None


class Asked(NamedTuple):
    """What a request says: its instructions, then the conversation so far.

    `previous` is the response that the conversation goes on from where the provider keeps it, `conversation` the
    provider's name of it; then `items` are only what is new.
    """

    context: list[Item]
    items: list[Item]
    previous: str | None = None
    conversation: str | None = None


class Reader(NamedTuple):
    """How one dialect is read: all items of a request, and those of each choice of a response, choice 0 first."""

    request: Callable[[Json], Iterable[Item]]
    answers: Callable[[Json], list[list[Item]]]


def read_asked(record: ModelCallRecord) -> Asked:
    """Read a record's request; empty where it is no object, or of a dialect that is not known."""
    reader = READERS.get(record.dialect)
    if reader is None or not isinstance(record.request, dict):
        return Asked([], [])
    items = list(reader.request(record.request))
    context = list(takewhile(lambda item: item.role in INSTRUCTORS, items))
    named = record.request.get("conversation")
    named = named.get("id") if isinstance(named, dict) else named
    previous = as_text(record.request.get("previous_response_id"))
    return Asked(context, items[len(context) :], previous, as_text(named))


def read_answers(record: ModelCallRecord) -> list[list[Item]]:
    """Read a record's response: the items of each choice, choice 0 first; empty where there was no answer."""
    reader = READERS.get(record.dialect)
    if reader is None or not isinstance(record.response, dict):
        return []
    return reader.answers(record.response)


def _chat_request(request: Json) -> Iterator[Item]:
    for message in as_list(request.get("messages")):
        yield from _chat_message(message)


def _chat_answers(response: Json) -> list[list[Item]]:
    choices = as_list(response.get("choices"))
    choices.sort(key=lambda choice: index if isinstance(index := choice.get("index"), int) else 0)
    messages = [message if isinstance(message := choice.get("message"), dict) else {} for choice in choices]
    return [list(_chat_message({"role": "assistant", **message})) for message in messages]


def _chat_message(message: Json) -> Iterator[Item]:
    role = as_text(message.get("role"))
    text, content = _split(message.get("content"))
    if role in {"tool", "function"}:
        call_id = as_text(message.get("tool_call_id"))
        name = as_text(message.get("name"))
        yield Item(type=OUTPUT, role="tool", text=text, content=content, call_id=call_id, name=name)
        return
    thought = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
    if thought:
        yield Item(type=REASONING, role=role, text=thought)
    text = text or as_text(message.get("refusal")) or ""
    calls = list(_chat_calls(message))
    if text or content or not (calls or thought):
        yield Item(type=MESSAGE, role=role, text=text, content=content)
    yield from calls


def _chat_calls(message: Json) -> Iterator[Item]:
    for call in as_list(message.get("tool_calls")):
        kind = as_text(call.get("type")) or "function"
        detail = call.get(kind)
        detail = detail if isinstance(detail, dict) else {}
        yield _call(call.get("id"), detail.get("name"), detail.get("arguments", detail.get("input")), kind)
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        yield _call(None, legacy.get("name"), legacy.get("arguments"), "function")


def _responses_request(request: Json) -> Iterator[Item]:
    if (instructions := as_text(request.get("instructions"))) is not None:
        yield Item(type=MESSAGE, role="system", text=instructions)
    given = request.get("input")
    if isinstance(given, str):
        yield Item(type=MESSAGE, role="user", text=given)
    for item in as_list(given):
        yield _responses_item(item)


def _responses_answers(response: Json) -> list[list[Item]]:
    items = [_responses_item(item) for item in as_list(response.get("output"))]
    return [items] if items else []


def _responses_item(item: Json) -> Item:
    kind = as_text(item.get("type")) or (MESSAGE if "role" in item else "unknown")
    item_id = as_text(item.get("id"))
    if kind == MESSAGE:
        text, content = _split(item.get("content"))
        return Item(type=MESSAGE, role=as_text(item.get("role")), text=text, content=content, item_id=item_id)
    if kind == REASONING:
        parts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
        thoughts = "\n".join(thought for part in parts if (thought := as_text(part.get("text"))))
        return Item(type=REASONING, role="assistant", text=thoughts, item_id=item_id)
    if kind.endswith("_output"):
        text, content = _split(item.get("output"))
        call_id = as_text(item.get("call_id"))
        return Item(type=OUTPUT, role="tool", text=text, content=content, call_id=call_id, item_id=item_id)
    if kind.endswith("_call"):
        return _responses_call(item, kind, item_id)
    return Item(
        type=kind, role="assistant" if kind == REFERENCE else None, content=_unmarked(item), item_id=item_id
    )


def _responses_call(item: Json, kind: str, item_id: str | None) -> Item:
    given = next((item[name] for name in ("arguments", "input", "action", "code") if name in item), None)
    call = _call(item.get("call_id") or item_id, item.get("name") or kind, given, kind)
    content = None if kind in {CALL, "custom_tool_call"} else _unmarked(item)
    return msgspec.structs.replace(call, item_id=item_id, content=content)


def _messages_request(request: Json) -> Iterator[Item]:
    if request.get("system"):
        text, content = _split(request["system"])
        yield Item(type=MESSAGE, role="system", text=text, content=content)
    for message in as_list(request.get("messages")):
        yield from _messages_message(as_text(message.get("role")), message.get("content"))


def _messages_answers(response: Json) -> list[list[Item]]:
    items = list(_messages_message("assistant", response["content"])) if response.get("content") else []
    return [items] if items else []


def _messages_message(role: str | None, content: Any) -> Iterator[Item]:  # noqa: ANN401 - the client's
    """Read one message: blocks of calls, results and thoughts are items of their own, the rest is what is said."""
    said: list[Any] = []
    for block in content if isinstance(content, list) else [content]:
        item = _messages_block(block) if isinstance(block, dict) else None
        if item is None:
            said.append(block)
            continue
        yield from _said(role, said)
        said = []
        yield item
    yield from _said(role, said)


def _said(role: str | None, blocks: list[Any]) -> Iterator[Item]:
    if blocks:
        text, content = _split(blocks)
        yield Item(type=MESSAGE, role=role, text=text, content=content)


def _messages_block(block: Json) -> Item | None:
    kind = as_text(block.get("type")) or ""
    if kind.endswith("tool_use"):
        return _call(block.get("id"), block.get("name"), block.get("input"), kind)
    if kind.endswith("tool_result"):
        text, content = _split(block.get("content"))
        call_id = as_text(block.get("tool_use_id"))
        return Item(type=OUTPUT, role="tool", text=text, content=content, call_id=call_id)
    if kind in {"thinking", "redacted_thinking"}:
        return Item(type=REASONING, role="assistant", text=as_text(block.get("thinking")))
    return None


def _call(call_id: Any, name: Any, arguments: Any, kind: str) -> Item:  # noqa: ANN401 - the wire's
    call, _ = tool_call(call_id, name, arguments, kind)
    return Item(type=CALL, role="assistant", call_id=call.call_id, name=call.name, arguments=call.arguments)


def _split(content: Any) -> tuple[str, Any]:  # noqa: ANN401 - the wire's
    """Part content into its text, joined, and what is not text."""
    if isinstance(content, str):
        return content, None
    if not isinstance(content, list):
        return "", content
    texts: list[str] = []
    others: list[Any] = []
    for part in content:
        text = _text(part)
        if text is not None:
            texts.append(text)
        elif part is not None:
            others.append(_unmarked(part))
    return "".join(texts), others or None


def _text(part: Any) -> str | None:  # noqa: ANN401 - the wire's
    if isinstance(part, dict):
        part = part.get("text", part.get("refusal"))
    return part if isinstance(part, str) else None


def _unmarked(part: Any) -> Any:  # noqa: ANN401 - the wire's
    """Drop the cache mark, which clients move from message to message."""
    if isinstance(part, dict) and "cache_control" in part:
        return {name: value for name, value in part.items() if name != "cache_control"}
    return part


READERS: dict[str, Reader] = {
    "chat": Reader(_chat_request, _chat_answers),
    "responses": Reader(_responses_request, _responses_answers),
    "messages": Reader(_messages_request, _messages_answers),
}
"""Dialect to how it is read."""
