"""Days of a history counted by tasks of Spark: as one after the other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.history.history import History
from distced.middleware.history.writer import HistoryWriter
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, HOUR, MINUTE, SECOND
from distced.simulations.placement.history_figures.counting import HistoryCounts
from distced.simulations.placement.history_figures.measuring import (
    DayTask,
    count_days,
    located,
    measured,
    on_spark,
    registry_of,
    types_of,
)
from distced.simulations.placement.optimum.search_space import PatternRequest, space_of
from tests.simulations.test_placement_counting import HERE, ROOMS
from tests.support.random_placements import START

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


def test_days_counted_apart_are_as_days_in_a_row(task: DayTask) -> None:
    apart, row = count_days(task), in_a_row(task)
    assert found(apart) == found(row)
    assert apart.streams == row.streams
    assert (apart.events, apart.duration) == (row.events, row.duration)


@pytest.mark.parametrize(
    ("pattern", "pause"),
    [
        ("[A] ; [B] within 25min", 20 * MINUTE),
        ("([A], [B <= {B, T}]) @ T = 25min", 20 * MINUTE),
        # What reads it reaches as far as both; and over a day without any event.
        ("[A] ; [B] within 25min -> Pair()\n[Pair] ; [B] within 30h -> Late()", 20 * MINUTE),
        ("[A] ; [B] within 50h", 26 * HOUR),
    ],
)
def test_long_matches_over_midnight_are_counted(tmp_path: Path, pattern: str, pause: int) -> None:
    midnight = (START // DAY + 1) * DAY
    first = midnight - 15 * MINUTE
    at = [first, first + pause, first + pause + 25 * HOUR]
    events = [
        Event(name, hi, hi, name.lower(), place, {}) for place, (name, hi) in enumerate(zip("ABB", at, strict=True))
    ]
    HistoryWriter(tmp_path / "history", "test").write(events, None)
    task = DayTask(str(tmp_path / "history"), pattern, "p.pattern", {"a": ("A",), "b": ("B", "C")})
    apart, row = count_days(task), in_a_row(task)
    assert any(found(row).values())
    assert found(apart) == found(row)
    assert (apart.events, apart.duration) == (row.events, row.duration)


def test_days_are_counted_from_the_first_event_to_the_watermark(tmp_path: Path) -> None:
    """Days without events count, those after it was heard no more do not, whatever else was recorded then."""
    midnight = (START // DAY + 1) * DAY
    heard = [Event(name, midnight + at, midnight + at, name.lower(), at, {}) for at, name in enumerate("AB")]
    other = [Event("D", midnight + day * DAY, midnight + day * DAY, "d", day, {}) for day in (1, 5)]
    writer = HistoryWriter(tmp_path / "history", "one")
    writer.write(heard, midnight + 2 * DAY)
    writer.note(["A", "B"], midnight + 2 * DAY)
    HistoryWriter(tmp_path / "history", "two").write(other, None)
    task = DayTask(str(tmp_path / "history"), PATTERN, "", {"a": ("A",), "b": ("B", "C")})
    apart, row = count_days(task), in_a_row(task)
    assert apart.duration == row.duration == 2 * DAY + 1
    assert (found(apart), apart.streams, apart.events) == (found(row), row.streams, row.events)


def test_history_without_events_is_refused(tmp_path: Path) -> None:
    HistoryWriter(tmp_path / "history", "test")
    with pytest.raises(DistcedError, match="a history without events"):
        count_days(DayTask(str(tmp_path / "history"), PATTERN, "", {}))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_spark_gives_the_same(task: DayTask) -> None:
    pytest.importorskip("pyspark")
    spread = on_spark("local[2]")
    assert count_days(task, spread) == count_days(task)


def in_a_row(task: DayTask) -> HistoryCounts:
    history = History(Path(task.root))
    compiled = compile_source(PatternSource(task.patterns, task.name), registry_of(history)).compiled
    space = space_of([PatternRequest("q", each, (HERE,)) for each in compiled])
    sources = located({"a": ("A",), "b": ("B",)}, ROOMS)
    assert types_of(sources) == task.sources
    return measured(history, space, sources)


def found(counts: HistoryCounts) -> dict[str, int]:
    return {name: each.found for name, each in counts.detectors.items()}
