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
from typing import IO, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from distced.detectors.compiler import Compiled
from distced.detectors.cutting.graph import DetectorGraph, DetectorPlan
from distced.detectors.runtime.detector import Detected, Detector
from distced.detectors.runtime.engines import EngineName, chosen, has_columnar, make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.history.layout import day_number, day_of
from distced.middleware.model.events import CompositeEvent, Event, EventId, OpenGap, OrderKey
from distced.middleware.model.timestamps import DAY, INSTANT_MIN
from distced.middleware.wire.frames import Frame, decode, encode
from distced.policies.detection.guaranteed import Guaranteed
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


TOLD: Final = "told"
_HISTORY: Final = "history"
_EVENTS: Final = 4096
_LENGTH: Final = 8


def writers_of(graph: DetectorGraph, plan: DetectorPlan) -> tuple[str, ...]:
    """The detectors whose composite events one reads: those of its parts, and those that publish a type it names."""
    # Several patterns may publish one type.
    names = plan.compiled.names()
    outputs = ((each.id, each.compiled.automaton.output) for each in graph.plans.values() if each.id != plan.id)
    named = (identity for identity, output in outputs if output is not None and output.type_name in names)
    return tuple(dict.fromkeys((*plan.parts, *named)))


def stages_of(graph: DetectorGraph) -> dict[str, int]:
    """Stage of each detector: the length of the longest chain of detectors before it."""
    stages: dict[str, int] = {}

    def stage(identity: str) -> int:
        if identity not in stages:
            before = [stage(each) for each in writers_of(graph, graph.plans[identity])]
            stages[identity] = 1 + max(before, default=-1)
        return stages[identity]

    for identity in graph.plans:
        stage(identity)
    return stages


@dataclass(frozen=True, slots=True)
class SubPatternTask:
    """One detector of a cut graph.

    Attributes:
        number: of the task.
        stage: it is performed when all tasks of earlier stages are done.
        names: those in the patterns of the group, whose columns are read: what one part binds another may look at. None
            for all columns, so that constituents are told whole.
        derivations: whether others read it as part of a pattern.
        source: under which its composite events are those of a pattern that was asked for; empty if it is none.
        writers: the detectors it reads, with the numbers of their tasks.
        days: the ends of the days that all go through together, ns.
    """

    work: str
    number: int
    group: int
    stage: int
    names: frozenset[str] | None
    plan: DetectorPlan
    derivations: bool
    source: str
    writers: tuple[tuple[str, int], ...]
    units: tuple[FileRange, ...]
    days: tuple[int, ...]
    wanted: Slice
    rows: int

    @property
    def found(self) -> Path:
        """Path of its composite events that belong to the result."""
        return Path(self.work) / FOUND / f"{self.number}.found"

    def is_done(self) -> bool:
        """Whether it was done before."""
        return self.found.with_suffix(".json").exists()

    def perform(self, clock: Callable[[], float]) -> TaskResult:
        """Perform the task."""
        started = clock()
        detector = Detector(self.plan.compiled, Guaranteed(), derivations=self.derivations)
        detector.join(_HISTORY, INSTANT_MIN, 0)
        told: dict[str, tuple[Iterator[Frame], Path]] = {}
        for writer, number in self.writers:
            detector.join(writer, INSTANT_MIN, 0)
            told[writer] = _frames(self._told(number)), self._told(number)
        troubles: list[Trouble] = []
        found: dict[EventId, CompositeEvent] = {}
        by_day = {each[0].day: each for each in days_of(self.units)}
        consumed = repeated = 0
        with appearing(self._told(self.number)) as part, part.open("wb") as file:
            for end in self.days:
                events, again = self._events(by_day.get(day_of(end), ()), troubles)
                consumed, repeated = consumed + len(events), repeated + again
                detected = [detector.receive(_HISTORY, events, end, 0)]
                for writer, (frames, path) in told.items():
                    detected += _heard(detector, writer, frames, path, end)
                news = [event for each in detected for event in each.events]
                for event in news:
                    found.setdefault(event.id, event)
                self._tell(file, news, end, detector.open_gaps() if self.derivations else ())
        answered = [each for each in found.values() if each.hi <= self.wanted.until] if self.source else []
        with appearing(self.found) as part, part.open("wb") as file:
            write_found(file, sorted(answered, key=_order), whole=self.names is None)
        done = TaskResult(consumed, repeated, len(answered), clock() - started, tuple(troubles))
        leave(self.found.with_suffix(".json"), done)
        return done

    def _told(self, number: int) -> Path:
        return Path(self.work) / TOLD / f"{number}.frames"

    def _events(self, units: Iterable[FileRange], troubles: list[Trouble]) -> tuple[list[Event], int]:
        tables = []
        for unit in units:
            try:
                table = read(unit, self.names, self.wanted.begin, self.wanted.until)
            except (OSError, pa.ArrowException) as error:
                troubles.append(Trouble(unit.path, str(error), unit.rows))
                continue
            if len(table):
                tables.append(table)
        batch = TableBatch(tables)
        return [batch.event(place) for place in range(len(batch))], batch.repeated

    def _tell(self, file: IO[bytes], events: Sequence[CompositeEvent], until: int, opens: Sequence[OpenGap]) -> None:
        """Write the composite events until an instant, for their readers."""
        output = self.plan.compiled.automaton.output
        name = self.plan.id if output is None else output.type_name
        for first in range(0, len(events), _EVENTS):
            some = events[first : first + _EVENTS]
            _write(file, encode(some, type=name, source=some[0].source, kind="c"))
        _write(file, encode((), type=name, source=self.plan.id, watermark=until, kind="c", open=opens))


def _heard(detector: Detector, writer: str, frames: Iterator[Frame], told: Path, until: int) -> list[Detected]:
    """Feed a detector with the composite events that another one has published until an instant."""
    found = []
    for frame in frames:
        if frame.open and frame.watermark is not None:
            detector.hear_open(writer, frame.open, frame.watermark)
        found.append(detector.receive(writer, frame.events, frame.watermark, 0))
        if frame.watermark is not None and frame.watermark >= until:
            return found
    raise unreadable(told, EOFError("the end is missing"))


def days_between(units: Iterable[FileRange], until: int) -> tuple[int, ...]:
    """The ends of the days with events, and the end of time, ns."""
    ends = {(day_number(each.day) + 1) * DAY - 1 for each in units}
    return (*sorted(end for end in ends if end < until), until)


def _write(file: IO[bytes], content: bytes) -> None:
    file.write(len(content).to_bytes(_LENGTH, "big") + content)


def _frames(path: Path) -> Iterator[Frame]:
    with path.open("rb") as file:
        while head := file.read(_LENGTH):
            yield decode(file.read(int.from_bytes(head, "big")), where=str(path))


def _order(event: CompositeEvent) -> OrderKey:
    return event.key
