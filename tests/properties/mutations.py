"""Damaged exchanges from one seed: streams and bodies of every dialect, made by grammar, then broken in many ways.

A case is a function of its number and the seed alone, so that any failure can be made again. Damage is done on three
levels: to the events (dropped, doubled, moved, taken from another dialect), to the values inside (any member becomes
anything), and to the bytes (changed, cut, moved, other line ends, content codings).
"""

import copy
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

from pipeline.exchange import Failure, RawExchange
from tests.clients import grammar
from tests.exchanges import exchange, zipped

Json = dict[str, Any]

MAKERS: dict[str, Callable[[random.Random], list[Json]]] = {
    "chat": grammar.chat,
    "responses": grammar.responses,
    "messages": grammar.messages,
}
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    10**30,
    "",
    "x",
    "\ud83d",
    "\ude00",
    "null",
    "[DONE]",
    "é" * 50,
    [],
    {},
    [[]],
    [None, 7],
    {"index": 0},
    {"type": "error", "error": {"code": 429}},
    [{"id": "a", "function": {"name": "f", "arguments": "{"}}],
]
BYTES = [
    b"",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"data:",
    b"data: null\n\n",
    b"data: [DONE]\n\n",
    b"event: error\n",
    b": ping\n\n",
    b'error: {"code":1}\n\n',
    b"\xef\xbb\xbf",
    b"\xff\xfe\x00",
    b"\xf0\x9f",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"7" * 5000,
    b"[" * 1500,
    b'{"a":' * 300,
    b'"\\ud83d"',
    b"\xe2\x80\xa8",
    b"}",
    b"{}",
]
TYPES = [
    b"text/event-stream",
    b"Text/Event-Stream; charset=utf-8",
    b"application/json",
    b"text/html",
    b"",
    b"\xff",
]


def case(seed: int, number: int) -> RawExchange:
    """Make the damaged exchange with this number."""
    chance = random.Random(f"{seed} {number}")
    dialect = chance.choice([*MAKERS])
    body = damaged(chance, written(chance, events(chance, dialect)))
    coding = b""
    if chance.random() < 0.1:
        body, coding = encoded(chance, body)
    chunks = cut(chance, body)
    request = damaged(chance, json.dumps({"model": "m", "stream": True, "x": value(chance)}).encode())
    return exchange(
        dialect,
        chunks,
        call_id=number.to_bytes(16, "big"),
        seq=number,
        status_code=chance.choice((200, 200, 200, 200, None, 204, 400, 429, 500)),
        response_headers=((b"content-type", chance.choice(TYPES)), (b"content-encoding", coding)),
        request_headers=((b"traceparent", damaged(chance, b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01")),),
        request_chunks=(request,),
        disconnect_ns=chance.choice((None, None, 5)),
        failure=chance.choice((None, None, None, Failure("builtins.ValueError", "\ud800", "app"))),
        annotations=chance.choice(
            (None, {"local_response_reason": value(chance), "model_ref": value(chance)})
        ),
    )


def value(chance: random.Random) -> Any:  # noqa: ANN401 - any JSON value
    """Choose a value that may be where it does not belong."""
    return copy.deepcopy(chance.choice(VALUES))


def events(chance: random.Random, dialect: str) -> list[Json]:
    """Make a dialect's stream and break it as events."""
    made = copy.deepcopy(MAKERS[dialect](chance))  # the grammar's constants stay whole
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(made) + 1)
        what = chance.randrange(6)
        if what == 0 and made:
            del made[at % len(made)]
        elif what == 1 and made:
            made.insert(at, copy.deepcopy(chance.choice(made)))
        elif what == 2:
            made.insert(at, copy.deepcopy(chance.choice(MAKERS[chance.choice([*MAKERS])](chance))))
        elif what == 3:
            made = made[:at]
        elif made:
            spoil(chance, made[at % len(made)])
    return made


def spoil(chance: random.Random, node: Any) -> None:  # noqa: ANN401 - any JSON value
    """Change one member somewhere inside an object or array, in place."""
    while isinstance(node, (dict, list)) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = chance.choice(keys)
        inner = node[key]
        if isinstance(inner, (dict, list)) and inner and chance.random() < 0.7:
            node = inner
            continue
        if isinstance(node, dict) and chance.random() < 0.3:
            del node[key]
        else:
            node[key] = value(chance)
        return


def written(chance: random.Random, made: list[Json]) -> bytes:
    """Write events as a stream, or one of them as a body."""
    if made and chance.random() < 0.15:
        return json.dumps(chance.choice(made)).encode()
    lines = [
        (f"event: {event.get('type')}\n" if chance.random() < 0.3 else "")
        + f"data: {json.dumps(event, ensure_ascii=chance.random() < 0.5)}\n\n"
        for event in made
    ]
    body = "".join(lines).encode("utf-8", "surrogatepass") + chance.choice((b"", b"data: [DONE]\n\n"))
    return body.replace(b"\n", chance.choice((b"\n", b"\n", b"\n", b"\r\n", b"\r")))


def damaged(chance: random.Random, body: bytes) -> bytes:
    """Break a body as bytes, or leave it."""
    broken = bytearray(body)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
        at, length = chance.randrange(len(broken) + 1), chance.choice((0, 1, 3, 40))
        piece = bytes(broken[at : at + length])
        broken[at : at + length] = chance.choice(
            (b"", piece * 2, piece[::-1], chance.randbytes(3), chance.choice(BYTES), chance.choice(BYTES))
        )
    return bytes(broken)


def encoded(chance: random.Random, body: bytes) -> tuple[bytes, bytes]:
    """Put a body into a content coding, which may be broken, cut, or not what it is called."""
    name = chance.choice((b"gzip", b"deflate", b"br", b"zstd", b"foo", b"gzip, gzip"))
    return damaged(chance, chance.choice((zipped(body), zlib.compress(body), body))), name


def cut(chance: random.Random, body: bytes) -> list[bytes]:
    """Cut a body into chunks."""
    size = chance.choice((1 << 20, 1 << 20, 61, 7))
    return [body[at : at + size] for at in range(0, len(body), size)]
