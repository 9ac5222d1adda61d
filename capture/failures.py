"""An exception that crossed the edge, as data. Nothing of the exception's own is trusted to work."""

from pipeline.exchange import Failure

BODY_MAX_BYTES = 64 << 10
"""Of a body that an exception carries: an error, not an answer."""
MESSAGE_MAX = 2000
"""Characters of an exception's text that are kept: some carry a whole request."""


def source_of(error: BaseException) -> str:
    """Tell the application's own exception (`app`) from the end of its task (`cancelled`).

    Cancellation is CancelledError under asyncio, Cancelled under trio, a group of them from a task group, and
    GeneratorExit where the coroutine is closed; all are BaseExceptions and no Exceptions.
    """
    return "app" if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)) else "cancelled"


LOST = ("BrokenResourceError", "ClosedResourceError", "ClientDisconnect", "ClientDisconnected")
"""Names of exceptions that say that a connection is gone, without being an OSError (anyio, trio, frameworks)."""


def source_of_send(error: Exception) -> str:
    """Tell a lost connection (`send`) from the server's word on what the application sent (`app`).

    Servers answer a message that breaks the protocol, as a second start or too long a body, with an exception of
    other kinds; that is no client that left.
    """
    return "send" if isinstance(error, OSError) or type(error).__name__ in LOST else "app"


def describe(error: BaseException, source: str) -> Failure:
    """Return an exception as data: its class, its text, and the HTTP status and body that it carries, if any."""
    kind = type(error)
    try:
        text = str(error)[:MESSAGE_MAX].encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001 - somebody else's __str__ may do anything; the class alone says enough
        text = ""
    return Failure(f"{kind.__module__}.{kind.__qualname__}", text, source, _status_of(error), _body_of(error))


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an exception carries, under the names that clients and frameworks use."""
    for holder in (error, _look(error, "response")):
        for name in ("status_code", "status"):
            status = _look(holder, name)
            if type(status) is int:
                return status
    return None


def _body_of(error: BaseException) -> bytes | None:
    """Return an upstream's body that an exception carries, cut to `BODY_MAX_BYTES`."""
    response = _look(error, "response")
    holders = ((error, "response_content"), (response, "content"), (response, "text"), (error, "body"))
    for holder, name in holders:
        found = _look(holder, name)
        if isinstance(found, str):
            found = found[:BODY_MAX_BYTES].encode("utf-8", "replace")
        if isinstance(found, bytes) and found:
            return bytes(found[:BODY_MAX_BYTES])
    return None


def _look(holder: object, name: str) -> object:
    """Return an attribute, or None: to look at one may fail in any way (a body that was not read, say)."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - somebody else's property
        return None
