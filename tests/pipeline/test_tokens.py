from typing import Any

import pytest

from pipeline.dialects.quirks import LOGPROB_PATHS, OUTPUT_ID_PATHS, PROMPT_ID_PATHS, WEIGHTS_PATHS
from pipeline.tokens import read_tokens
from tests.answers import Json, unstreamed
from tests.exchanges import delta, events, record

SPANS = [{"version": "v1", "start": 0, "end": 2}, {"version": "v2", "start": 2, "end": 3}]
LOGPROBS = [{"token": "a", "logprob": -0.5}]


def at(path: tuple[str | int, ...], value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Make a response with this value at a path."""
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) and step != "*" else [value]
    return value


@pytest.mark.parametrize("path", PROMPT_ID_PATHS)
def test_prompt_ids_are_found_everywhere(path: tuple[str | int, ...]) -> None:
    """Wherever the table says, the prompt's token ids are found; what is no list of ids is passed over."""
    assert read_tokens(at(path, [1, 2])) == ({"prompt_ids": [1, 2]}, None)
    others: list[Any] = [[1, "2"], "12", 7, {}, [-1], None]
    for other in others:
        assert read_tokens(at(path, other)) == (None, None)


@pytest.mark.parametrize("path", OUTPUT_ID_PATHS)
def test_output_ids_are_found_everywhere(path: tuple[str | int, ...]) -> None:
    """The same for the ids of what was generated."""
    assert read_tokens(at(path, [1, 2]))[0] == {"output_ids": [1, 2]}


@pytest.mark.parametrize("path", LOGPROB_PATHS)
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([-1, -0.5], {"logprobs": [-1.0, -0.5]}),
        ([[-1.0, 7, "a"], [-0.5, 8, None]], {"output_ids": [7, 8], "logprobs": [-1.0, -0.5]}),
        (LOGPROBS, {"logprobs": [-0.5]}),
        ([{"token": "token_id:7", "logprob": -1}], {"output_ids": [7], "logprobs": [-1.0]}),
        ([{"token": "a", "token_id": 7, "logprob": -1}], {"output_ids": [7], "logprobs": [-1.0]}),
        ([{"token": "a", "logprob": "-Infinity"}], None),
        ([{}, None], None),
    ],
)
def test_log_probabilities_in_every_form(
    path: tuple[str | int, ...], entries: list[Any], expected: Json | None
) -> None:
    """Numbers, lists, objects and ids in a token's place are read; a list that cannot be read whole is not told."""
    assert read_tokens(at(path, entries))[0] == expected


@pytest.mark.parametrize("path", WEIGHTS_PATHS)
def test_weights_are_found_everywhere(path: tuple[str | int, ...]) -> None:
    """Spans win over a single version, which is one span without bounds; null and nonsense are no version."""
    assert read_tokens(at(path, {"weight_version": "v2", "weight_versions": SPANS}))[1] == SPANS
    assert read_tokens(at(path, {"weight_version": 3}))[1] == [{"version": 3}]
    nonsense: list[Json] = [
        {"weight_version": None},
        {"weight_version": {}},
        {"weight_versions": [7]},
        {"x": 1},
    ]
    for told in nonsense:
        assert read_tokens(at(path, told))[1] is None


def test_the_first_row_wins() -> None:
    """Where a server reports the same in two places, the table's order decides."""
    both = {"token_ids": [9], "choices": [{"token_ids": [1], "meta_info": {"weight_version": "b"}}]}
    assert read_tokens(both) == ({"output_ids": [1]}, [{"version": "b"}])
    assert read_tokens({**both, "sglext": {"weight_version": "a"}})[1] == [{"version": "a"}]


def test_tokens_and_weights_of_a_stream() -> None:
    """In a stream ids grow and the last chunk's spans count; only choice 0 is told."""
    chunks = [delta(content="a"), delta(content="b"), delta(index=1, content="c")]
    for chunk, ids in zip(chunks, ([1], [2], [3]), strict=True):
        chunk["choices"][0]["token_ids"] = ids
    chunks[0]["prompt_token_ids"] = [7]
    first, last = ({"choices": [], "sglext": {"weight_versions": SPANS[:count]}} for count in (1, 2))
    fields = record("chat", events(first, *chunks, last, delta("stop"), delta("stop", index=1), done=True))
    assert fields["tokens"] == {"prompt_ids": [7], "output_ids": [1, 2]}
    assert fields["weights"] == SPANS
    assert fields["flags"] == []


def test_a_call_without_any_says_nothing() -> None:
    """Servers that report nothing leave both fields null."""
    fields = unstreamed("chat", events({"choices": [{"index": 0, "message": {"content": "a"}}]})[6:-2])
    assert (fields["tokens"], fields["weights"]) == (None, None)
