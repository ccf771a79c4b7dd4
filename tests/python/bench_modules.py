"""Where the benchmarks' modules are, for the tests of what they make of their results."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "training"), str(BENCH / "g10")]
