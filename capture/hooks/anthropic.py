"""Clients of the official `anthropic` SDK that name the rollout of each call."""

from typing import TypeVar

from .sdk import correlate_inner

ClientT = TypeVar("ClientT")


def correlate(client: ClientT, *, required: bool = False, force: bool = False) -> ClientT:
    """Have an `Anthropic` or `AsyncAnthropic` client name the rollout of each call, its copies too; returns it.

    `required` and `force` are those of `capture.hooks.httpx.correlate`. Raises TypeError for another client.
    """
    return correlate_inner(client, "anthropic", required=required, force=force)
