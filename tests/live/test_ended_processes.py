"""A test with Ray that ends its process is repeated once in another; any other is a fault at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONFTEST = """
from tests.support.ended_processes import EndedProcesses

def pytest_configure(config):
    if config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(EndedProcesses())
"""

TESTS = """
import os
from pathlib import Path
import pytest

TRIES = Path(__file__).with_name("tries")

@pytest.mark.xdist_group("{group}")
def test_ends_its_process():
    with TRIES.open("a") as tries:
        tries.write("x")
    if len(TRIES.read_text()) <= {times}:
        os._exit(1)

@pytest.mark.xdist_group("{group}")
def test_behind_it():
    pass
"""


@pytest.mark.spawn
@pytest.mark.parametrize(
    ("group", "times", "code", "found"),
    [
        ("ray", 1, 0, "2 passed, 1 rerun"),
        ("ray", 2, 1, "1 failed, 2 passed, 1 rerun"),
        ("other", 1, 1, "1 failed, 2 passed"),
    ],
)
def test_process_that_ends(tmp_path: Path, group: str, times: int, code: int, found: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS.format(group=group, times=times))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = xdist_group\n")
    command = [sys.executable, "-m", "pytest", "-n", "1", "--dist", "loadgroup", "--max-worker-restart", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code and found in done.stdout, done.stdout + done.stderr
