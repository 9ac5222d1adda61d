"""Requests as clients put them on the wire, on every make of server: encoded ids, uploads in pieces, 100 Continue."""

import pytest

from tests.clients.hosts import connected, post, read_mark, read_whole
from tests.clients.sites import Site

pytestmark = pytest.mark.anyio

BODY = b'{"model":"scripted","messages":[{"role":"user","content":"caf\xc3\xa9"}]}'
SENT = {"model": "scripted", "messages": [{"role": "user", "content": "café"}]}
PATH = "/v1/chat/completions"


@pytest.fixture
def anyio_backend() -> str:
    """Run the clients under asyncio; the servers have loops of their own."""
    return "asyncio"


async def test_an_encoded_id_and_a_query(every_site: Site) -> None:
    """The id in the path is read as it was meant, the query kept but for its secrets, and the call is served."""
    async with connected(every_site.url) as stream:
        await stream.send(post(f"/ng-rollout/a%20b%2Fc%C3%A9{PATH}?beta=true&api_key=SECRETZ", BODY, 0))
        assert b"chat.completion" in await read_whole(stream)
    (record,) = every_site.records("a b/cé", 1)
    assert (record.rollout_id, record.http.path, record.complete) == ("a b/cé", PATH, True)
    assert record.http.query == "beta=true&api_key=***"
    assert record.request == SENT


async def test_a_body_after_100_continue(every_site: Site) -> None:
    """A client that waits for `100 Continue` gets it from the server, and its call is recorded."""
    head, _, _ = post(f"/ng-rollout/expecting{PATH}", BODY, 0).partition(b"\r\n\r\n")
    async with connected(every_site.url) as stream:
        await stream.send(head + b"\r\nexpect: 100-continue\r\n\r\n")
        await read_mark(stream, b" 100 ")
        await stream.send(BODY)
        await read_mark(stream, b"chat.completion")
    (record,) = every_site.records("expecting", 1)
    assert (record.request, record.complete, record.http.request_bytes) == (SENT, True, len(BODY))


async def test_an_upload_in_pieces(every_site: Site) -> None:
    """A chunked body that arrives in pieces, cut inside a character, is recorded whole."""
    head, _, _ = post(f"/ng-rollout/pieces{PATH}", BODY, 0).partition(b"\r\ncontent-length")
    cut = BODY.index(b"\xa9")
    async with connected(every_site.url) as stream:
        await stream.send(head + b"\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (BODY[:cut], BODY[cut:]):
            await stream.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await every_site.begun("pieces")
        await stream.send(b"0\r\n\r\n")
        assert b"chat.completion" in await read_whole(stream)
    (record,) = every_site.records("pieces", 1)
    assert (record.request, record.complete, record.http.request_bytes) == (SENT, True, len(BODY))


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_leaving_in_the_middle_of_a_request(every_site: Site, *, reset: bool) -> None:
    """A client that leaves before it has sent its request leaves one incomplete record, with what it had sent."""
    rollout = f"upload-{reset}"
    whole = post(f"/ng-rollout/{rollout}{PATH}", BODY, 0)
    async with connected(every_site.url, reset=reset) as stream:
        await stream.send(whole[:-20])
        await every_site.begun(rollout)
    (record,) = every_site.records(rollout, 1)
    assert (record.complete, record.delivery, record.request) == (False, "client_gone", None)
    assert record.request_raw is None or BODY.decode().startswith(record.request_raw)
