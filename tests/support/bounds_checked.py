"""A process in which the columnar loop is compiled with checks of bounds, for tests that look for reads beyond arrays.

Numba cannot cache such a loop, and compiling takes half a minute, so all tests share one process: it calls the function
each line of its input names, and prints the sum of the results.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]


class BoundsChecked:
    """The process, started at the first call."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._cache = TemporaryDirectory(prefix="distced-bounds-checked-")

    def total(self, call: str, seeds: range) -> int:
        """The sum of a call, an expression of `seed` and of the functions in `calls`, over seeds."""
        process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(f"sum({call} for seed in range({seeds.start}, {seeds.stop}))\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            self._process = None
            raise AssertionError(process.stderr.read())
        return int(answer)

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
        self._cache.cleanup()

    def _started(self) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "NUMBA_BOUNDSCHECK": "1",
            # Checks need no fast code, and its optimisation takes most of the time.
            "NUMBA_OPT": "0",
            # Functions cached elsewhere are without checks.
            "NUMBA_CACHE_DIR": self._cache.name,
            "PYTHONPATH": str(ROOT),
            # It says that nothing can be cached.
            "PYTHONWARNINGS": "ignore",
        }
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
        )
        return self._process


def _main() -> None:
    from tests.support.columnar_engine import differences
    from tests.support.pattern_churn import come_and_go

    calls = {"differences": differences, "come_and_go": come_and_go}
    for line in sys.stdin:
        print(eval(line, {"__builtins__": {"sum": sum, "range": range}, **calls}), flush=True)


if __name__ == "__main__":
    _main()
