import random

import pytest

from pipeline.flags import FLAGS
from tests.exchanges import read_back
from tests.properties.mutations import case

CASES = 5_000


def test_a_case_is_a_function_of_seed_and_number() -> None:
    """What other cases were made before changes nothing, so that any of them can be made again."""
    again = [case(3, number) for number in range(200)]
    for number in reversed(range(200)):
        assert case(3, number) == again[number]


def test_damaged_exchanges_give_a_readable_record(request: pytest.FixtureRequest) -> None:
    """Thousands of streams and bodies broken on every level: a record each, and each line read by `json.loads`."""
    seed = random.randrange(1 << 24)
    request.node.user_properties.append(("seed", seed))
    seen: set[str] = set()
    for number in range(CASES):
        try:
            seen.update(read_back(case(seed, number))["flags"])
        except BaseException as error:
            error.add_note(f"scripts/fuzz --seed {seed}, case {number}")
            raise
    assert len(seen) > len(FLAGS) * 2 / 3
