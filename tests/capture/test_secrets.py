"""What of headers and queries is kept: never a credential, never an error."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.secrets import KEPT, KEPT_FAMILIES, MASK, is_secret, mask_query, reduce_headers

SECRET_HEADERS = [
    b"authorization",
    b"proxy-authorization",
    b"x-api-key",
    b"api-key",
    b"x-goog-api-key",
    b"openai-api-key",
    b"anthropic-api-key",
    b"cookie",
    b"set-cookie",
    b"x-amz-security-token",
    b"x-forwarded-access-token",
    b"baggage",
    b"x-unheard-of",
]


def test_listed_headers_are_kept_in_order() -> None:
    """Listed names and families pass with their values untouched, repeated ones too."""
    headers = [
        (b"content-type", b"application/json"),
        (b"x-stainless-retry-count", b"1"),
        (b"via", b"a"),
        (b"anthropic-ratelimit-tokens-remaining", b"7"),
        (b"via", b"\xff"),
    ]
    assert reduce_headers(headers) == tuple(headers)
    assert reduce_headers(tuple(headers)) == tuple(headers)


@pytest.mark.parametrize("name", SECRET_HEADERS)
@pytest.mark.parametrize("spell", [bytes.lower, bytes.title, bytes.upper])
def test_credentials_and_unknown_headers_are_dropped(name: bytes, spell: Callable[[bytes], bytes]) -> None:
    """No spelling of a header that is not listed gets through."""
    assert reduce_headers([(spell(name), b"s3cret"), (b"date", b"now")]) == ((b"date", b"now"),)


def test_no_listed_name_sounds_like_a_credential() -> None:
    """The allow-list holds no name that the query rules would call secret."""
    names = [name for group in KEPT.values() for name in group]
    assert [name for name in names if is_secret(name)] == [b"idempotency-key"]
    assert all(name == name.lower() for name in [*names, *KEPT_FAMILIES])


def test_odd_headers_are_read_as_meant_or_left_out() -> None:
    """Text, capitals, byte arrays and things that are no pair do no harm."""
    headers = [
        ["Content-Type", "text/plain"],
        (b"User-Agent", bytearray(b"me")),
        (memoryview(b"date"), "\ud800"),
        (b"via",),
        None,
        (b"server", 7),
        ("Authorization", "Bearer s3cret"),
        7,
    ]
    assert reduce_headers(headers) == (
        (b"content-type", b"text/plain"),
        (b"user-agent", b"me"),
        (b"date", b"\xed\xa0\x80"),
    )
    assert reduce_headers([(b"Date", "today")]) == ((b"date", b"today"),)
    assert reduce_headers(None) == ()  # type: ignore[arg-type]
    assert reduce_headers({}) == ()


def test_an_iterator_of_headers_is_left_for_the_server() -> None:
    """Headers that can be read only once are not read here."""
    headers = iter([(b"date", b"now")])
    assert reduce_headers(headers) == ()
    assert list(headers) == [(b"date", b"now")]


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (b"", ""),
        (b"beta=true", "beta=true"),
        (b"api-version=2024-10-21&api-key=s3cret", "api-version=2024-10-21&api-key=***"),
        (b"KEY=s3cret&x=1", "KEY=***&x=1"),
        (b"api%5Fkey=s3cret", "api%5Fkey=***"),
        (b"%6bey=s3cret", "%6bey=***"),
        (b"+key=s3cret", "+key=***"),
        (b"apiKey=s3cret&accessToken=s3cret", "apiKey=***&accessToken=***"),
        (b"subscription-key=s3cret", "subscription-key=***"),
        (b"X-Amz-Credential=s3cret&X-Amz-Date=s3cret", "X-Amz-Credential=***&X-Amz-Date=***"),
        (b"sv=2020&sig=s3cret%3D", "sv=2020&sig=***"),
        (b"token=s3cret=s3cret", "token=***"),
        (b"token=s3cret;s3cret&a=1", "token=***&a=1"),
        (b"a=1;token=s3cret;b=s3cret&c=2", "a=1;token=***&c=2"),
        (b"a;key=s3cret", "a;key=***"),
        (b"code=s3cret&code_challenge=x", "code=***&code_challenge=x"),
        (b"max_tokens=5&monkey=1&keyword=2", "max_tokens=5&monkey=1&keyword=2"),
        (b"key&token&a==&&=", "key&token&a==&&="),
        (b"key=", "key=***"),
        (b"q=%zz\xff\x00;x", "q=%zz\xff\x00;x"),
    ],
)
def test_values_of_secret_names_are_masked_and_the_rest_is_untouched(query: bytes, kept: str) -> None:
    """A query keeps every byte but the values of names that carry secrets."""
    assert mask_query(query) == kept
    assert "s3cret" not in kept


@given(st.lists(st.tuples(st.sampled_from(["key", "sig", "client_secret", "%74oken", "x", "n"]), st.text())))
def test_no_secret_value_gets_through(pairs: list[tuple[str, str]]) -> None:
    """Whatever stands around it, the value behind a secret name is masked and others are not."""
    parts = [(name.encode(), text.encode().replace(b"&", b"").replace(b";", b"")) for name, text in pairs]
    query = b"&".join(name + b"=" + value for name, value in parts)
    wanted = b"&".join(name + b"=" + (value if name in {b"x", b"n"} else MASK) for name, value in parts)
    assert mask_query(query) == wanted.decode("latin-1")


@given(st.binary(max_size=300))
def test_any_query_gives_a_text_and_masking_twice_changes_nothing(query: bytes) -> None:
    """No bytes raise, and a masked query holds nothing more to mask."""
    once = mask_query(query)
    assert mask_query(once.encode("latin-1")) == once


def test_a_query_of_many_parts_costs_no_stack() -> None:
    """Ten thousand separators are walked through, not recursed into."""
    assert mask_query(b"a=1" + b";b=2" * 10_000 + b";key=s3cret").endswith(";key=***")
