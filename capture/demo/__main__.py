"""`python -m capture.demo [DIRECTORY]`: run the demonstration and exit 0 if all agrees."""

import sys
from pathlib import Path

from capture.demo.run import run_demo

if __name__ == "__main__":
    sys.exit(run_demo(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
