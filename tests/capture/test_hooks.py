"""Clients that name the rollout by themselves, over real sockets, and what they never do."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import anthropic
import httpx
import openai
import pytest

from capture import CaptureConfig, UncorrelatedCallError
from capture.annotate import CurrentExchange, enter, leave
from capture.hooks import aiohttp as aiohttp_hooks
from capture.hooks import anthropic as anthropic_hooks
from capture.hooks import httpx as httpx_hooks
from capture.hooks import openai as openai_hooks
from capture.hooks.naming import Naming
from capture.rollout import rollout_context
from capture.routes import Router

ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


class Site:
    """A server on loopback that keeps the headers of every request, answers the first `failing` with 429."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: list[dict[str, str]] = []
        self.failing = 0

    def named(self) -> list[str | None]:
        """Return the rollout of each request so far by the rules of the server side, and forget them."""
        router = Router(CaptureConfig())
        found = []
        for seen in self.seen:
            headers = [(name.encode(), value.encode()) for name, value in seen.items()]
            path = "/v1/chat/completions"
            scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
            route = router.route(scope, None)
            assert route is not None
            found.append(route.rollout_id)
            assert route.correlation.conflict is None
        self.seen.clear()
        return found


@pytest.fixture
def site() -> Iterator[Site]:
    """Serve on loopback for the length of a test."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            made.seen.append({name.lower(): value for name, value in self.headers.items()})
            made.failing -= 1
            self.send_response(429 if made.failing >= 0 else 200)
            self.send_header("content-type", "application/json")
            self.send_header("retry-after-ms", "1")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Site(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        server.shutdown()


async def post(session: aiohttp.ClientSession, site: Site, headers: dict[str, str] | None = None) -> None:
    """Make one call with a session, and read its answer."""
    async with session.post(site.url, json={}, headers=headers) as answer:
        await answer.read()


def test_httpx_clients_name_the_rollout_of_each_call(site: Site) -> None:
    """One client, several rollouts: each call is of the block it was made in, and outside of any it is of none."""
    with httpx_hooks.correlate(httpx.Client()) as client:
        for rollout_id in ("a", "b", None):
            with rollout_context(rollout_id):
                client.post(site.url, json={})
        assert site.seen[0]["baggage"] == "rollout.id=a"
        assert site.named() == ["a", "b", None]


def test_asynchronous_httpx_clients_interleave(site: Site) -> None:
    """Calls of many tasks on one client are of their own task's rollout each."""

    async def one(client: httpx.AsyncClient, rollout_id: str) -> None:
        with rollout_context(rollout_id):
            await client.post(site.url, json={})

    async def main() -> None:
        async with httpx_hooks.correlate(httpx.AsyncClient()) as client:
            await asyncio.gather(*(one(client, f"r{number}") for number in range(8)))

    asyncio.run(main())
    assert sorted(map(str, site.named())) == [f"r{number}" for number in range(8)]


def test_aiohttp_sessions_name_the_rollout(site: Site) -> None:
    """A new session by its trace, and one that is there already, twice correlated."""

    async def main() -> None:
        async with aiohttp.ClientSession(trace_configs=[aiohttp_hooks.trace_config()]) as session:
            with rollout_context("a"):
                await post(session, site)
            await post(session, site)
        async with aiohttp.ClientSession() as session:
            with rollout_context("b"):
                await post(aiohttp_hooks.correlate(aiohttp_hooks.correlate(session)), site)
                await post(session, site, {"X-Rollout-Id": "mine"})
                await post(session, site, {"Baggage": "user=1"})
                assert site.seen[-1]["baggage"] == "user=1,rollout.id=b"

    asyncio.run(main())
    assert site.named() == ["a", None, "b", "mine", "b"]


def test_the_official_sdks_name_the_rollout_at_every_try(site: Site) -> None:
    """Both SDKs, their copies and their retries after a 429."""
    gpt = openai_hooks.correlate(openai.OpenAI(api_key="k", base_url=f"{site.url}/v1"))
    claude = anthropic_hooks.correlate(anthropic.Anthropic(api_key="k", base_url=site.url))
    site.failing = 1
    with gpt, claude, rollout_context("a"):
        gpt.chat.completions.create(**ASKED)
        gpt.with_options(timeout=5).chat.completions.create(**ASKED)
        claude.messages.create(**ASKED, max_tokens=5)
    assert site.named() == ["a"] * 4


def test_the_asynchronous_sdks_name_the_rollout(site: Site) -> None:
    """Both asynchronous clients."""

    async def main() -> None:
        gpt = openai_hooks.correlate(openai.AsyncOpenAI(api_key="k", base_url=f"{site.url}/v1"))
        claude = anthropic_hooks.correlate(anthropic.AsyncAnthropic(api_key="k", base_url=site.url))
        async with gpt, claude:
            with rollout_context("a"):
                await gpt.chat.completions.create(**ASKED)
                await claude.messages.create(**ASKED, max_tokens=5)

    asyncio.run(main())
    assert site.named() == ["a", "a"]


def test_what_the_caller_says_wins(site: Site) -> None:
    """A rollout header, either one, a prefixed path and a member of the baggage: nothing is added to them."""
    said: list[dict[str, str]] = [
        {"x-rollout-id": "mine"},
        {"X-NeMo-Gym-Rollout-Id": "mine"},
        {"baggage": "user=1, rollout.id=mine;p=1"},
    ]
    with httpx_hooks.correlate(httpx.Client()) as client, rollout_context("block"):
        for headers in said:
            client.post(site.url, json={}, headers=headers)
        client.post(f"{site.url}/ng-rollout/mine/v1/responses", json={})
        assert not {"x-rollout-id", "baggage"} & site.seen.pop().keys()
        assert site.named() == ["mine"] * 3
        client.post(site.url, json={}, headers={"baggage": "user=1"})
        assert site.seen[0]["baggage"] == "user=1,rollout.id=block"


def test_a_provider_is_told_nothing() -> None:
    """Requests to a known provider's own host get no header, unless it is forced."""
    with rollout_context("a"):
        assert Naming().headers_to_add("api.openai.com", "/v1/responses", {}) == {}
        assert Naming(required=True).headers_to_add("api.anthropic.com", "/v1/messages", {}) == {}
        assert Naming(force=True).headers_to_add("api.openai.com", "/v1/responses", {}) == {
            "x-rollout-id": "a",
            "baggage": "rollout.id=a",
        }


def test_a_handler_under_capture_passes_its_rollout_on() -> None:
    """Where no block says otherwise the rollout is that of the exchange; odd ids travel percent-encoded."""
    for rollout_id, header in (("a b", {"x-rollout-id": "a b"}), ("ü,x", {}), (" a", {})):
        exchange = CurrentExchange(b"", rollout_id, "", "chat")
        outer = enter(exchange)
        try:
            added = Naming().headers_to_add("h", "/", {})
            with rollout_context(None):
                assert Naming().headers_to_add("h", "/", {}) == {}
        finally:
            leave(exchange, outer)
        baggage = {"baggage": f"rollout.id={rollout_id.replace(' ', '%20').replace('ü,', '%C3%BC%2C')}"}
        assert added == {**header, **baggage}


def test_a_baggage_that_is_full_stays_as_it_is() -> None:
    """The header alone names the rollout then."""
    with rollout_context("a"):
        assert Naming().headers_to_add("h", "/", {"baggage": "x" * 8190}) == {"x-rollout-id": "a"}


def test_a_client_that_must_name_a_rollout_raises_without_one(site: Site) -> None:
    """Nothing is sent then, by any client; inside of a rollout, or with an id of the caller's own, all is well."""
    with httpx_hooks.correlate(httpx_hooks.correlate(httpx.Client()), required=True) as client:
        with pytest.raises(UncorrelatedCallError, match="names no rollout"):
            client.post(site.url, json={})
        client.post(site.url, json={}, headers={"x-rollout-id": "mine"})

    async def main() -> None:
        async with aiohttp_hooks.correlate(aiohttp.ClientSession(), required=True) as session:
            with pytest.raises(UncorrelatedCallError, match="names no rollout"):
                await post(session, site)

    asyncio.run(main())
    assert site.named() == ["mine"]
    with openai_hooks.correlate(openai.OpenAI(api_key="k", base_url=site.url), required=True) as gpt:
        with pytest.raises(
            (UncorrelatedCallError, openai.APIConnectionError)
        ):  # some versions wrap what is raised
            gpt.with_options(max_retries=0).chat.completions.create(**ASKED)
        assert site.seen == []


def test_hooks_of_the_callers_own_stay(site: Site) -> None:
    """A hook that a client had is still called, and correlating twice adds one hook."""
    called: list[str] = []
    client = httpx.Client(event_hooks={"request": [lambda request: called.append(request.method)]})
    with httpx_hooks.correlate(httpx_hooks.correlate(client)), rollout_context("a"):
        client.post(site.url, json={})
    assert called == ["POST"]
    assert len(client.event_hooks["request"]) == 2
    assert site.named() == ["a"]


@pytest.mark.parametrize("hooks", [httpx_hooks, openai_hooks, anthropic_hooks])
def test_other_clients_are_refused(hooks: Any) -> None:  # noqa: ANN401 - a module
    """What has no requests to hook is a wrong call, named by its class."""
    with pytest.raises(TypeError, match="object is no client"):
        hooks.correlate(object())
