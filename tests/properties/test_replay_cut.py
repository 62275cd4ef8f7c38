"""Replay finds what a run finds, however it is cut: by key, by slices of time, in one piece; on both engines."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")
pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

from collections import Counter
from pathlib import Path

from distced.middleware.history import history_file, layout, writer
from distced.simulations.replay import tasks
from tests.conftest import runs_long
from tests.support.replay_runs import disk_differs, replay_differs


def test_replay_detects_as_a_run(request: pytest.FixtureRequest) -> None:
    long = runs_long(request.config)
    found, ways = 0, Counter[str]()
    for seed in range(20_000 if long else 120):
        count, how = replay_differs(seed)
        found += count
        ways.update(how)
    assert found > 500
    assert min(ways[each] for each in "wtk") > 5


@pytest.mark.slow
def test_replay_through_files_detects_as_a_run(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (layout, history_file, writer, tasks):
        monkeypatch.setattr(module, "DAY", 16)
    long = runs_long(request.config)
    found, ways = 0, Counter[str]()
    for seed in range(2_000 if long else 70):
        # Each day by itself, some together, or all.
        monkeypatch.setattr(tasks, "FEW", (1, 5, 100)[seed % 3])
        count, how = disk_differs(seed, tmp_path / str(seed))
        found += count
        ways.update(how)
    assert found > 200
    assert min(ways[each] for each in "wtkp") > 3
