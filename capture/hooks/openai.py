"""Clients of the official `openai` SDK that name the rollout of each call."""

from typing import TypeVar

from .sdk import correlate_inner

ClientT = TypeVar("ClientT")


def correlate(client: ClientT, *, required: bool = False, force: bool = False) -> ClientT:
    """Have an `OpenAI` or `AsyncOpenAI` client name the rollout of each call, its copies too; returns it.

    `required` and `force` are those of `capture.hooks.httpx.correlate`. Raises TypeError for another client.
    """
    return correlate_inner(client, "openai", required=required, force=force)
