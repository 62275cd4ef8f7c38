"""Days of a history counted apart: in this process one after the other, or as tasks of Spark.

A `DayTask` has paths and texts alone, and its results are counts, so that little travels. What began before midnight is
found as far as the lead goes: before each day as much is read, and not counted, as a match of any detector may last
(`simulations.replay.pattern_properties`). Columns of a day through `mapInArrow` were rejected: engines need all events
of a day in order, in one place, and reading them is a thousandth of detecting in them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.engines import EngineName
from distced.middleware.history.history import History
from distced.middleware.history.reader import events_of_history
from distced.middleware.model.timestamps import DAY, MINUTE
from distced.middleware.wire.directory_entries import SourceEntry
from distced.policies.topology.model import Place
from distced.simulations.placement.history_figures.counting import Counting, HistoryCounts, total
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
from distced.simulations.replay.pattern_properties import reach_among
from distced.simulations.replay.runners import LOG, session_of

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
    reaches = [reach_among(space.whole(name).compiled, patterns) for name in space.ways]
    return max(LEAD, *(each for each in reaches if each is not None))


def on_spark(master: str = "local[*]") -> Spread:
    """Days as partitions of a Spark job, whose workers see the history."""

    def spread(task: Callable[[int], bytes], days: Sequence[int]) -> Iterable[bytes]:
        def counted(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                yield pa.record_batch([[task(day) for day in batch.column(0).to_pylist()]], ["counts"])

        with tempfile.TemporaryDirectory(prefix="distced-place-") as folder:
            session = session_of(master, Path(folder) / LOG)
            try:
                job = session.range(days[0], days[-1] + 1, 1, len(days)).mapInArrow(counted, "counts binary")
                return [bytes(row.counts) for row in job.collect()]
            finally:
                session.stop()

    return spread
