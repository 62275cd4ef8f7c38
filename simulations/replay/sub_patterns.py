"""Sub-patterns detected in parallel: the cut graph of a pattern as tasks, one for each detector, its readers after it.

Design, section 2: cut by the rule, a pattern means the same. The tasks are the detectors that broker nodes run,
derivations and all, under guaranteed detection; what travels between them is the wire format, in files. They go through
the days together: what a part has found until the end of a day is complete before its readers consume that day.
Derivations need the stepwise engine, so this pays only where the columnar one cannot run the pattern in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from distced.detectors.cutting.graph import DetectorGraph, DetectorPlan
from distced.detectors.runtime.detector import Detected, Detector
from distced.middleware.history.layout import day_number, day_of
from distced.middleware.model.events import CompositeEvent, Event, EventId, OpenGap, OrderKey
from distced.middleware.model.timestamps import DAY, INSTANT_MIN
from distced.middleware.wire.frames import Frame, decode, encode
from distced.policies.detection.guaranteed import Guaranteed
from distced.simulations.replay.batches import TableBatch
from distced.simulations.replay.file_ranges import FileRange, Trouble, appearing, days_of, read
from distced.simulations.replay.plan import Slice
from distced.simulations.replay.result_files import unreadable, write_found
from distced.simulations.replay.tasks import FOUND, TaskResult, leave

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
