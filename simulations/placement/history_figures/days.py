"""Days of a history counted separately, in parallel: in this process one after the other, or as tasks of Spark.

A `DayTask` is all that a task needs: paths and texts, from which it makes the patterns again, so that nothing but a few
strings travels to a worker, and counts travel back. What began before midnight is found as far as the lead goes: so
much before the day is read, and not counted, as long as a match of any detector may last (`simulations.replay.reach`).
Columns of a day through `mapInArrow` were rejected: engines need all events of a day in order, in one place, and
reading the files of a day is a thousandth of detecting in them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

import distced
from distced.detectors.compiler import Compiled
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.engines import EngineName
from distced.middleware.history.history import History, events_of_history
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import DAY, MINUTE
from distced.middleware.wire.directory_entries import SourceEntry
from distced.policies.topology.model import Place
from distced.simulations.placement.history_figures.counting import Counting
from distced.simulations.placement.history_figures.counts import HistoryCounts, total
from distced.simulations.placement.history_figures.measuring import (
    kinds_of,
    measured,
    opened,
    registry_of,
    span_of,
    types_of,
    wanted_types,
)
from distced.simulations.placement.optimum.search_space import PatternRequest, SearchSpace, space_of
from distced.simulations.replay.reach import reach_of

LEAD: Final = 10 * MINUTE
"""Least time read before a day, ns: some matches may last for any time, and instances are touched, and records refer to
events, for longer than a match lasts.
"""

Spread: TypeAlias = Callable[[Callable[[int], bytes], Sequence[int]], Iterable[bytes]]
"""Runs a function for each of several days, in any order."""


@dataclass(frozen=True)
class DayTask:
    """Count of one day.

    Attributes:
        root: the folder of the history.
        patterns: a pattern, or the text of a pattern file.
        name: of the file; empty for a single pattern.
        sources: the types that each source publishes.
    """

    root: str
    patterns: str
    name: str
    sources: Mapping[str, tuple[str, ...]]
    engine: EngineName = "stepwise"

    def space(self, history: History) -> SearchSpace:
        """Search space of the patterns; their subscribers do not affect the counts."""
        compiled = compile_source(PatternSource(self.patterns, self.name), registry_of(history)).compiled
        return space_of(
            [PatternRequest(str(number), each, (Place("site", ""),)) for number, each in enumerate(compiled)]
        )

    def __call__(self, day: int) -> bytes:
        """The counts of a day, counted from 1 January 1970, as JSON."""
        history = History(Path(self.root))
        space = self.space(history)
        types = wanted_types(space)
        first, last = span_of(history, types)
        # The first day begins with its first event, the last one ends where the history does.
        begin = max(first - 1, day * DAY - 1) if day > first // DAY else first - 1
        end = min(last, (day + 1) * DAY - 1)
        counting = Counting(space, self.sources, kinds_of(history), engine=self.engine)
        if day > first // DAY:
            before = max(first - 1, begin - lead_of(space))
            counting.take(list(events_of_history(history, types, before + 1, begin)), before, begin, counted=False)
        counting.take(list(events_of_history(history, types, begin + 1, end)), begin, end)
        return msgspec.json.encode(counting.counts)


def count_days(task: DayTask, spread: Spread = map) -> HistoryCounts:
    """Count every day from the first event to the watermark of what is read, and add the counts up."""
    history = opened(Path(task.root))
    first, last = span_of(history, wanted_types(task.space(history)))
    days = range(first // DAY, last // DAY + 1)
    return total(msgspec.json.decode(each, type=HistoryCounts) for each in spread(task, days))


def counts_of(
    history: History,
    root: Path,
    source: PatternSource,
    space: SearchSpace,
    sources: Mapping[str, SourceEntry],
    spark: str,
    on_progress: Callable[[str], object],
) -> HistoryCounts:
    """Count a history, in this process or with days as tasks of a Spark master.

    Args:
        root: the folder of the history.
        spark: the master; empty for this process.
    """
    if spark:
        on_progress("counting on Spark")
        task = DayTask(str(root.resolve()), source.text, source.name, types_of(sources))
        return count_days(task, on_spark(spark))

    def told(what: str, done: int, of: int) -> None:
        on_progress(f"counting {what}: {done} of {of}")

    return measured(history, space, sources, on_progress=told)


def lead_of(space: SearchSpace) -> int:
    """Time read before a day, ns: the longest match of any detector."""
    patterns = [space.whole(root).compiled for root in space.roots]
    reaches = [
        reach_of([each, *_read_by(each, patterns)]) for each in (space.whole(name).compiled for name in space.ways)
    ]
    return max(LEAD, *(each for each in reaches if each is not None))


def _read_by(pattern: Compiled, patterns: Sequence[Compiled]) -> list[Compiled]:
    """The patterns whose composite events another reads, and those that they read."""
    found: list[Compiled] = []
    waiting = [pattern]
    while waiting:
        names = waiting.pop().names()
        for each in patterns:
            output = each.automaton.output
            if output is not None and output.type_name in names and each is not pattern and each not in found:
                found.append(each)
                waiting.append(each)
    return found


def on_spark(master: str = "local[*]") -> Spread:
    """Days as tasks of Spark.

    Args:
        master: of Spark.
    """

    def spread(task: Callable[[int], bytes], days: Sequence[int]) -> Iterable[bytes]:
        session = _session(master)
        try:
            context = session.sparkContext
            return list(context.parallelize(list(days), len(days)).map(task).collect())
        finally:
            session.stop()

    return spread


def _session(master: str) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise DistcedError("days on Spark need pyspark, which is not installed",
                           advice="pip install 'distced[spark]'") from None  # fmt: skip
    # Workers run the same Python, and find the packages where this process has found them.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    here = str(Path(distced.__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "")
    if here not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, known)))
    try:
        builder = SparkSession.builder.master(master).appName("distced place")
        return builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    except Exception as error:
        # Java is missing, or the master does not answer: any error of the gateway.
        raise DistcedError("Spark does not start", given=master, advice=f"it needs Java 17: {error}") from error
