"""Two models in one application for the tests of the end: rollouts named `open...` stream until they are ended."""

import asyncio

from capture.annotate import current
from capture.demo.server import scripted_app
from capture.tap import Receive, Scope, Send

EVENT = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
_scripted = scripted_app()


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve `open...` rollouts without an end, all else by the scripted model."""
    if scope["type"] == "http" and (current().rollout_id or "").startswith("open"):
        await receive()
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        while True:
            await send({"type": "http.response.body", "body": EVENT, "more_body": True})
            await asyncio.sleep(0.05)
    await _scripted(scope, receive, send)
