"""Where a rollout's calls go: a model server's URL with the rollout's prefix in it. Pure text.

The prefix stands in front of the API's version, where the server takes it off again: `http://h/v1` becomes
`http://h/ng-rollout/17-2/v1`, a root URL gets it at its end. It is put there once: a prefix that is there already is
replaced. A provider's own host knows no prefix and would answer 404, so those in `PROVIDERS` are left alone.
"""

import re
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

PREFIX: Final = "/ng-rollout"
"""The setting `rollout_prefix` of servers, by default."""

PROVIDERS: Final = (
    "ai.azure.com",
    "api.ai21.com",
    "api.anthropic.com",
    "api.cerebras.ai",
    "api.cohere.ai",
    "api.cohere.com",
    "api.deepinfra.com",
    "api.deepseek.com",
    "api.fireworks.ai",
    "api.groq.com",
    "api.minimax.io",
    "api.mistral.ai",
    "api.moonshot.ai",
    "api.moonshot.cn",
    "api.novita.ai",
    "api.openai.com",
    "api.perplexity.ai",
    "api.sambanova.ai",
    "api.together.ai",
    "api.together.xyz",
    "api.x.ai",
    "api.z.ai",
    "bedrock*.amazonaws.com",
    "dashscope.aliyuncs.com",
    "dashscope-intl.aliyuncs.com",
    "googleapis.com",
    "integrate.api.nvidia.com",
    "openai.azure.com",
    "openrouter.ai",
    "router.huggingface.co",
)
"""Hosts of providers that serve models themselves, and domains under which they have more of them; `*` is anything.

Not among them are domains under which anybody's servers run, such as a cloud's for its machines.
"""

_VERSION: Final = re.compile(
    r"/v\d+\w*(?:/(?:chat/completions|completions|responses|messages))?/?\Z", re.ASCII
)
"""A path's end from the API's version on: of a base URL, or of one of the calls that are recorded."""


def is_provider(host: str | None) -> bool:
    """Tell whether a host is a known provider's own, or under its domain."""
    name = (host or "").lower().rstrip(".")
    return any(fnmatchcase(name, known) or name.endswith(f".{known}") for known in PROVIDERS)


def unprefixed(path: str, prefix: str = PREFIX) -> str:
    """Return a path without any rollout's prefix."""
    return re.sub(rf"{re.escape(prefix)}/[^/]+(?=/|\Z)", "", path)


def prefixed_path(path: str, rollout_id: str | None, *, prefix: str = PREFIX) -> str:
    """Return the path of a call with the rollout's prefix in front of it, in place of one that is there.

    Unchanged without a `rollout_id`, which is percent-encoded.
    """
    if not rollout_id:
        return path
    return f"{prefix}/{quote(rollout_id, safe='')}{unprefixed(path, prefix)}"


def prefixed_url(base_url: str, rollout_id: str | None, *, prefix: str = PREFIX, force: bool = False) -> str:
    """Return a model server's URL with the rollout's prefix: what to give a client as its base URL.

    `base_url` is a root (`http://host:8000`), ends in a version (`.../v1`), or is the URL of a call. Query and
    credentials in it are kept. Unchanged without a `rollout_id`, and for a provider's own host unless `force` says
    that a server of yours answers under that name.
    """
    parts = urlsplit(base_url)
    if not rollout_id or (is_provider(parts.hostname) and not force):
        return base_url
    path = re.sub(r"//+\Z", "/", unprefixed(parts.path, prefix))
    found = _VERSION.search(path)
    start = found.start() if found else len(path)
    whole = f"{path[:start].rstrip('/')}{prefixed_path(path[start:], rollout_id, prefix=prefix)}"
    return urlunsplit(parts._replace(path=whole))
