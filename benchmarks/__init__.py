"""Speed and scale, measured as ratios in one run: `make bench`, or `python -m benchmarks NAME...`."""

import sys
from pathlib import Path

# The servers that the tests run against are the ones to measure against, too.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
