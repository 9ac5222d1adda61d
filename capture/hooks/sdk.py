"""The official SDKs' clients: both keep an httpx client inside, and that one is correlated.

Copies that `with_options` makes share it, so they are correlated with it; retries are requests of their own.
"""

from typing import TypeVar

from . import httpx

ClientT = TypeVar("ClientT")


def correlate_inner(client: ClientT, sdk: str, *, required: bool, force: bool) -> ClientT:
    """Correlate the HTTP client inside an SDK's client; returns the SDK's. Raises TypeError where there is none."""
    inner = getattr(client, "_client", None)
    if not hasattr(inner, "event_hooks"):
        name = type(client).__name__
        raise TypeError(f"{name} is no client of {sdk}; give its own HTTP client to capture.hooks.httpx")
    httpx.correlate(inner, required=required, force=force)
    return client
