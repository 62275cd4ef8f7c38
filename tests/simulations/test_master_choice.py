"""Where a replay or an ingestion runs that does not say: in this process, or on local Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from distced.middleware.history import HistoryWriter
from distced.middleware.model.events import Event
from distced.simulations.ingest.cli import ingest
from distced.simulations.replay import master_choice, runners
from distced.simulations.replay.cli import replay
from distced.simulations.replay.master_choice import INLINE, LOCAL, master_for
from distced.simulations.streaming.stream import _use_this_python


@pytest.mark.parametrize(
    ("cores", "seconds", "tasks", "master"),
    [
        # Of 1.7 million events, as measured: 7 s here, 14 s on Spark.
        (2, 6.8, 4, INLINE),
        (2, 60.0, 4, LOCAL),
        (16, 6.8, 32, INLINE),
        (16, 20.0, 32, LOCAL),
        (16, 20.0, 1, INLINE),
        (1, 10_000.0, 4, INLINE),
    ],
)
def test_spark_is_chosen_where_it_saves_more_than_it_takes_to_start(
    monkeypatch: pytest.MonkeyPatch, cores: int, seconds: float, tasks: int, master: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr(master_choice, "find_spec", lambda _: object())
    monkeypatch.setattr("shutil.which", lambda _: "java")
    assert master_for(seconds, tasks).master == master
    monkeypatch.setattr("shutil.which", lambda _: None)
    without = master_for(seconds, tasks)
    assert without.master == INLINE
    assert ("Java is missing" in without.why) == (master == LOCAL)


def test_verbs_without_a_master_start_no_spark_for_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(runners, "session_of", fails)
    HistoryWriter(tmp_path / "h", "test").write([Event("A", n, n, "s", n, {}) for n in range(9)])
    assert replay("[A] ; [A]", tmp_path / "h") == 0
    assert "in this process (one task needs no Spark)" in capsys.readouterr().err
    for name in "xy":
        (tmp_path / f"{name}.csv").write_text(f"type,time,source,seq\nB,1,{name},1\n")
    assert ingest([tmp_path / "x.csv", tmp_path / "y.csv"], tmp_path / "h") == 0
    assert "--master inline, faster than Spark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("master", "named", "expected"),
    [("local[2]", False, sys.executable), ("local[2]", True, "python3"), ("spark://there", False, "python3")],
)
def test_local_workers_of_a_stream_run_this_python(
    monkeypatch: pytest.MonkeyPatch, master: str, named: bool, expected: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named:
        monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    context = SimpleNamespace(master=master, pythonExec="python3", getConf=dict)
    _use_this_python(SimpleNamespace(sparkContext=context, _jsparkSession=None))
    assert context.pythonExec == expected
