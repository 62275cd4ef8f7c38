"""Replay on a real Spark, on this machine: the same as in one process, also when a worker dies."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("pyspark", reason="replay on Spark needs the extra distced[spark]")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.history import History, HistoryWriter
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MINUTE
from distced.simulations.replay.replay import HistoryReplay
from distced.simulations.replay.runners import LOG, Inline, Spark, session_of
from distced.simulations.replay.tasks import DetectTask, TaskResult
from tests.support.replay_runs import seen

PATTERNS = """
[A as x] ; [B as y] within 2h by k -> Pair(k = x.k)
[A as x] ; [B as y where v == x.v] within 10min -> Same(v = y.v)
[A] ; [A] ; [D] -> Rare()
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    made = session_of("local[2]", tmp_path_factory.mktemp("spark") / LOG)
    yield made
    made.stop()


@pytest.fixture
def history(tmp_path: Path) -> History:
    events = [
        Event(
            "ABDA"[n % 4] if n % 90 == 2 or n % 4 != 2 else "B",
            n * MINUTE,
            n * MINUTE,
            "s",
            n,
            {"k": n % 7, "v": n % 13},
        )
        for n in range(3000)
    ]
    for part in range(2):
        HistoryWriter(tmp_path / "h", "test").write(events[part::2])
    return History(tmp_path / "h")


def replays(history: History, work: Path) -> HistoryReplay:
    patterns = compile_source(PatternSource(PATTERNS.strip(), "patterns"), None).compiled
    return HistoryReplay(patterns, history, work, cores=2, least=300)


@pytest.mark.slow
def test_spark_detects_as_one_process(session: Any, history: History, tmp_path: Path) -> None:
    here, there = replays(history, tmp_path / "here"), replays(history, tmp_path / "there")
    assert {each.way for each in there.plan.groups} == {"key", "time", "whole"}
    here.perform(Inline())
    expected = seen(list(here))
    shares: list[float] = []
    runner = Spark(session, tmp_path / "there")
    assert runner.cores == 2
    there.perform(runner, lambda progress: shares.append(progress.detected / progress.to_detect))
    assert seen(list(there)) == expected
    assert len(expected) > 100
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


class Deadly(DetectTask):
    """Its worker dies the first time."""

    def perform(self, clock: Any) -> TaskResult:
        mark = Path(self.work) / f"died-{self.number}"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().perform(clock)


@pytest.mark.slow
def test_replay_is_resumed_after_a_worker_has_died(session: Any, history: History, tmp_path: Path) -> None:
    made = replays(history, tmp_path / "w")
    expected = replays(history, tmp_path / "here")
    expected.perform(Inline())
    made.detecting[-1] = Deadly(**{name: getattr(made.detecting[-1], name) for name in DetectTask.__slots__})
    with pytest.raises(DistcedError, match="a task failed on Spark"):
        made.perform(Spark(session, tmp_path / "w"))
    again = replays(history, tmp_path / "w")
    again.perform(Spark(session, tmp_path / "w"))
    assert again.resumed >= 1
    assert seen(list(again)) == seen(list(expected))


def test_tasks_can_be_pickled(history: History, tmp_path: Path) -> None:
    """To workers that share nothing but the folders."""
    tasks: Sequence[Any] = (*replays(history, tmp_path / "w").partitioning, *replays(history, tmp_path / "w").detecting)
    assert [pickle.loads(pickle.dumps(each)) for each in tasks] == list(tasks)


def distced(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("distced"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("master", "said"), (("no-such-cluster://x", "not a master of Spark"), ("local[0]", "Spark did not start"))
)
def test_missing_master_is_an_error(history: History, master: str, said: str) -> None:
    failed = distced("replay", "[A]", "--history", history.root, "--master", master)
    assert failed.returncode != 0
    assert said in failed.stderr
    assert master in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.slow
def test_verb_replays_on_spark(history: History, tmp_path: Path) -> None:
    pattern = "[A] ; [B] within 2h by k -> P()"
    done = distced("replay", pattern, "--history", history.root, "--master", "local[1]", "--to", HOUR, "--json")
    assert done.returncode == 0, done.stderr
    *found, summary = map(json.loads, done.stdout.splitlines())
    assert summary["summary"]["found"][0]["count"] == len(found) > 0
    assert summary["summary"]["plan"]["runner"].startswith("on Spark 4")
    assert done.stderr == ""
