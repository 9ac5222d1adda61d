"""The scripted model as servers really are: one that holds the end of its streams back.

CAPTURE_APP=tests.clients.apps:lingering
"""

from starlette.types import Message, Receive, Scope, Send

from capture.demo.served import app


async def lingering(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve as scripted, but where the query says so, wait for the client to leave in place of the last message.

    A streaming client is done at its dialect's last event; whether the server's own last message comes before it
    leaves is chance elsewhere.
    """
    if b"linger" not in scope.get("query_string", b""):
        await app(scope, receive, send)
        return

    async def unending_send(message: Message) -> None:
        if message["type"] == "http.response.start" or message.get("more_body"):
            await send(message)

    await app(scope, receive, unending_send)
    while (await receive())["type"] != "http.disconnect":
        pass
