"""What a trainer needs of a response, wherever a server put it: token ids, log probabilities, the weights' version.

The places are the tables of `dialects.quirks`; they are looked up in the response as it would have come unstreamed.
Nothing is made up: a list that holds anything but ids, or log probabilities that are no numbers, is passed over.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.dialects.base import Json, as_index, follow
from pipeline.dialects.quirks import (
    LOGPROB_PATHS,
    OUTPUT_ID_PATHS,
    PROMPT_ID_PATHS,
    TOKEN_ID_PREFIX,
    WEIGHTS_PATHS,
)

_Paths = Mapping[tuple[str | int, ...], str]


def read_tokens(response: Json) -> dict[str, Any] | None:
    """Return `prompt_ids`, `output_ids` and `logprobs` of choice 0, each where it is known; null without any."""
    entries = _first(response, LOGPROB_PATHS)
    found = {
        "prompt_ids": _ids(_first(response, PROMPT_ID_PATHS)),
        "output_ids": _ids(_first(response, OUTPUT_ID_PATHS)) or _ids(_listed(entries, _id_of)),
        "logprobs": _listed(entries, _logprob_of),
    }
    return {name: value for name, value in found.items() if value} or None


def read_weights(response: Json) -> list[dict[str, Any]] | None:
    """Return spans of output tokens by the version of the weights that made them: `version`, `start`, `end`.

    A server that only says one version for the whole gives one span without bounds.
    """
    for path in WEIGHTS_PATHS:
        told = follow(response, path)
        if not isinstance(told, dict):
            continue
        spans = told.get("weight_versions")
        if isinstance(spans, list) and spans and all(isinstance(span, dict) for span in spans):
            return spans
        version = told.get("weight_version")
        if version is not None and not isinstance(version, (dict, list)):
            return [{"version": version}]
    return None


def _first(response: Json, paths: _Paths) -> Any:  # noqa: ANN401 - whatever the server put there
    found = (follow(response, path) for path in paths)
    return next((value for value in found if value), None)


def _ids(value: Any) -> list[int] | None:  # noqa: ANN401 - whatever the server put there
    if not isinstance(value, list) or not all(as_index(item) is not None for item in value):
        return None
    return value


def _listed(entries: Any, read: Any) -> list[Any] | None:  # noqa: ANN401 - whatever the server put there
    """Read every entry; null if there is none, or one that cannot be read."""
    if not isinstance(entries, list) or not entries:
        return None
    values = [read(entry) for entry in entries]
    return None if any(value is None for value in values) else values


def _logprob_of(entry: Any) -> float | None:  # noqa: ANN401 - whatever the server put there
    """Read a log probability: a number, the first of a list, or an object's `logprob`."""
    value = _member(entry, 0, "logprob")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _id_of(entry: Any) -> int | None:  # noqa: ANN401 - whatever the server put there
    """Read a token's id: the second of a list, an object's `token_id`, or a number in its text behind a prefix."""
    number = as_index(_member(entry, 1, "token_id"))
    token = entry.get("token") if isinstance(entry, dict) else None
    if number is not None or not isinstance(token, str):
        return number
    return _number_behind(token, TOKEN_ID_PREFIX)


def _member(entry: Any, place: int, name: str) -> Any:  # noqa: ANN401 - whatever the server put there
    if isinstance(entry, dict):
        return entry.get(name)
    if isinstance(entry, Sequence) and not isinstance(entry, str):
        return entry[place] if len(entry) > place else None
    return entry if place == 0 else None


def _number_behind(token: str, prefixes: Iterable[str]) -> int | None:
    for prefix in prefixes:
        digits = token.removeprefix(prefix)
        if digits != token and digits.isascii() and digits.isdigit():
            return int(digits)
    return None
