"""Days of a history counted by tasks of Spark: as one after the other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from detectors.compilation import compile_pattern
from middleware.errors import DistcedError
from middleware.events import Event
from middleware.history.history import History
from middleware.history.writing import HistoryWriter
from middleware.timestamps import DAY, SECOND
from simulations.placement.counts import Counts
from simulations.placement.days import DayTask, count_days, on_spark
from simulations.placement.measuring import located, measured, types_of
from simulations.placement.space import Asked, space_of
from tests.placements import START
from tests.simulations.test_placement_counting import HERE, ROOMS

PATTERN = "[A] ; [B] within 5s"


@pytest.fixture
def task(tmp_path: Path) -> DayTask:
    """Three days, with matches over each midnight."""
    midnight = (START // DAY + 1) * DAY
    events = []
    for day in range(2):
        for second, name in enumerate("AABABBAABAABBA", 1):
            at = midnight + day * DAY + (second - 7) * SECOND
            events.append(Event(name, at, at, name.lower(), 100 * day + second, {}))
    HistoryWriter(tmp_path / "history", "test").write(events, None)
    return DayTask(str(tmp_path / "history"), PATTERN, "", {"a": ("A",), "b": ("B", "C")})


def test_days_apart_are_as_days_in_a_row(task: DayTask) -> None:
    apart, row = count_days(task), in_a_row(task)
    assert found(apart) == found(row)
    assert apart.streams == row.streams
    assert (apart.events, apart.duration) == (row.events, row.duration)


def test_a_history_without_events(tmp_path: Path) -> None:
    HistoryWriter(tmp_path / "history", "test")
    with pytest.raises(DistcedError, match="a history without events"):
        count_days(DayTask(str(tmp_path / "history"), PATTERN, "", {}))


@pytest.mark.live
@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_on_spark(task: DayTask) -> None:
    pytest.importorskip("pyspark")
    spread = on_spark("local[2]")
    assert count_days(task, spread) == count_days(task)


def in_a_row(task: DayTask) -> Counts:
    history = History(Path(task.root))
    space = space_of([Asked("q", compile_pattern(PATTERN), (HERE,))])
    sources = located({"a": ("A",), "b": ("B",)}, ROOMS)
    assert types_of(sources) == task.sources
    return measured(history, space, sources)


def found(counts: Counts) -> dict[str, int]:
    return {name: each.found for name, each in counts.detectors.items()}
