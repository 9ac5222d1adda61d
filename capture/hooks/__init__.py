"""Clients that name the rollout by themselves: one `correlate(client)` each for httpx, aiohttp, openai and anthropic.

A correlated client adds the rollout of the block it is called in (`with rollout_context(id):`) to each request, as
header and as W3C baggage, unless the caller named a rollout there already, and never to a provider's own host. With
`required=True` a call outside of any rollout raises instead of being recorded where nobody looks. Nothing is patched
but the client that is given.
"""
