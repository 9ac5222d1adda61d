"""From a scope to the decision to capture: rollout id, dialect, path to serve.

Two questions, asked in this order for each request, on the event loop. `strip`: does the path carry the rollout
prefix? It is asked with capture off and for paths that are not observed, too, for the application must never
see the prefix. `route`: is this a call to a model, and whose? The rules of correlation are one ordered list
(rollout headers, prefix, baggage, session headers); the first that speaks wins, and a lower one of the first
three kinds that names another rollout is kept as the conflict. Scopes are only read. No regular expressions;
one pass over the headers.

Paths are cut at segment boundaries. `path` is decoded text that includes `root_path`; `raw_path`, where a
server gives it, is what decides where segments end, so that `%2F` stays inside an id (ASGI HTTP specification,
"HTTP Connection Scope"; Starlette cuts `root_path` off by the same rule).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_to_bytes

import msgspec

from capture.config import CaptureConfig
from pipeline.exchange import Correlation
from pipeline.stems import stem_of

SESSION_HEADERS: Final = ("x-claude-code-session-id", "session-id", "x-session-id")
"""Headers in which agents name their session by themselves; the last resort, and never a conflict."""

BAGGAGE: Final = "baggage"
BAGGAGE_MEMBER: Final = "rollout.id"
UNCORRELATED: Final = Correlation("none")

KEPT_ROUTES: Final = 1024
KEPT_ROUTE_BYTES: Final = 1000
"""More rollouts than run at once, and ids of the usual size: bounded, whatever clients send."""

_PATH_SAFE = "/:@!$&'()*+,;=-._~"
"""What RFC 3986 lets stand in a path undecoded."""


class Prefixed(msgspec.Struct, frozen=True, gc=False):
    """A path that carried the rollout prefix: the id it named, and the path to serve without it.

    `path` and `raw_path` still begin with the scope's `root_path`; `raw_path` is null where the scope has none.
    """

    rollout_id: str
    path: str
    raw_path: bytes | None


class Route(msgspec.Struct, frozen=True, gc=False):
    """One kind of call that is captured. `rollout_id` and `stem` are null where no rule named a rollout."""

    rollout_id: str | None
    stem: str | None
    dialect: str
    path: str
    correlation: Correlation


class Router:
    """The routing rules of one configuration, laid out for speed.

    Calls of a rollout come by the hundred with the same path and id, so the latest routes are kept.
    """

    def __init__(self, config: CaptureConfig) -> None:
        self._prefix = config.rollout_prefix
        self._marker = f"{config.rollout_prefix}/"
        self._dialects = dict(config.routes)
        headers = tuple(config.rollout_headers)
        named, sessions = ([f"header:{name}" for name in names] for names in (headers, SESSION_HEADERS))
        self._sources = (*named, "prefix", BAGGAGE, *sessions)
        self._prefix_rank = len(headers)
        self._baggage_rank = len(headers) + 1
        self._ranks = _spelled((*headers, None, BAGGAGE, *SESSION_HEADERS))
        self._known: dict[tuple[Any, ...], Route] = {}

    def strip(self, scope: Mapping[str, Any]) -> Prefixed | None:
        """Find the rollout prefix in an HTTP or WebSocket scope; null where the path does not carry it."""
        path = scope["path"]
        if self._marker not in path:
            return None
        start = _local_start(path, scope.get("root_path"))
        if not path.startswith(self._marker, start):
            return None
        raw = scope.get("raw_path")
        id_start = start + len(self._marker)
        if raw is None or raw.decode("latin-1") == path:
            return _cut(path, raw, start, id_start)
        return self._strip_encoded(path, raw, start, id_start)

    def _strip_encoded(self, path: str, raw: bytes, start: int, id_start: int) -> Prefixed | None:
        """Cut where the undecoded path has its slashes; if it is of another path, cut the decoded one."""
        local = _raw_after(raw, path[:start])
        rest = None if local is None else _raw_after(local, self._prefix)
        if local is not None and rest is not None:
            return _from_raw(path[:start], raw[: len(raw) - len(local)], rest)
        found = _cut(path, None, start, id_start)
        if found is None:
            return None
        anew = quote(found.path, safe=_PATH_SAFE, errors="surrogatepass").encode()
        return Prefixed(found.rollout_id, found.path, anew)

    def route(self, scope: Mapping[str, Any], prefixed: Prefixed | None) -> Route | None:
        """Decide on an HTTP scope, given what `strip` said of it; null where it is no call to a model."""
        if scope.get("method") != "POST":
            return None
        path = scope["path"] if prefixed is None else prefixed.path
        start = _local_start(path, scope.get("root_path"))
        dialect = self._dialects.get(path[start:] if start else path)
        if dialect is None:
            return None
        ranks = self._ranks
        said = [(ranks[name], value) for name, value in scope["headers"] if name in ranks]
        key = (path, dialect, prefixed and prefixed.rollout_id, *said)
        return self._known.get(key) or self._remember(key, path, dialect, said, prefixed)

    def _remember(
        self,
        key: tuple[Any, ...],
        path: str,
        dialect: str,
        said: list[tuple[int, Any]],
        prefixed: Prefixed | None,
    ) -> Route:
        found = self._correlate(said, prefixed)
        rollout_id = _storable(found.value)
        stem = None if rollout_id is None else stem_of(rollout_id)
        correlation = Correlation(found.source, rollout_id, _storable(found.conflict))
        route = Route(rollout_id, stem, dialect, path, correlation)
        if sum(len(value) for _, value in said) + len(rollout_id or "") <= KEPT_ROUTE_BYTES:
            if len(self._known) >= KEPT_ROUTES:
                self._known.clear()
            self._known[key] = route
        return route

    def _correlate(self, said: list[tuple[int, Any]], prefixed: Prefixed | None) -> Correlation:
        if not said:
            return UNCORRELATED if prefixed is None else Correlation("prefix", prefixed.rollout_id)
        return self._weigh(said, prefixed)

    def _weigh(self, said: list[tuple[int, Any]], prefixed: Prefixed | None) -> Correlation:
        read = [(rank, self._read(rank, value)) for rank, value in said]
        if prefixed is not None:
            read.append((self._prefix_rank, prefixed.rollout_id))
        named = sorted([found for found in read if found[1]], key=_rank)
        if not named:
            return UNCORRELATED
        rank, rollout_id = named[0]
        for lower, other in named[1:]:
            if other != rollout_id and lower <= self._baggage_rank:
                return Correlation(self._sources[rank], rollout_id, other)
        return Correlation(self._sources[rank], rollout_id)

    def _read(self, rank: int, value: Any) -> str:  # noqa: ANN401 - bytes, but for odd servers
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        return _rollout_of_baggage(text) if rank == self._baggage_rank else text.strip()


def _storable(text: str | None) -> str | None:
    """Give text as it can be stored: half surrogates, which only odd servers hand over, become `?`."""
    return text and text.encode("utf-8", "replace").decode()


def _rank(found: tuple[int, str]) -> int:
    return found[0]


def _spelled(names: Iterable[str | None]) -> dict[bytes, int]:
    """Map header names to their rank: in lower case, as ASGI wants them, and in capitals, as some servers do."""
    ranks = {}
    for rank, name in enumerate(names):
        if name is not None:
            for spelling in (name, name.title(), name.upper()):
                ranks[spelling.encode()] = rank
    return ranks


def _local_start(path: str, root: str | None) -> int:
    """Find where the path that is routed begins: behind `root_path` if that ends at a segment's end, else at 0."""
    if not root or not path.startswith(root):
        return 0
    start = len(root)
    return start if path.startswith("/", start) else 0


def _cut(path: str, raw: bytes | None, start: int, id_start: int) -> Prefixed | None:
    """Read `<id>/<path>` from `id_start` on; the undecoded path, if given, is the same letter by letter."""
    end = path.find("/", id_start)
    if end <= id_start or end + 1 == len(path) or path.startswith("//", end):
        return None
    served = path[:start] + path[end:]
    return Prefixed(path[id_start:end], served, None if raw is None else raw[:start] + raw[end:])


def _raw_after(raw: bytes, prefix: str) -> bytes | None:
    """Give what follows `prefix`, whose segments may be percent-encoded in `raw`; null if it begins otherwise."""
    count = prefix.count("/") + 1
    parts = raw.split(b"/", count)
    if len(parts) <= count or _decoded(b"/".join(parts[:count])) != prefix:
        return None
    return b"/" + parts[count]


def _decoded(raw: bytes) -> str:
    return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")


def _from_raw(root: str, raw_root: bytes, raw_rest: bytes) -> Prefixed | None:
    """Read `/<id>/<path>[?<query>]` undecoded; the query, where a server leaves one in, stays in `raw_path`."""
    id_part, slash, tail = raw_rest[1:].partition(b"/")
    if not id_part or not slash or not tail or tail.startswith(b"/") or b"?" in id_part:
        return None
    path = f"{root}/{_decoded(tail.partition(b'?')[0])}"
    return Prefixed(_decoded(id_part), path, raw_root + b"/" + tail)


def _rollout_of_baggage(text: str) -> str:
    """Find the member `rollout.id` (W3C Baggage: `key=value;properties`, comma-separated, percent-encoded)."""
    for member in text.split(","):
        key, _, value = member.partition("=")
        if key.strip() == BAGGAGE_MEMBER:
            return unquote(value.partition(";")[0].strip())
    return ""
