"""aiohttp sessions that name the rollout: a trace that sets headers before a request goes out.

A trace sees each request of a session, redirects with their first one; aiohttp hands it the headers it will send.
"""

from types import SimpleNamespace

import aiohttp
from multidict import CIMultiDict

from .naming import Naming


def trace_config(*, required: bool = False, force: bool = False) -> aiohttp.TraceConfig:
    """Return what to give a new session: `aiohttp.ClientSession(trace_configs=[trace_config()])`.

    `required` makes a call outside of any rollout raise `UncorrelatedCallError`; `force` names it to a provider's own
    host, too.
    """
    naming = Naming(required, force)

    async def name(
        _session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestStartParams
    ) -> None:
        headers: CIMultiDict[str] = params.headers
        has = {key.lower(): ",".join(headers.getall(key)) for key in headers}
        for key, value in naming.headers_to_add(params.url.host, params.url.path, has).items():
            headers[key] = value

    made = aiohttp.TraceConfig()
    made.on_request_start.append(name)
    return made


def correlate(
    session: aiohttp.ClientSession, *, required: bool = False, force: bool = False
) -> aiohttp.ClientSession:
    """Have a session that is there already name the rollout of each call; returns the session."""
    made = trace_config(required=required, force=force)
    made.freeze()
    session.trace_configs.append(made)
    return session
