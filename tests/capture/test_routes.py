"""Which requests are calls to a model, of which rollout, and what path the application gets to see."""

from copy import deepcopy
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.config import DIALECTS, CaptureConfig
from capture.routes import SESSION_HEADERS, Prefixed, Route, Router
from pipeline.exchange import Correlation
from pipeline.stems import stem_of

ROUTER = Router(CaptureConfig())
DERIVED = "as the target"


def scope_of(
    target: str,
    *headers: tuple[bytes, bytes],
    root: str = "",
    raw: bytes | str | None = DERIVED,
    method: str = "POST",
) -> dict[str, Any]:
    """Make a scope as uvicorn does: `path` decoded and with the root path, `raw_path` as it came."""
    scope: dict[str, Any] = {"type": "http", "method": method, "headers": list(headers)}
    scope |= {"path": root + unquote(target), "root_path": root, "query_string": b""}
    if raw == DERIVED:
        raw = (root + target).encode()
    return scope if raw is None else scope | {"raw_path": raw}


def route_of(scope: dict[str, Any], router: Router = ROUTER) -> Route | None:
    """Ask both questions; the scope must stay as it was."""
    before = deepcopy(scope)
    route = router.route(scope, router.strip(scope))
    assert scope == before
    return route


@pytest.mark.parametrize(("path", "dialect"), DIALECTS.items())
@pytest.mark.parametrize("prefix", ["", "/ng-rollout/a1"])
def test_the_three_paths_are_calls_with_and_without_prefix(path: str, dialect: str, prefix: str) -> None:
    """Each model path has its dialect and is served without the prefix."""
    route = route_of(scope_of(prefix + path))
    assert route is not None
    assert (route.dialect, route.path) == (dialect, path)
    assert route.rollout_id == ("a1" if prefix else None)


@pytest.mark.parametrize(
    "target",
    [
        "/v1/messages/count_tokens",
        "/v1/messages/batches",
        "/v1/messages/",
        "/v1/models",
        "/v1//messages",
        "/v1/messagesx",
        "/V1/messages",
        "/",
        "",
        "*",
    ],
)
def test_other_paths_are_no_calls(target: str) -> None:
    """Counting tokens, listing models and paths that only look alike are not captured."""
    assert route_of(scope_of(target)) is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT"])
def test_only_post_is_a_call(method: str) -> None:
    """Other methods on a model path are not captured, and lose the prefix all the same."""
    scope = scope_of("/ng-rollout/a1/v1/messages", method=method)
    assert route_of(scope) is None
    assert ROUTER.strip(scope) == Prefixed("a1", "/v1/messages", b"/v1/messages")


def test_a_call_without_a_rollout_has_neither_id_nor_stem() -> None:
    """Whoever names no rollout gets none made up."""
    route = route_of(scope_of("/v1/messages", (b"content-type", b"application/json")))
    assert route is not None
    assert (route.rollout_id, route.stem, route.correlation) == (None, None, Correlation("none"))


@pytest.mark.parametrize("raw", [DERIVED, None])
@pytest.mark.parametrize("root", ["", "/v1", "/api/x"])
@pytest.mark.parametrize(
    ("target", "rollout_id", "rest"),
    [
        ("/ng-rollout/a1/v1/messages", "a1", "/v1/messages"),
        ("/ng-rollout/a1/v1/models", "a1", "/v1/models"),
        ("/ng-rollout/a1/x/", "a1", "/x/"),
        ("/ng-rollout/ng-rollout/v1/messages", "ng-rollout", "/v1/messages"),
        ("/ng-rollout/a/ng-rollout/b/c", "a", "/ng-rollout/b/c"),
        ("/ng-rollout/../v1/messages", "..", "/v1/messages"),
    ],
)
def test_the_prefix_is_taken_off(
    target: str, rollout_id: str, rest: str, root: str, raw: bytes | str | None
) -> None:
    """Observed or not, mounted or not, both paths lose exactly the prefix and the id."""
    found = ROUTER.strip(scope_of(target, root=root, raw=raw))
    assert found == Prefixed(rollout_id, root + rest, None if raw is None else (root + rest).encode())


@pytest.mark.parametrize("raw", [DERIVED, None])
@pytest.mark.parametrize("root", ["", "/v1"])
@pytest.mark.parametrize(
    "target",
    [
        "/ng-rollout",
        "/ng-rollout/",
        "/ng-rollout/a1",
        "/ng-rollout/a1/",
        "/ng-rollout//v1/messages",
        "/ng-rollout///v1/messages",
        "/ng-rollout/a1//v1/messages",
        "/ng-rolloutx/a1/v1/messages",
        "/x/ng-rollout/a1/v1/messages",
        "/v1/messages",
        "ng-rollout/a1/v1/messages",
    ],
)
def test_what_only_resembles_the_prefix_is_left_alone(
    target: str, root: str, raw: bytes | str | None
) -> None:
    """Segments count, not letters; an empty id or an empty rest is no match."""
    assert ROUTER.strip(scope_of(target, root=root, raw=raw)) is None


@pytest.mark.parametrize(
    ("target", "rollout_id", "path", "raw"),
    [
        ("/ng-rollout/a%2Fb/v1/messages", "a/b", "/v1/messages", b"/v1/messages"),
        ("/ng-rollout/a%20%C3%A9/v1/messages", "a é", "/v1/messages", b"/v1/messages"),
        ("/ng-rollout/a%FF/v1/messages", "a\ufffd", "/v1/messages", b"/v1/messages"),
        ("/ng-rollout/%2e%2E/v1/x%2Fy", "..", "/v1/x/y", b"/v1/x%2Fy"),
        ("/ng%2Drollout/a1/v1/messages", "a1", "/v1/messages", b"/v1/messages"),
        ("/ng-rollout/a%3Fb/v1/messages", "a?b", "/v1/messages", b"/v1/messages"),
        ("/ng-rollout/a%252Fb/v1/messages", "a%2Fb", "/v1/messages", b"/v1/messages"),
    ],
)
@pytest.mark.parametrize("root", ["", "/v1", "/r%C3%B6"])
def test_the_undecoded_path_decides_where_segments_end(
    target: str, rollout_id: str, path: str, raw: bytes, root: str
) -> None:
    """An encoded slash stays inside its segment, and the id is decoded once."""
    scope = scope_of(target, root=unquote(root), raw=(root + target).encode())
    assert ROUTER.strip(scope) == Prefixed(rollout_id, unquote(root) + path, root.encode() + raw)


def test_a_query_in_the_undecoded_path_is_no_part_of_the_path() -> None:
    """Servers that leave the query in `raw_path` find it there again."""
    scope = scope_of("/ng-rollout/a1/v1/messages", raw=b"/ng-rollout/a1/v1/messages?beta=/true")
    assert ROUTER.strip(scope) == Prefixed("a1", "/v1/messages", b"/v1/messages?beta=/true")
    cut = scope_of("/ng-rollout/a1", raw=b"/ng-rollout/a1?x=/v1/messages")
    assert ROUTER.strip(cut) is None


@pytest.mark.parametrize(
    "raw", [b"/gateway/ng-rollout/a1/v1/r%C3%A4", b"", b"/", b"/ng-rollout%2Fa1/v1/r%C3%A4"]
)
def test_an_undecoded_path_that_says_something_else_is_made_anew(raw: bytes) -> None:
    """Where somebody rewrote only `path`, that one counts, and both agree afterwards."""
    scope = scope_of("/ng-rollout/a1/v1/r%C3%A4", raw=raw)
    assert ROUTER.strip(scope) == Prefixed("a1", "/v1/rä", b"/v1/r%C3%A4")


def test_the_root_path_is_cut_at_a_segment() -> None:
    """`/products` is not below `/product`, and a mounted model path is found below its mount."""
    assert route_of(scope_of("", root="/v1", raw=None) | {"path": "/v1/messages"}) is None
    route = route_of(scope_of("/v1/messages", root="/v1"))
    assert route is not None
    assert route.path == "/v1/v1/messages"
    beside = scope_of("/v1/messages") | {"root_path": "/v1/mess"}
    assert route_of(beside) is not None


def test_optional_keys_of_a_scope_may_be_missing() -> None:
    """A scope with no more than the specification demands is routed."""
    scope = {"type": "http", "method": "POST", "path": "/ng-rollout/a1/v1/responses", "headers": []}
    route = route_of(scope)
    assert route is not None
    assert (route.rollout_id, route.path) == ("a1", "/v1/responses")
    websocket = {"type": "websocket", "path": "/v1/responses", "headers": []}
    assert route_of(websocket) is None


def test_a_prefix_of_other_letters_is_taken_literally() -> None:
    """Signs that mean something in patterns mean themselves, in a prefix of any number of segments."""
    router = Router(CaptureConfig(rollout_prefix="/r.1+/x"))
    assert router.strip(scope_of("/r.1+/x/a1/v1/messages")) == Prefixed("a1", "/v1/messages", b"/v1/messages")
    assert router.strip(scope_of("/rr11/x/a1/v1/messages")) is None


PREFIXED = "/ng-rollout/from-prefix/v1/messages"
PLAIN = "/v1/messages"
HEADER = (b"x-rollout-id", b"from-header")
OTHER = (b"x-nemo-gym-rollout-id", b"from-other")
BAGGAGE = (b"baggage", b"a=b, rollout.id = from%2Dbaggage;p=1,c=d")
SESSION = (b"session-id", b"from-session")


@pytest.mark.parametrize(
    ("target", "headers", "correlation"),
    [
        (PLAIN, [HEADER], Correlation("header:x-rollout-id", "from-header")),
        (PLAIN, [OTHER], Correlation("header:x-nemo-gym-rollout-id", "from-other")),
        (PREFIXED, [], Correlation("prefix", "from-prefix")),
        (PLAIN, [BAGGAGE], Correlation("baggage", "from-baggage")),
        (PLAIN, [SESSION], Correlation("header:session-id", "from-session")),
        (PLAIN, [OTHER, HEADER], Correlation("header:x-rollout-id", "from-header", "from-other")),
        (PREFIXED, [HEADER], Correlation("header:x-rollout-id", "from-header", "from-prefix")),
        (PREFIXED, [SESSION, BAGGAGE], Correlation("prefix", "from-prefix", "from-baggage")),
        (PREFIXED, [SESSION], Correlation("prefix", "from-prefix")),
        (PLAIN, [SESSION, BAGGAGE], Correlation("baggage", "from-baggage")),
        (PLAIN, [(b"x-session-id", b"x"), SESSION], Correlation("header:session-id", "from-session")),
        (PREFIXED, [(b"x-rollout-id", b"from-prefix")], Correlation("header:x-rollout-id", "from-prefix")),
        (PLAIN, [HEADER, (b"x-rollout-id", b"b")], Correlation("header:x-rollout-id", "from-header", "b")),
        (PLAIN, [(b"x-rollout-id", b"  "), SESSION], Correlation("header:session-id", "from-session")),
        (PLAIN, [(b"x-rollout-id", b"")], Correlation("none")),
        (PLAIN, [(b"baggage", b"rollout.ids=x,rollout.id"), (b"via", b"x")], Correlation("none")),
        (PLAIN, [(b"baggage", b"a=1"), BAGGAGE], Correlation("baggage", "from-baggage")),
        (PLAIN, [(b"x-rollout-id", b" a\xc3\xa9\xff ")], Correlation("header:x-rollout-id", "aé\ufffd")),
        (PLAIN, [(b"X-Rollout-Id", b"a")], Correlation("header:x-rollout-id", "a")),
    ],
)
def test_the_first_rule_that_speaks_names_the_rollout(
    target: str, headers: list[tuple[bytes, bytes]], correlation: Correlation
) -> None:
    """Headers, prefix, baggage, session headers: in this order, with what a lower rule says as the conflict."""
    route = route_of(scope_of(target, *headers))
    assert route is not None
    assert route.correlation == correlation
    assert route.rollout_id == correlation.value
    assert route.stem == (None if correlation.value is None else stem_of(correlation.value))


@pytest.mark.parametrize("name", SESSION_HEADERS)
def test_every_session_header_correlates(name: str) -> None:
    """The sessions that agents name by themselves are rollouts where nothing else speaks."""
    route = route_of(scope_of(PLAIN, (name.encode(), b"s1")))
    assert route is not None
    assert route.correlation == Correlation(f"header:{name}", "s1")


def test_the_configured_headers_replace_the_usual_ones() -> None:
    """Only the named headers correlate, in the order they were named."""
    router = Router(CaptureConfig(rollout_headers=("x-run", "x-team")))
    route = route_of(scope_of(PLAIN, HEADER, (b"x-team", b"t"), (b"x-run", b"r")), router)
    assert route is not None
    assert route.correlation == Correlation("header:x-run", "r", "t")
    silent = Router(CaptureConfig(rollout_headers=()))
    route = route_of(scope_of(PREFIXED, HEADER), silent)
    assert route is not None
    assert route.correlation == Correlation("prefix", "from-prefix")


def test_a_long_id_keeps_its_rollout() -> None:
    """An id of any length correlates; only its file's name is bounded."""
    route = route_of(scope_of(PLAIN, (b"x-rollout-id", b"x" * 5000)))
    assert route is not None
    assert route.rollout_id == "x" * 5000
    assert len(route.stem or "") < 200


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50), st.sampled_from(["", "/v1"]))
def test_any_id_survives_the_way_through_a_path(rollout_id: str, root: str) -> None:
    """An id that a client percent-encodes comes out as it went in."""
    found = ROUTER.strip(scope_of(f"/ng-rollout/{quote(rollout_id, safe='')}/v1/messages", root=root))
    assert found == Prefixed(rollout_id, f"{root}/v1/messages", f"{root}/v1/messages".encode())


@given(st.text("/ng-rollouta%2F.?é", max_size=40), st.none() | st.text("/ng-rollouta%2F.?", max_size=40))
def test_any_pair_of_paths_is_answered(path: str, raw: str | None) -> None:
    """No path raises, and one that loses its prefix still begins with a slash and has an id."""
    scope = scope_of("/ng-rollout" + path, raw=("/ng-rollout" + (path if raw is None else raw)).encode())
    found = ROUTER.strip(scope)
    if found is not None:
        assert found.rollout_id
        assert found.path.startswith("/")
        assert (found.raw_path or b"").startswith(b"/")
