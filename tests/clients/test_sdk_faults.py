"""The official SDKs when the provider fails: retries, errors by status and errors inside a stream, as recorded."""

from typing import Any

import anthropic
import openai
import pytest

from tests.clients.sdks import DIALECTS, Served, dump, missing

in_each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
streamed_or_not = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@streamed_or_not
@in_each_dialect
def test_a_retry_after_429(served: Served, dialect: str, *, streamed: bool) -> None:
    """An SDK that was told to come back made two calls, and both are recorded, told apart by their retry count."""
    calls = DIALECTS[dialect]
    with served.client(dialect) as client:
        if streamed:
            with calls.stream(client, "scripted-429") as stream:
                returned = getattr(stream, calls.last)()
        else:
            returned = calls.create(client, "scripted-429")
    refused, good = served.records()
    assert (refused.status_code, refused.error_category, refused.complete) == (429, "rate_limit", False)
    assert refused.error is not None
    assert (refused.error.source, refused.error.retryable, refused.error.retry_after_s) == (
        "provider",
        True,
        0.02,
    )
    assert (refused.client.retry_count, good.client.retry_count) == (0, 1)
    assert (good.error_category, good.complete, good.request) == (None, True, refused.request)
    assert missing(dump(returned), good.response) == []


@streamed_or_not
@in_each_dialect
def test_a_500(served: Served, dialect: str, *, streamed: bool) -> None:
    """A call that failed for good is recorded as the provider's error, with the body that the SDK raised."""
    with served.client(dialect, max_retries=0) as client:
        calls = DIALECTS[dialect]
        failure: Any = (openai.InternalServerError, anthropic.InternalServerError)
        with pytest.raises(failure) as raised:
            calls.raw(client).create(model="scripted-500", stream=streamed, **calls.asks)
    body = raised.value.response.json()
    record = served.record()
    assert (record.status_code, record.error_category, record.complete) == (500, "upstream_error", False)
    assert record.response == body
    assert record.error is not None
    assert record.error.message is not None
    assert record.error.message in str(raised.value)


@in_each_dialect
def test_an_error_inside_a_stream(served: Served, dialect: str) -> None:
    """A stream that ends in an error is recorded as failed, though its status is 200 and all of it was sent."""
    calls = DIALECTS[dialect]
    with served.client(dialect, max_retries=0) as client:
        raw = calls.raw(client).create(model="scripted-error-in-stream", stream=True, **calls.asks)
        assert raises_or_tells(raw.parse())
    record = served.record()
    assert (record.status_code, record.error_category) == (200, "upstream_error")
    assert (record.complete, record.delivery) == (False, "sent")
    assert record.error is not None
    assert record.error.message == "Overloaded"


def raises_or_tells(stream: Any) -> bool:  # noqa: ANN401 - an SDK's stream
    """Read a stream to its end; whether the SDK raised its error, or handed it on as an event (Responses)."""
    try:
        return "error" in {event.type for event in stream if hasattr(event, "type")}
    except (openai.APIError, anthropic.APIError):
        return True
