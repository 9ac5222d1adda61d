"""Histories as a prefix tree: each node is one entry of a conversation, below the entry that came before it.

A request repeats the whole conversation, so requests of one conversation are paths that share their beginning, and
a thousand of them cost the memory of the longest. An entry is compared by a digest of its normal form: what clients
change when they repeat history (cache marks, text as a string or as a part, reasoning left out, injected reminders,
the spacing of arguments, the order of outputs that come together) is not in it. What a model made in one go is one
entry, however many items it took, and so are the outputs that answer it.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from .history import CALL, MESSAGE, OUTPUT, REASONING, Item

ROOT = 0
INJECTED = ("system-reminder", "environment_context", "user_instructions")
"""Tags in which coding agents put words of their own into a user's mouth, and take them out again later."""

THOUGHT = ("<think>", "</think>")
"""Reasoning that some servers leave in the text, and that clients cut out before they repeat it."""

STRONG_TEXT_CHARS = 24
"""A text as long as this is told apart from others by itself; `OK` is not."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Made(NamedTuple):
    """What tells one answer of a model from another. `local` holds within one conversation, `exact` anywhere.

    `local`: ids of its tool calls, else its text, else ids of its items. `exact`: its calls with their arguments,
    else its text if that is long enough.
    """

    local: tuple[bytes, ...] = ()
    exact: tuple[bytes, ...] = ()


class Entry(NamedTuple):
    """One step down the tree. `kind`: `user`, `model`, `tool`, or another that says nothing of who spoke."""

    kind: str
    digest: bytes
    items: tuple[Item, ...] = ()


class Node:
    """One entry in its place. `users` counts the user's messages down to here."""

    __slots__ = ("items", "kind", "made", "origin", "parent", "users")

    def __init__(
        self, parent: int, kind: str, users: int, made: Made | None, items: tuple[Item, ...]
    ) -> None:
        self.parent = parent
        self.kind = kind
        self.users = users
        self.made = made
        self.items = items
        self.origin: Any = None


class Tree:
    """All histories of a rollout. With `keep` the nodes hold their items, once each."""

    def __init__(self, *, keep: bool = False) -> None:
        self.nodes = [Node(ROOT, "other", 0, None, ())]
        self._below: dict[tuple[int, bytes], int] = {}
        self._keep = keep

    def descend(self, start: int, entries: Iterable[Entry]) -> tuple[int, list[tuple[int, Entry]]]:
        """Follow entries down from a node, adding what is missing; return where they end, and what was added."""
        at, added = start, []
        for entry in entries:
            key = (at, entry.digest)
            below = self._below.get(key)
            if below is None:
                users = self.nodes[at].users + (entry.kind == "user")
                below = self._below[key] = len(self.nodes)
                made = made_by(entry.items) if entry.kind == "model" else None
                items = entry.items if self._keep else ()
                self.nodes.append(Node(at, entry.kind, users, made, items))
                added.append((below, entry))
            at = below
        return at, added

    def up(self, node: int, stop: int = ROOT) -> Iterator[int]:
        """Yield a node and those above it, without `stop` and without the root."""
        while node not in {stop, ROOT}:
            yield node
            node = self.nodes[node].parent


def entries_of(items: Iterable[Item]) -> list[Entry]:
    """Return the entries of a conversation; what says nothing that lasts is left out."""
    found: list[Entry] = []
    for kind, group in groupby(items, _kind):
        if kind == "model":
            made = tuple(group)
            found.append(Entry(kind, _digest_made(made), made))
        elif kind == "tool":
            outputs = tuple(group)
            found.append(Entry(kind, _digest_outputs(outputs), outputs))
        elif kind is not None:
            found += [Entry(kind, _digest(item), (item,)) for item in group]
    return found


def made_by(items: Iterable[Item]) -> Made:
    """Say what tells an answer from others."""
    items = tuple(items)
    calls = [item for item in items if item.type == CALL]
    ids = tuple(b"i" + _bytes(item.item_id) for item in items if item.item_id)
    text = _spoken(items)
    if calls:
        names = tuple(b"c" + _bytes(call.call_id) for call in calls if call.call_id)
        exact = tuple(b"x" + digest((call.call_id, call.name, call.arguments)) for call in calls)
        return Made(names or exact, exact) if not ids else Made((names or exact) + ids, exact)
    if text:
        key = b"t" + digest(text)
        return Made((key, *ids), (key,) if len(text) >= STRONG_TEXT_CHARS else ())
    return Made(ids)


def said(text: str) -> str:
    """Return what a user said: a text without what an agent injected into it."""
    for tag in INJECTED:
        opening, closing = f"<{tag}>", f"</{tag}>"
        if opening in text:
            text = _without(text, opening, closing)
    return text.strip()


def digest(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Digest any JSON value, members in any order. Never raises."""
    if isinstance(value, str):
        return blake2b(_bytes(value), digest_size=16).digest()
    try:
        encoded = _encode(value)
    except (ValueError, OverflowError, RecursionError):
        encoded = _last_resort(value)
    return blake2b(encoded, digest_size=16).digest()


def _last_resort(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Encode what JSON cannot: lone surrogates, huge integers."""
    try:
        return _bytes(repr(value))
    except RecursionError:
        return b"too deep"


def _bytes(text: str | None) -> bytes:
    return (text or "").encode("utf-8", "surrogatepass")


def _kind(item: Item) -> str | None:
    """Say who an item is from; null for what comes and goes without meaning anything."""
    if item.type == OUTPUT:
        return "tool"
    if item.role == "assistant" or item.type in {CALL, REASONING}:
        return "model"
    if item.role == "user" and item.type == MESSAGE:
        return "user" if item.content or said(item.text or "") else None
    return "other"


def _digest(item: Item) -> bytes:
    text = said(item.text or "")
    hashed = blake2b(
        f"{item.type}\0{item.role}\0{item.call_id}\0".encode("utf-8", "surrogatepass"), digest_size=16
    )
    hashed.update(_bytes(text))
    if item.content is not None:
        hashed.update(digest(item.content))
    return hashed.digest()


def _digest_outputs(items: tuple[Item, ...]) -> bytes:
    """Digest outputs that came together, in any order: they are told apart by the calls that they are of."""
    return digest("".join(sorted(_digest(item).hex() for item in items)))


def _digest_made(items: tuple[Item, ...]) -> bytes:
    """Digest what a model made, its reasoning apart: clients leave that out sooner or later."""
    calls = [(item.call_id, item.name, item.arguments) for item in items if item.type == CALL]
    references = [item.item_id for item in items if item.type not in {CALL, MESSAGE, REASONING, OUTPUT}]
    contents = [item.content for item in items if item.type == MESSAGE and item.content is not None]
    return digest(["model", _spoken(items), calls, references, contents])


def _spoken(items: Iterable[Item]) -> str:
    """Return the text of an answer, without reasoning that a server left in it."""
    text = "".join(item.text or "" for item in items if item.type == MESSAGE).strip()
    opening, closing = THOUGHT
    if closing in text:
        text = text.rpartition(closing)[2].strip() if text.startswith(opening) else text
    return text


def _without(text: str, opening: str, closing: str) -> str:
    """Cut out every part from an opening to its closing mark."""
    kept, at = [], 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
    return "".join([*kept, text[at:]])
