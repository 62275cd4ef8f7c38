"""Runs of experiments as processes: interrupted from the keyboard, and on Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distced.simulations.experiments.experiment_file import load_experiment
from distced.simulations.experiments.runner import Workers, run_experiment

pytest.importorskip("pyarrow")
pytest.importorskip("scipy")

pytestmark = [pytest.mark.spawn, pytest.mark.slow]

TEXT = """
kind = "detection"
title = "Interrupted"
seeds = { from = 1, to = SEEDS }

[detection]
policies = ["guaranteed"]
networks = ["heavy tail"]
duration = "DURATION"
"""

SCRIPT = """
import sys
from distced.middleware.cli.command import main
from tests.support.verbs import load_verbs

if __name__ == "__main__":
    load_verbs()
    sys.exit(main(sys.argv[1:]))
"""


def written(path: Path, seeds: int, duration: str) -> Path:
    path.write_text(TEXT.replace("SEEDS", str(seeds)).replace("DURATION", duration))
    return path


def alive(session: int) -> list[int]:
    """Processes of a session that have not ended."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                state, _, group, owner = (each / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(owner) == session and state != "Z" and group:
                found.append(int(each.name))
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_interrupt_ends_all_processes_and_leaves_finished_cells(tmp_path: Path) -> None:
    # As many cells as would take minutes.
    file, out = written(tmp_path / "own.toml", 500, "120s"), tmp_path / "out"
    script = tmp_path / "verbs.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), "experiment", "run", str(file), "--jobs", "2", "--out", str(out)]
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        command, start_new_session=True, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        until = time.monotonic() + 120
        while len(list(out.glob("cells/*.parquet"))) < 2 and time.monotonic() < until:
            assert process.poll() is None, process.stderr
            time.sleep(0.1)
        # As by the keyboard: to the whole group.
        os.killpg(process.pid, signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 130 and "goes on with what is left" in printed
    # The tracker of shared resources ends when all others have.
    until = time.monotonic() + 20
    while alive(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert alive(process.pid) == []
    kept = len(list(out.glob("cells/*.parquet")))
    assert 2 <= kept < 500 and not list(out.glob("cells/.*")) and not list(out.glob("cells/*.error.txt"))
    made = load_experiment(file, seeds=kept)
    assert run_experiment(made, out).kept >= 2


POLICIES = """
kind = "policies"
title = "The same"
seeds = [5]

[policies]
treatments = ["static min-load", "max-reliability", "optimum-bandwidth"]
losses = true

[[policies.workloads]]
name = "drift"
kind = "drift"
subscriptions = 3
duration = "30s"

[[policies.topologies]]
name = "tree"
kind = "tree"
sites = 4
nodes = 3
"""


def test_results_do_not_depend_on_hashes_of_the_process(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(POLICIES)
    (tmp_path / "verbs.py").write_text(SCRIPT)
    found = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        subprocess.run(
            [sys.executable, str(tmp_path / "verbs.py"), "experiment", "run", str(tmp_path / "own.toml"), "--no-report",
             "--out", str(out)],
            check=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": seed},
        )  # fmt: skip
        found.append({path.name: path.read_bytes() for path in (out / "cells").iterdir()})
    assert len(found[0]) == 3 and found[0] == found[1]


@pytest.mark.ray
def test_ray_gives_the_bytes_of_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    made = load_experiment(written(tmp_path / "own.toml", 3, "5s"))
    summary = run_experiment(made, tmp_path / "ray", Workers(jobs=2, ray=True))
    assert (summary.done, summary.failed) == (3, {})
    run_experiment(made, tmp_path / "one")
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "cells").iterdir()} for name in ("one", "ray")
    )
    assert one == other
