"""Tasks of a replay and the folder they work in: the result files of a task show that it is done.

    WORK/plan.json                  plan of the replay: resuming needs the same
    WORK/partitions/0/NAME.arrow    events of a file range for group 0, a batch for each slot
    WORK/partitions/NAME.json       the file range is partitioned
    WORK/found/3.found              results of task 3, in order
    WORK/found/3.json               task 3 is done
    WORK/told/3.frames              output of task 3, a detector of a sub-pattern, for its readers

Events go from task to task through files and not through Spark's shuffle, which takes rows out of Arrow and puts them
back: of a pass that does so the detection is a small part. Spark decides where and when tasks run, and runs them again
where a machine is lost; tasks done already are skipped then. So workers and driver need a folder in common, as they do
for the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from distced.detectors.compiler import Compiled
from distced.detectors.runtime.engines import EngineName, chosen, has_columnar, make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.events import CompositeEvent, OrderKey
from distced.simulations.replay.batches import TableBatch
from distced.simulations.replay.file_ranges import (
    FileRange,
    Trouble,
    appearing,
    days_of,
    read,
    read_partition,
    write_partitions,
)
from distced.simulations.replay.plan import Slice
from distced.simulations.replay.result_files import unreadable, write_found

STEP: Final = 131_072
"""Events consumed at once, extended to all events of the last instant."""


PAYS_FROM: Final = 20_000
"""Number of events from which the columnar engine is faster: the other one needs an object for each event."""


class ReplayCounts:
    """Counts of the events read by a task.

    Attributes:
        consumed: events consumed.
        repeated: duplicates, left out.
    """

    def __init__(self) -> None:
        self.consumed = self.repeated = 0


def detect(
    patterns: Sequence[Compiled],
    days: Iterable[Sequence[Any]],
    wanted: Slice,
    *,
    engine: EngineName = "auto",
    events: int = 0,
    counts: ReplayCounts | None = None,
    watch: Callable[[int], None] = lambda _: None,
) -> Iterator[list[CompositeEvent]]:
    """The composite events of a slice, in order, stretch by stretch.

    Args:
        days: the tables of each day, or of several together, in the native form; days in order, what is in one in any
            order.
        events: approximate number of events, to choose the engine by.
        watch: called with the number of events consumed.
    """
    counts = ReplayCounts() if counts is None else counts
    made = make_engine(patterns, engine=_chosen(engine, events))
    for tables in days:
        batch = TableBatch(tables)
        counts.repeated += batch.repeated
        place = int(np.searchsorted(batch.hi, wanted.begin))
        last = int(np.searchsorted(batch.hi, wanted.until, "right"))
        while place < last:
            end = min(place + STEP, last)
            # Events of one instant stay together.
            end = min(int(np.searchsorted(batch.hi, batch.hi[end - 1], "right")), last)
            stretch, until = batch.stretch(place, end), int(batch.hi[end - 1])
            if isinstance(made, StepwiseEngine):
                found = made.feed([stretch.event(each) for each in range(len(stretch))]) + made.advance(until)
            else:
                found = made.consume(stretch, until)
            counts.consumed += end - place
            watch(counts.consumed)
            yield _answered(found, wanted)
            place = end
    yield _answered(made.advance(wanted.until), wanted)


def _chosen(engine: EngineName, events: int) -> EngineName:
    if engine == "auto":
        return "columnar" if events >= PAYS_FROM and has_columnar() else "stepwise"
    return chosen(engine, events)


def _answered(found: list[CompositeEvent], wanted: Slice) -> list[CompositeEvent]:
    """The composite events the slice answers for, in order."""
    return sorted((each for each in found if wanted.after < each.hi <= wanted.until), key=_order)


def _order(event: CompositeEvent) -> OrderKey:
    return event.key


PARTITIONS: Final = "partitions"
FOUND: Final = "found"

FEW: Final = 32_768
"""Number of events below which days are taken together, for an engine does best with many at once."""


class TaskResult(msgspec.Struct, frozen=True):
    """Counts and problems of a task.

    Attributes:
        consumed, repeated: events consumed, and duplicates left out.
        found: number of composite events.
        seconds: of its run.
        troubles: files or units that could not be read.
    """

    consumed: int = 0
    repeated: int = 0
    found: int = 0
    seconds: float = 0.0
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """Partitions file ranges by the keys of groups.

    Attributes:
        groups: for each, its number, the names in its patterns (`DetectTask.names`), its types, its key, and its
            number of slots.
    """

    work: str
    units: tuple[FileRange, ...]
    groups: tuple[tuple[int, frozenset[str] | None, frozenset[str] | None, tuple[str, ...], int], ...]
    begin: int
    until: int

    @property
    def stage(self) -> int:
        """Stage: it is performed when all tasks of earlier stages are done."""
        return 0

    @property
    def rows(self) -> int:
        """Number of events to read."""
        return sum(each.rows for each in self.units)

    def is_done(self) -> bool:
        """Whether it was done before."""
        return all((Path(self.work) / PARTITIONS / f"{each.name}.json").exists() for each in self.units)

    def perform(self, clock: Callable[[], float]) -> TaskResult:
        """Perform the task."""
        started, consumed = clock(), 0
        troubles: list[Trouble] = []
        for unit in self.units:
            done = Path(self.work) / PARTITIONS / f"{unit.name}.json"
            if done.exists():
                continue
            trouble: tuple[Trouble, ...] = ()
            for number, names, types, by, slots in self.groups:
                if types is not None and unit.type not in types:
                    continue
                try:
                    table = read(unit, names, self.begin, self.until)
                except (OSError, pa.ArrowException) as error:
                    trouble = (Trouble(unit.path, str(error), unit.rows),)
                    break
                consumed += len(table)
                if len(table):
                    write_partitions(
                        table, by, slots, Path(self.work) / PARTITIONS / str(number) / f"{unit.name}.arrow"
                    )
            leave(done, TaskResult(troubles=trouble))
            troubles += trouble
        return TaskResult(consumed, seconds=clock() - started, troubles=tuple(troubles))


@dataclass(frozen=True, slots=True)
class DetectTask:
    """Detects patterns in a slice of time, or in a slot of its partition.

    Attributes:
        number: of the task.
        group: of the patterns.
        names: those in the patterns, whose columns are read; None for all columns, so that constituents are told whole.
        slot: of the partition; None where the history is read.
    """

    work: str
    number: int
    group: int
    patterns: tuple[Compiled, ...]
    names: frozenset[str] | None
    units: tuple[FileRange, ...]
    wanted: Slice
    slot: int | None
    engine: EngineName
    rows: int

    def is_done(self) -> bool:
        """Whether it was done before."""
        return self._done.exists()

    @property
    def stage(self) -> int:
        """Stage: it is performed when all tasks of earlier stages are done."""
        return 0 if self.slot is None else 1

    @property
    def _done(self) -> Path:
        return Path(self.work) / FOUND / f"{self.number}.json"

    @property
    def found(self) -> Path:
        """Path of its composite events."""
        return Path(self.work) / FOUND / f"{self.number}.found"

    def perform(self, clock: Callable[[], float]) -> TaskResult:
        """Perform the task."""
        started = clock()
        counts, troubles, found = ReplayCounts(), list[Trouble](), 0
        with appearing(self.found) as part, part.open("wb") as file:
            stretches = detect(
                self.patterns,
                self._days(troubles),
                self.wanted,
                engine=self.engine,
                events=self.rows,
                counts=counts,
            )
            for stretch in stretches:
                found += len(stretch)
                write_found(file, stretch, whole=self.names is None)
        done = TaskResult(counts.consumed, counts.repeated, found, clock() - started, tuple(troubles))
        leave(self._done, done)
        return done

    def _days(self, troubles: list[Trouble]) -> Iterator[Sequence[Any]]:
        """The tables of each day; of several days together where they are small."""
        tables: list[Any] = []
        for units in days_of(self.units):
            for unit in units:
                try:
                    table = self._table(unit)
                except (OSError, pa.ArrowException) as error:
                    troubles.append(Trouble(unit.path, str(error), unit.rows))
                    continue
                if table is not None and len(table):
                    tables.append(table)
            if sum(map(len, tables)) >= FEW:
                yield tables
                tables = []
        if tables:
            yield tables

    def _table(self, unit: FileRange) -> Any:
        if self.slot is None:
            return read(unit, self.names, self.wanted.begin, self.wanted.until)
        path = Path(self.work) / PARTITIONS / str(self.group) / f"{unit.name}.arrow"
        # Files that could not be read were reported when they were partitioned.
        if not path.exists():
            return None
        try:
            return read_partition(path, self.slot)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from None


def leave(path: Path, done: TaskResult) -> None:
    """Write the note that a task is done."""
    with appearing(path) as part:
        part.write_bytes(msgspec.json.encode(done))


def left(path: Path) -> TaskResult | None:
    """The note of a task that is done; None where it is not."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=TaskResult)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
