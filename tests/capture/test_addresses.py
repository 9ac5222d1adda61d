"""URLs with a rollout's prefix: by the rules for those who make them, and as the server reads them."""

from urllib.parse import unquote, urlsplit

import pytest

from capture import CaptureConfig
from capture.addresses import PROVIDERS, is_provider, prefixed_path, prefixed_url
from capture.routes import Router

URLS = {
    "http://h/v1": "http://h/ng-rollout/r/v1",
    "http://h/v1/": "http://h/ng-rollout/r/v1/",
    "http://h/v1//": "http://h/ng-rollout/r/v1/",
    "http://h": "http://h/ng-rollout/r",
    "http://h/": "http://h/ng-rollout/r",
    "http://h:8000//": "http://h:8000/ng-rollout/r",
    "http://[::1]:8000/v1": "http://[::1]:8000/ng-rollout/r/v1",
    "https://user:key@h/v1?a=b#c": "https://user:key@h/ng-rollout/r/v1?a=b#c",
    "http://h/proxy/v1": "http://h/proxy/ng-rollout/r/v1",
    "http://h/proxy/": "http://h/proxy/ng-rollout/r",
    "http://h/v1beta": "http://h/ng-rollout/r/v1beta",
    "http://h/v1/chat/completions": "http://h/ng-rollout/r/v1/chat/completions",
    "http://h/v1/v2": "http://h/v1/ng-rollout/r/v2",
    "http://h/ng-rollout/old/v1": "http://h/ng-rollout/r/v1",
    "http://h/ng-rollout/old": "http://h/ng-rollout/r",
    "http://h/ng-rollout/old/": "http://h/ng-rollout/r",
    "http://h/ng-rollout/old/ng-rollout/older/v1": "http://h/ng-rollout/r/v1",
    "http://h/ng-rollouts/old/v1": "http://h/ng-rollouts/old/ng-rollout/r/v1",
    "http://api.openai.com.evil.test/v1": "http://api.openai.com.evil.test/ng-rollout/r/v1",
    "http://ec2-1-2-3-4.compute-1.amazonaws.com/v1": "http://ec2-1-2-3-4.compute-1.amazonaws.com/ng-rollout/r/v1",
}


@pytest.mark.parametrize("url", URLS)
def test_the_prefix_stands_in_front_of_the_version(url: str) -> None:
    """Root URLs, versions, slashes at the end, mounts, and prefixes that are there: each is prefixed once."""
    assert prefixed_url(url, "r") == URLS[url]
    assert prefixed_url(URLS[url], "r") == URLS[url]


@pytest.mark.parametrize("rollout_id", [None, ""])
def test_without_an_id_nothing_changes(rollout_id: str | None) -> None:
    """No id is no prefix, in URLs and in paths."""
    for url in URLS:
        assert prefixed_url(url, rollout_id) == url
    assert prefixed_path("/v1/responses", rollout_id) == "/v1/responses"


@pytest.mark.parametrize(
    "host", [*PROVIDERS, "eu.api.openai.com", "API.Anthropic.com.", "x.openai.azure.com"]
)
def test_a_providers_own_host_is_left_alone(host: str) -> None:
    """No provider's host is prefixed, whatever its case, unless it is forced."""
    url = f"https://{host}/v1".replace("*", "-runtime.us-east-1")
    assert prefixed_url(url, "r") == url
    assert "/ng-rollout/r/v1" in prefixed_url(url, "r", force=True)


@pytest.mark.parametrize("host", [None, "", "localhost", "openai.com.test", "notapi.openai.com", "10.0.0.1"])
def test_other_hosts_are_no_providers(host: str | None) -> None:
    """A host that only looks like a provider's is none."""
    assert not is_provider(host)


@pytest.mark.parametrize("rollout_id", ["17-2", "a/b", "x y", "100%", "ü", "a?b#c"])
@pytest.mark.parametrize("base", ["http://h/v1", "http://h/v1/", "http://h/ng-rollout/old/v1"])
def test_the_server_reads_what_was_written(base: str, rollout_id: str) -> None:
    """Any id comes out of the server's own parser as it went in, and the path as if there had been no prefix."""
    raw = urlsplit(prefixed_url(base, rollout_id).rstrip("/") + "/responses").path
    scope = {"type": "http", "path": unquote(raw), "raw_path": raw.encode(), "headers": []}
    found = Router(CaptureConfig()).strip(scope)
    assert found is not None
    assert (found.rollout_id, found.path) == (rollout_id, "/v1/responses")


def test_a_path_gets_the_prefix_in_front() -> None:
    """A call's path, with a version or not, and one that is prefixed already."""
    assert prefixed_path("/v1/responses", "r") == "/ng-rollout/r/v1/responses"
    assert prefixed_path("/tool", "r") == "/ng-rollout/r/tool"
    assert prefixed_path("/ng-rollout/old/v1/responses", "r") == "/ng-rollout/r/v1/responses"
    assert prefixed_url("http://h/v1", "r", prefix="/run") == "http://h/run/r/v1"
