"""Run damaged exchanges through the decoder and read each line back, as many as wanted, from a printed seed.

    scripts/fuzz [--count N] [--seed N]

Ends with 1 at the first exchange that gives no record, or none that `json.loads` reads; the seed and the number that
are printed make it again.
"""

import argparse
import random
import sys
import time
import traceback

from tests.exchanges import read_back
from tests.properties.mutations import case

COUNT = 100_000


def main() -> int:
    """Run the cases and say how it went."""
    parser = argparse.ArgumentParser(description="Damaged streams and bodies: a readable record each.")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 24))
    options = parser.parse_args()
    started = time.monotonic()
    flags: set[str] = set()
    for number in range(options.count):
        try:
            flags.update(read_back(case(options.seed, number))["flags"])
        except Exception:  # noqa: BLE001 - whatever it is, it is what was looked for
            traceback.print_exc()
            sys.stderr.write(f"seed {options.seed}, case {number}\n")
            return 1
    took = time.monotonic() - started
    sys.stdout.write(
        f"{options.count} exchanges, a readable record each; {len(flags)} different flags seen; "
        f"seed {options.seed}, {took:.0f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
