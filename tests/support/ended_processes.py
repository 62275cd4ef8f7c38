"""Tests with Ray whose process was ended are repeated once and named, as other live tests are; a plugin of pytest.

`ray.init` does not come back from its client of the GCS once in some runs of all tests, and only the end of its process
ends it. Groups of tests continue in a new process with the test that ended the last one (pytest-xdist 3.8), so all that
is to do is to call the first end a repetition. A second one is a fault, and so is the first of any other test.
"""

from __future__ import annotations

import pytest

GROUP = "@ray"
"""End of the ids of tests that are repeated."""


class EndedProcesses:
    """Tests that ended their processes; for the process that the others report to."""

    def __init__(self) -> None:
        self._ended: set[str] = set()

    @pytest.hookimpl
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        if crashitem.endswith(GROUP) and crashitem not in self._ended:
            self._ended.add(crashitem)
            report.outcome = "rerun"  # type: ignore[assignment]
