"""Tasks of a replay and the folder they work in: the result files of a task show that it is done.

    WORK/plan.json                  plan of the replay: resuming needs the same
    WORK/partitions/0/NAME.arrow    events of a file range for group 0, a batch for each slot
    WORK/partitions/NAME.json       the file range is partitioned
    WORK/found/3.found              results of task 3, in order
    WORK/found/3.json               task 3 is done
    WORK/outputs/3.frames           output of task 3, a detector of a sub-pattern, for its readers

Events go from task to task through files and not through Spark's shuffle, which takes rows out of Arrow and back: in
such a pass detection is a small part. Spark decides where and when tasks run, and repeats those of a lost machine;
tasks done already are skipped. So workers and driver need a folder in common, as for the history. Tables come a day at
a time, or several small days together; engines keep their state in between, so a task holds no more.

Tasks of sub-patterns are the detectors of a cut graph as broker nodes run them, derivations included, under guaranteed
detection; the wire format travels between them, in files. A detector consumes a day when its parts have completed it.
Derivations need the stepwise engine, so this pays only where the columnar one cannot run the pattern in one piece.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import networkx as nx
import numpy as np
import pyarrow as pa

from distced.detectors.columnar.batch.table_batch import TableBatch
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.cut import DetectorGraph, DetectorPlan
from distced.detectors.runtime.detector import Detected, Detector
from distced.detectors.runtime.engines import EngineName, chosen, has_columnar, make_engine
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.history.layout import by_day, period_of
from distced.middleware.model.events import CompositeEvent, EventId, OpenGap
from distced.middleware.model.timestamps import DAY, INSTANT_MIN
from distced.middleware.wire.frames import Frame, decode, encode
from distced.policies.detection.guaranteed import Guaranteed
from distced.simulations.replay.file_ranges import (
    FileRange,
    Trouble,
    appearing,
    read,
    read_partition,
    write_partitions,
)
from distced.simulations.replay.plan import Slice
from distced.simulations.replay.result_files import blocks, unreadable, write_block, write_found

PARTITIONS: Final = "partitions"
FOUND: Final = "found"
OUTPUTS: Final = "outputs"

STEP: Final = 131_072
"""Events consumed at once, extended to all events of the last instant."""

PAYS_FROM: Final = 20_000
"""Number of events from which the columnar engine is faster: the other one needs an object for each event."""

FEW: Final = 32_768
"""Number of events below which days are joined: engines are fastest with many at once."""

_HISTORY: Final = "history"
_EVENTS: Final = 4096
_order: Final = attrgetter("key")


class TaskResult(msgspec.Struct, frozen=True):
    """Events consumed and duplicates left out, composite events, seconds, and what could not be read."""

    consumed: int = 0
    repeated: int = 0
    found: int = 0
    seconds: float = 0.0
    troubles: tuple[Trouble, ...] = ()


_results: Final = msgspec.json.Decoder(TaskResult)


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """Partitions file ranges by the keys of groups: for each its number, names, types, key, and number of slots."""

    work: str
    units: tuple[FileRange, ...]
    groups: tuple[tuple[int, frozenset[str] | None, frozenset[str] | None, tuple[str, ...], int], ...]
    begin: int
    until: int

    @property
    def stage(self) -> int:
        """Tasks of a stage need those of all earlier ones."""
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
        folder = Path(self.work) / PARTITIONS
        for unit in self.units:
            done = folder / f"{unit.name}.json"
            if done.exists():
                continue
            found: list[Trouble] = []
            for number, names, types, by, slots in self.groups:
                if types is not None and unit.type not in types:
                    continue
                table = read(unit, names, self.begin, self.until, found)
                if table is not None and len(table):
                    consumed += len(table)
                    write_partitions(table, by, slots, folder / str(number) / f"{unit.name}.arrow")
            found = list(dict.fromkeys(found))
            leave(done, TaskResult(troubles=tuple(found)))
            troubles += found
        return TaskResult(consumed, seconds=clock() - started, troubles=tuple(troubles))


class _Detection:
    """Base of tasks that detect, with their result files."""

    __slots__ = ()

    work: str
    number: int

    @property
    def found(self) -> Path:
        """Path of its composite events that belong to the result."""
        return Path(self.work) / FOUND / f"{self.number}.found"

    @property
    def done(self) -> Path:
        """Path of its `TaskResult`."""
        return self.found.with_suffix(".json")

    def is_done(self) -> bool:
        """Whether it was done before."""
        return self.done.exists()


@dataclass(frozen=True, slots=True)
class DetectTask(_Detection):
    """Detects patterns in a slice of time, or in a slot of its partition.

    Attributes:
        number: of the task.
        group: of the patterns.
        names: in the patterns, whose columns are read; None for all, so that constituents are whole events.
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

    @property
    def stage(self) -> int:
        """Tasks of a stage need those of all earlier ones."""
        return 0 if self.slot is None else 1

    def perform(self, clock: Callable[[], float]) -> TaskResult:
        """Perform the task."""
        started = clock()
        counts, troubles, found = Counter[str](), list[Trouble](), 0
        with appearing(self.found) as part, part.open("wb") as file:
            days = self._days(troubles)
            for some in detect(self.patterns, days, self.wanted, engine=self.engine, events=self.rows, counts=counts):
                found += len(some)
                write_found(file, some, whole=self.names is None)
        done = TaskResult(counts["consumed"], counts["repeated"], found, clock() - started, tuple(troubles))
        leave(self.done, done)
        return done

    def _days(self, troubles: list[Trouble]) -> Iterator[Sequence[Any]]:
        """The tables of each day; of several days together where they are small."""
        tables: list[Any] = []
        for units in by_day(self.units):
            tables += _tables(units, lambda unit: self._table(unit, troubles))
            if sum(map(len, tables)) >= FEW:
                yield tables
                tables = []
        if tables:
            yield tables

    def _table(self, unit: FileRange, troubles: list[Trouble]) -> Any:
        if self.slot is None:
            return read(unit, self.names, self.wanted.begin, self.wanted.until, troubles)
        path = Path(self.work) / PARTITIONS / str(self.group) / f"{unit.name}.arrow"
        # Files that could not be read were reported when they were partitioned.
        if not path.exists():
            return None
        try:
            return read_partition(path, self.slot)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from None


@dataclass(frozen=True, slots=True)
class SubPatternTask(_Detection):
    """One detector of a cut graph.

    Attributes:
        number: of the task.
        stage: tasks of a stage need those of all earlier ones.
        names: in the patterns of the group, whose columns are read, since a part may use what another binds; None for
            all, so that constituents are whole events.
        derivations: whether others read it as part of a pattern.
        source: of its composite events where they belong to the result; else empty.
        writers: the detectors it reads, with the numbers of their tasks.
        days: ends of the days that all go through together, ns.
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

    @property
    def rows(self) -> int:
        """Number of events to read."""
        return sum(each.rows for each in self.units)

    def perform(self, clock: Callable[[], float]) -> TaskResult:
        """Perform the task."""
        started = clock()
        detector = Detector(self.plan.compiled, Guaranteed(), derivations=self.derivations)
        detector.join(_HISTORY, INSTANT_MIN, 0)
        inputs: dict[str, tuple[Iterator[Frame], Path]] = {}
        for writer, number in self.writers:
            detector.join(writer, INSTANT_MIN, 0)
            inputs[writer] = _frames(self._output(number)), self._output(number)
        troubles: list[Trouble] = []
        found: dict[EventId, CompositeEvent] = {}
        waiting = deque(by_day(self.units))
        consumed = repeated = 0
        with appearing(self._output(self.number)) as part, part.open("wb") as file:
            for end in self.days:
                units: list[FileRange] = []
                while waiting and period_of(waiting[0][0].day)[0] * DAY <= end:
                    units += waiting.popleft()
                batch = TableBatch(list(_tables(units, lambda unit: self._table(unit, troubles))))
                events = [batch.event(place) for place in range(len(batch))]
                consumed, repeated = consumed + len(events), repeated + batch.repeated
                detected = [detector.receive(_HISTORY, events, end, 0)]
                for writer, (frames, path) in inputs.items():
                    detected += _heard(detector, writer, frames, path, end)
                news = [event for each in detected for event in each.events]
                for event in news:
                    found.setdefault(event.id, event)
                self._write(file, news, end, detector.open_gaps() if self.derivations else ())
        answered = [each for each in found.values() if each.hi <= self.wanted.until] if self.source else []
        with appearing(self.found) as part, part.open("wb") as file:
            write_found(file, sorted(answered, key=_order), whole=self.names is None)
        done = TaskResult(consumed, repeated, len(answered), clock() - started, tuple(troubles))
        leave(self.done, done)
        return done

    def _output(self, number: int) -> Path:
        return Path(self.work) / OUTPUTS / f"{number}.frames"

    def _table(self, unit: FileRange, troubles: list[Trouble]) -> Any:
        return read(unit, self.names, self.wanted.begin, self.wanted.until, troubles)

    def _write(self, file: IO[bytes], events: Sequence[CompositeEvent], until: int, opens: Sequence[OpenGap]) -> None:
        """Write the composite events until an instant, for their readers."""
        output = self.plan.compiled.automaton.output
        name = self.plan.id if output is None else output.type_name or self.plan.id
        for first in range(0, len(events), _EVENTS):
            some = events[first : first + _EVENTS]
            write_block(file, encode(some, type=name, source=some[0].source, kind="c"))
        write_block(file, encode((), type=name, source=self.plan.id, watermark=until, kind="c", open=opens))


def _tables(units: Iterable[FileRange], read: Callable[[FileRange], Any]) -> Iterator[Any]:
    """Tables of file ranges that are not empty."""
    for unit in units:
        table = read(unit)
        if table is not None and len(table):
            yield table


def detect(
    patterns: Sequence[Compiled],
    days: Iterable[Sequence[Any]],
    wanted: Slice,
    *,
    engine: EngineName = "auto",
    events: int = 0,
    counts: Counter[str] | None = None,
) -> Iterator[list[CompositeEvent]]:
    """The composite events of a slice, in order, stretch by stretch.

    Each of `days` has the tables of a day or several, in the native form, in any order. The engine is chosen by the
    approximate number of `events`.
    """
    counts = Counter() if counts is None else counts
    if engine == "auto":
        engine = "columnar" if events >= PAYS_FROM and has_columnar() else "stepwise"
    made = make_engine(patterns, engine=chosen(engine, events))
    for tables in days:
        batch = TableBatch(tables)
        counts["repeated"] += batch.repeated
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
            counts["consumed"] += end - place
            yield _answered(found, wanted)
            place = end
    yield _answered(made.advance(wanted.until), wanted)


def _answered(found: list[CompositeEvent], wanted: Slice) -> list[CompositeEvent]:
    """The composite events the slice answers for, in order."""
    return sorted((each for each in found if wanted.after < each.hi <= wanted.until), key=_order)


def writers_of(graph: DetectorGraph, plan: DetectorPlan) -> tuple[str, ...]:
    """Detectors whose composite events one reads: its parts, and those that publish a type it names."""
    # Several patterns may publish one type.
    names = plan.compiled.names()
    outputs = ((each.id, each.compiled.automaton.output) for each in graph.plans.values() if each.id != plan.id)
    named = (identity for identity, output in outputs if output is not None and output.type_name in names)
    return tuple(dict.fromkeys((*plan.parts, *named)))


def stages_of(graph: DetectorGraph) -> dict[str, int]:
    """Stage of each detector: the length of the longest chain of detectors before it."""
    chains = nx.DiGraph()
    chains.add_nodes_from(graph.plans)
    chains.add_edges_from((writer, name) for name, plan in graph.plans.items() for writer in writers_of(graph, plan))
    return {name: stage for stage, names in enumerate(nx.topological_generations(chains)) for name in names}


def days_between(units: Iterable[FileRange], until: int) -> tuple[int, ...]:
    """The ends of the days with events, and the end of time, ns; merged days end together."""
    ends = {(max(period_of(each.day)[1] for each in group) + 1) * DAY - 1 for group in by_day(units)}
    return (*sorted(end for end in ends if end < until), until)


def _heard(detector: Detector, writer: str, frames: Iterator[Frame], path: Path, until: int) -> list[Detected]:
    """Feed a detector with the composite events of another one until an instant."""
    found = []
    for frame in frames:
        if frame.open and frame.watermark is not None:
            detector.hear_open(writer, frame.open, frame.watermark)
        found.append(detector.receive(writer, frame.events, frame.watermark, 0))
        if frame.watermark is not None and frame.watermark >= until:
            return found
    raise unreadable(path, EOFError("the end is missing"))


def _frames(path: Path) -> Iterator[Frame]:
    return (decode(each, where=str(path)) for each in blocks(path))


def leave(path: Path, done: TaskResult) -> None:
    """Write the note that a task is done."""
    with appearing(path) as part:
        part.write_bytes(msgspec.json.encode(done))


def left(path: Path) -> TaskResult | None:
    """The note of a task that is done; None where it is not."""
    try:
        return _results.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
