"""JSON that stops anywhere."""

import json
import random
from typing import Any

import jiter
import pytest

from pipeline.begun import decode_begun
from pipeline.bodies import MAX_DEPTH, BodyError

LETTERS = 'ab"\\\n{}[],: é😀1'


def value(depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """Make a random JSON value, of few letters that JSON itself uses."""
    kind = random.randrange(7 if depth < 4 else 4)
    if kind == 0:
        return random.choice([0, -1, 12, 3.5, 1e10, -0.25, True, False, None])
    if kind < 4:
        return "".join(random.choices(LETTERS, k=random.randrange(6)))
    items = [value(depth + 1) for _ in range(random.randrange(4))]
    if kind == 4:
        return items
    return {"".join(random.choices(LETTERS, k=3)): item for item in items}


def test_every_beginning_is_read_as_the_sdk_reads_it() -> None:
    """The decoder that the official Messages SDK uses for cut input gives the same for every beginning of a text."""
    for _ in range(300):
        whole = {"a": value(), "b": value(), "": value()}
        text = json.dumps(whole, ensure_ascii=random.random() < 0.5, indent=random.choice([None, 1]))
        for cut in range(1, len(text) + 1):
            assert decode_begun(text[:cut]) == jiter.from_json(text[:cut].encode(), partial_mode=True), text[
                :cut
            ]


READ = {
    '{"a":1}x': {"a": 1},
    '{"a":1}}': {"a": 1},
    '{"a":01,': None,
    "[1,2}": [1, 2],
    "}": None,
    '"': None,
    "": None,
}


@pytest.mark.parametrize("text", [*READ, "tru", "[1,]", '{"a" 1}', "[" * (MAX_DEPTH + 1)])
def test_what_is_no_beginning_is_refused(text: str) -> None:
    """What stands behind a whole text is passed over; a text that no value begins with, or too deep, is refused."""
    if READ.get(text) is None:
        with pytest.raises(BodyError):
            decode_begun(text)
    else:
        assert decode_begun(text) == READ[text]
