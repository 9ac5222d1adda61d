"""What a trainer needs of a response, wherever a server put it: token ids, log probabilities, the weights' version.

The places are the tables of `dialects.quirks`; they are looked up in the response as it would have come unstreamed.
Nothing is made up: a list that holds anything but ids, or log probabilities that are no numbers, is passed over.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.dialects.base import Json, as_index
from pipeline.dialects.quirks import (
    LOGPROB_PATHS,
    OUTPUT_ID_PATHS,
    PROMPT_ID_PATHS,
    TOKEN_ID_PREFIX,
    WEIGHTS_PATHS,
)

_Path = tuple[str | int, ...]
_Found = dict[str, tuple[int, Any]]
"""Table to what was found by it: the rank of the path in its table, and what is there."""

_TABLES: dict[str, Mapping[_Path, str]] = {
    "prompt_ids": PROMPT_ID_PATHS,
    "output_ids": OUTPUT_ID_PATHS,
    "logprobs": LOGPROB_PATHS,
    "weights": WEIGHTS_PATHS,
}


class _Node:
    """One step of all the paths at once, so that a response is walked once, and only where a path leads."""

    def __init__(self, paths: list[tuple[_Path, str, int]]) -> None:
        self.ends = [(name, rank) for path, name, rank in paths if not path]
        self.names = frozenset(path[0] for path, _, _ in paths if path)
        self.steps = {
            step: _Node([(path[1:], name, rank) for path, name, rank in paths if path[:1] == (step,)])
            for step in self.names
        }


_ROOT = _Node([(path, name, rank) for name, paths in _TABLES.items() for rank, path in enumerate(paths)])


def _walk(value: Any, node: _Node, found: _Found) -> None:  # noqa: ANN401 - whatever the server put there
    for name, rank in node.ends:
        if (name not in found or rank < found[name][0]) and (name != "weights" or _spans(value)):
            found[name] = rank, value
    if value.__class__ is dict:
        for step in node.names.intersection(value):
            if value[step]:
                _walk(value[step], node.steps[step], found)
    elif value.__class__ is list:
        for step, inner in node.steps.items():
            for entry in value if step == "*" else value[:1]:
                _walk(entry, inner, found)


def read_tokens(response: Json) -> tuple[dict[str, Any] | None, list[dict[str, Any]] | None]:
    """Return what is known of the tokens of choice 0, and of the weights that made them; null where nothing is.

    Tokens: `prompt_ids`, `output_ids`, `logprobs`, each where it is known. Weights: spans of output tokens by the
    version of the weights, `version`, `start` and `end`; a server that only names one version gives one span without
    bounds.
    """
    found: _Found = {}
    _walk(response, _ROOT, found)
    if not found:
        return None, None
    prompt, output, entries, weights = (found.get(name, (0, None))[1] for name in _TABLES)
    tokens = {
        "prompt_ids": _ids(prompt),
        "output_ids": _ids(output) or _ids(_listed(entries, _id_of)),
        "logprobs": _listed(entries, _logprob_of),
    }
    return {name: value for name, value in tokens.items() if value} or None, _spans(weights)


def _spans(told: Any) -> list[dict[str, Any]] | None:  # noqa: ANN401 - whatever the server put there
    """Return the spans that an object reports, null if it reports none."""
    if not isinstance(told, dict):
        return None
    spans = told.get("weight_versions")
    if isinstance(spans, list) and spans and all(isinstance(span, dict) for span in spans):
        return spans
    version = told.get("weight_version")
    return None if version is None or isinstance(version, (dict, list)) else [{"version": version}]


def _ids(value: Any) -> list[int] | None:  # noqa: ANN401 - whatever the server put there
    if not isinstance(value, list) or not value:
        return None
    return value if set(map(type, value)) == {int} and min(value) >= 0 else None


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
