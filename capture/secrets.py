"""What of an exchange's headers and query may be kept. Runs on the event loop, before anything is queued.

Headers by allow-list: a name that is not in the table is dropped, so a credential nobody has heard of yet stays
out. Query values by deny-list: a query names what was asked for, and is kept but for values of names that
carry secrets. Request and response share one table. Nothing here raises, whatever a server hands over.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from pipeline.exchange import Headers

KEPT: Final[dict[str, tuple[bytes, ...]]] = {
    "how the body is coded and cut": (
        b"content-type",
        b"content-encoding",
        b"content-length",
        b"transfer-encoding",
        b"accept",
        b"accept-encoding",
    ),
    "who speaks, by its own word": (b"user-agent", b"server", b"via", b"date"),
    "which call it was, elsewhere": (
        b"traceparent",
        b"tracestate",
        b"x-request-id",
        b"request-id",
        b"x-client-request-id",
        b"idempotency-key",
        b"apim-request-id",
        b"x-amzn-requestid",
        b"cf-ray",
    ),
    "which rollout or session it belonged to": (
        b"x-rollout-id",
        b"x-nemo-gym-rollout-id",
        b"x-claude-code-session-id",
        b"session-id",
        b"x-session-id",
    ),
    "whether and when to try again": (b"retry-after", b"retry-after-ms", b"x-should-retry"),
    "which version of the interface": (
        b"anthropic-version",
        b"anthropic-beta",
        b"openai-version",
        b"openai-beta",
    ),
    "who answered, and how fast": (
        b"openai-organization",
        b"openai-project",
        b"openai-model",
        b"openai-processing-ms",
        b"anthropic-organization-id",
        b"server-timing",
        b"x-envoy-upstream-service-time",
    ),
}
"""Header names that are kept, each group with its reason. The `openai-` names are listed one by one because
gateways also take keys in headers that begin so."""

KEPT_FAMILIES: Final = (b"x-ratelimit-", b"anthropic-ratelimit-", b"x-stainless-")
"""Beginnings of kept names: quotas, and what the official SDKs say of themselves (retries, versions)."""

SECRET_NAMES: Final = frozenset(
    (b"auth", b"authorization", b"code", b"credentials", b"jwt", b"key", b"pass", b"passwd", b"pwd", b"sig")
)
"""Query names, lower-case and with `-` for `_`, whose values are masked. `sig` is Azure's, `code` is OAuth's."""

SECRET_FAMILIES: Final = (b"x-amz-", b"x-goog-", b"x-ms-")
"""Beginnings of such names: signed URLs of the clouds."""

SECRET_ENDINGS: Final = (
    b"-key",
    b"apikey",
    b"accesskey",
    b"token",
    b"secret",
    b"password",
    b"signature",
    b"credential",
)
"""Ends of such names: `api_key`, `subscription-key`, `accessToken`, `client_secret` and their kin."""

MASK: Final = b"***"

NAMES_MAX: Final = 2000
LONGEST_NAME: Final = 100
"""How many names, and which, have their decision remembered; clients invent names, so there is a bound."""

_NAMES = frozenset(name for names in KEPT.values() for name in names)


class _Known(dict[bytes, bool]):
    """Lower-case header name to whether it is kept, decided once for each. Raises TypeError for other spellings."""

    def __missing__(self, name: bytes) -> bool:
        if type(name) is not bytes or not name.islower():
            raise TypeError(name)
        kept = name in _NAMES or name.startswith(KEPT_FAMILIES)
        if len(self) < NAMES_MAX and len(name) <= LONGEST_NAME:
            self[name] = kept
        return kept


_KNOWN = _Known()


def reduce_headers(headers: Iterable[Any]) -> Headers:
    """Keep the headers of the allow-list, in order, names in lower case; never keys, cookies or unknown names.

    Only names are looked at here, and pairs are kept as the objects they are; what their values are is seen to off
    the event loop, when they are framed. Names in capitals or of text are read as meant; what is no pair is left
    out. An iterator is left alone, since whoever it was made for has yet to read it.
    """
    if type(headers) is list or type(headers) is tuple:
        known = _KNOWN
        try:
            return tuple([pair for pair in headers if known[pair[0]]])
        except (TypeError, ValueError, IndexError, KeyError, AttributeError):
            return _reduce_odd(headers)
    return () if isinstance(headers, Iterator) else _reduce_odd(headers)


def mask_query(query: bytes) -> str:
    """Give the query as text (one character a byte) with the values of secret names replaced by `***`.

    Names are compared in any case, with `_` or `-`, and percent-decoded once, as servers do; everything else
    stays byte for byte. A masked value reaches to the next `&`: some servers also cut at `;`, some do not.
    """
    if b"=" not in query:
        return query.decode("latin-1")
    return b"&".join([_mask_part(part) for part in query.split(b"&")]).decode("latin-1")


def is_secret(name: bytes) -> bool:
    """Tell whether a query name, percent-encoded or not, is one whose value must not be kept."""
    if b"%" in name or b"+" in name:
        name = unquote_to_bytes(name).strip(b"+ ")
    low = name.lower().replace(b"_", b"-")
    return low in SECRET_NAMES or low.endswith(SECRET_ENDINGS) or low.startswith(SECRET_FAMILIES)


def _mask_part(part: bytes) -> bytes:
    if b";" not in part:
        name, found, _ = part.partition(b"=")
        return name + b"=" + MASK if found and is_secret(name) else part
    pieces = part.split(b";")
    for index, piece in enumerate(pieces):
        name, found, _ = piece.partition(b"=")
        if found and is_secret(name):
            return b";".join([*pieces[:index], name + b"=" + MASK])
    return part


def _reduce_odd(headers: Iterable[Any]) -> Headers:
    """Do the same for headers that are not pairs of bytes."""
    if not isinstance(headers, Iterable):
        return ()
    read = (_as_header(pair) for pair in headers)
    return tuple(pair for pair in read if pair and (pair[0] in _NAMES or pair[0].startswith(KEPT_FAMILIES)))


def _as_header(pair: Any) -> tuple[bytes, bytes] | None:  # noqa: ANN401 - whatever a server or app may hand over
    try:
        name, value = pair
        return _as_bytes(name).lower(), _as_bytes(value)
    except (TypeError, ValueError):
        return None


def _as_bytes(part: object) -> bytes:
    if isinstance(part, str):
        return part.encode("utf-8", "surrogatepass")
    if isinstance(part, (bytes, bytearray, memoryview)):
        return bytes(part)
    raise TypeError(type(part))
