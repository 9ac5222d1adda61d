"""From a request to an answer: a pure function, so that the same request is always answered the same.

`Ask` is what any dialect's request comes down to, `Answer` what any dialect's response is made from. Words are
picked by a digest of the conversation, not of the request's bytes: streamed or not, an answer is the same text.
The clock is not asked either, so a whole response can be compared with the one a client saw.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from capture.demo.scripts import Plan, Script

CREATED = 1_760_000_000
"""Every answer's Unix time, so that answers can be compared."""

BYTES_PER_TOKEN = 4
CACHE_BLOCK_TOKENS = 128
"""Cached prompts are counted in whole blocks of this, as the providers do."""

CALLS = 2
ARGUMENT_PIECE_CHARS = 7

WORDS = (
    "the", "agent", "reads", "a", "file", "and", "then", "writes", "one", "line", "per", "call", "with", "care",
    "naïve", "café", "Zürich", "東京", "日本語", "данные", "🙂", "\n", '"quoted"', "\\path", "tests", "pass", "again",
    "because", "every", "byte", "counts", "so", "nothing", "is", "lost", "when", "it", "leaves", "early", "now",
    "let", "us", "try", "that", "once", "more", "from", "here", "on", "fast", "path", "data: [DONE]", "x²", "≤", "π",
    "ok", "done", "next", "step", "model", "tool", "answer", "end", "…",
)  # fmt: skip
"""64 of them: with spaces, quotes, backslashes, line feeds and characters of one to four bytes among them."""

DEFAULT_TOOLS = ("read_file", "run_tests")
"""Called where a request offers none."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for, whatever its dialect. `fields` are the request's members that a response repeats."""

    model: str
    stream: bool
    stream_usage: bool = False
    choices: int = 1
    rounds_done: int = 0
    tools: tuple[str, ...] = ()
    seed: bytes
    input_tokens: int
    cached_tokens: int
    fields: dict[str, Any] = {}


class Call(msgspec.Struct, frozen=True):
    """One tool call; `pieces` joined are its arguments, a JSON object."""

    id: str
    name: str
    pieces: tuple[str, ...]


class Choice(msgspec.Struct, frozen=True):
    """One answer of the model, each text as its tokens. `finish`: stop, calls, length or refusal."""

    reasoning: tuple[str, ...]
    text: tuple[str, ...]
    refusal: tuple[str, ...]
    calls: tuple[Call, ...]
    finish: str


class Answer(msgspec.Struct, frozen=True):
    """A whole response, in no dialect. `key` is 24 hex digits, the stem of its ids."""

    key: str
    served: str
    choices: tuple[Choice, ...]
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int

    @property
    def signature(self) -> str:
        """Opaque base64, as providers sign what their models thought."""
        return "c2lnbmVkOg" + self.key * 4


def weigh(model: str, turns: Sequence[Any]) -> tuple[bytes, int, int]:
    """Return the seed of a conversation, its length in tokens, and how many of those a cache would know."""
    encoded = msgspec.json.encode([model, turns])
    tokens = max(1, len(encoded) // BYTES_PER_TOKEN)
    cached = tokens // CACHE_BLOCK_TOKENS * CACHE_BLOCK_TOKENS if len(turns) > 1 else 0
    return hashlib.blake2b(encoded, digest_size=16).digest(), tokens, cached


def compose(ask: Ask, plan: Plan) -> Answer:
    """Answer a request by its plan."""
    choices = tuple(_choice(ask, plan, index) for index in range(ask.choices))
    reasoning = sum(len(choice.reasoning) for choice in choices)
    output = reasoning + sum(_spoken(choice) for choice in choices)
    key = hashlib.blake2b(ask.seed, digest_size=12, person=b"key").hexdigest()
    return Answer(key, plan.served, choices, ask.input_tokens, ask.cached_tokens, output, reasoning)


def _spoken(choice: Choice) -> int:
    return len(choice.text) + len(choice.refusal) + sum(len(call.pieces) for call in choice.calls)


def _choice(ask: Ask, plan: Plan, index: int) -> Choice:
    says = _parts(plan.script, rounds_left=plan.model.rounds - ask.rounds_done)
    texts = {
        part: tuple(_words(ask.seed, f"{part}{index}", plan.model.tokens)) for part in says if part != "calls"
    }
    calls = tuple(_call(ask, index, number) for number in range(CALLS)) if "calls" in says else ()
    reasoning, text, refusal = (texts.get(part, ()) for part in ("reasoning", "text", "refusal"))
    return Choice(reasoning, text, refusal, calls, _finish(plan.script, says))


def _parts(script: Script, *, rounds_left: int) -> tuple[str, ...]:
    return ("text",) if "calls" in script.says and rounds_left <= 0 else script.says


def _finish(script: Script, says: tuple[str, ...]) -> str:
    if script.length:
        return "length"
    return next((part for part in ("calls", "refusal") if part in says), "stop")


def _words(seed: bytes, salt: str, count: int) -> Iterator[str]:
    picks = hashlib.shake_256(seed + salt.encode()).digest(count)
    for position, pick in enumerate(picks):
        yield (" " if position else "") + WORDS[pick % len(WORDS)]


def _call(ask: Ask, index: int, number: int) -> Call:
    names = ask.tools or DEFAULT_TOOLS
    stem = hashlib.blake2b(ask.seed, digest_size=12, salt=bytes((index, number))).hexdigest()
    about = " ".join(word.strip() for word in _words(ask.seed, stem, 3))
    arguments = msgspec.json.encode({"about": about, "limit": number + 1}).decode()
    pieces = (
        arguments[at : at + ARGUMENT_PIECE_CHARS] for at in range(0, len(arguments), ARGUMENT_PIECE_CHARS)
    )
    return Call(stem, names[number % len(names)], tuple(pieces))
