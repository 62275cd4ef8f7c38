"""Replay of patterns over a history: planned, performed, merged."""

from __future__ import annotations

import fcntl
import heapq
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from distced.detectors.batch_run.table_run import names_in
from distced.detectors.compiler import Compiled, types_read
from distced.detectors.cutting.cut import DetectorGraph
from distced.detectors.runtime.engines import EngineName
from distced.middleware.history.history import History
from distced.middleware.history.history_file import Problem
from distced.middleware.history.row_check import check_rows
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, EventId
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.simulations.replay.file_ranges import UNIT, FileRange, Trouble, units_of
from distced.simulations.replay.pattern_properties import may_lack_constituents, reach_of
from distced.simulations.replay.plan import LEAST, CutWay, GroupPlan, ReplayPlan, Slice, plan_of
from distced.simulations.replay.result_files import read_found
from distced.simulations.replay.runners import Runner
from distced.simulations.replay.tasks import (
    FOUND,
    OUTPUTS,
    PARTITIONS,
    DetectTask,
    PartitionTask,
    SubPatternTask,
    TaskResult,
    days_between,
    left,
    stages_of,
    writers_of,
)

PLAN: Final = "plan.json"
LOCK: Final = "lock"
_order: Final = attrgetter("key")


class ReplayProgress(NamedTuple):
    """Progress of a replay: events partitioned and detected, of those to be."""

    partitioned: int
    to_partition: int
    detected: int
    to_detect: int


class HistoryReplay(Iterable[CompositeEvent]):
    """A replay of patterns over a history. Iterating over it yields each composite event once, in order.

    They are those of guaranteed detection with a subscription at the beginning, up to the watermark.

    Attributes:
        problems: parts of the history that could not be read, and other remarks.
        rejected: number of rows that are left out, because they are no events.
        gaps, losses: intervals in which recorders received nothing, and in which events are missing for good.
        resumed: number of tasks done before.
        found: numbers of composite events by index of the pattern; complete after an iteration.
    """

    def __init__(
        self,
        patterns: Sequence[Compiled],
        history: History,
        work: Path,
        *,
        cores: int,
        begin: int | None = None,
        until: int | None = None,
        by: str | None = None,
        way: CutWay | None = None,
        engine: EngineName = "auto",
        least: int = LEAST,
        with_events: bool = False,
    ) -> None:
        """Plan a replay, in a folder where it resumes an interrupted one.

        Args:
            begin, until: of the `hi` of events, ns, both included. Time ends at the last event or the watermark.
            cores, by, way, engine, least: as in `plan_of` and `make_engine`.
            with_events: read all columns, so that composite events have their constituents as events.
        """
        self.patterns = tuple({each.canonical_id: each for each in patterns}.values())
        self.history = history
        # Workers need not stand in the same folder.
        self.work = work.absolute()
        changes = history.changes()
        self.problems = [*history.problems, *changes]
        self._changes = len(changes)
        self.found: Counter[int] = Counter()
        self.resumed = 0
        self._lock: IO[bytes] | None = None
        types = types_read(self.patterns)
        self._begin, self._until = span_of_replay(self.patterns, history, begin, until)
        self.gaps, self.losses = history.missing(types, self._begin, self._until)
        files = history.select(types, self._begin, self._until)
        self.plan: ReplayPlan = plan_of(
            self.patterns, files, cores=cores, begin=self._begin, until=self._until, by=by, way=way, least=least
        )
        check = check_rows(files, history.files)
        self.problems += [each.problem(history.root) for each in check.rejected]
        self.rejected = len(check)
        self._units = {str(file.path): units_of(file, check.rows.get(file.path)) for file in files}
        self._files = files
        self._engine = engine
        self._with_events = with_events
        self.partitioning = self._partition_tasks(cores)
        self.detecting = self._detecting()

    def perform(self, runner: Runner, watch: Callable[[ReplayProgress], None] = lambda _: None) -> None:
        """Perform all tasks that are not done yet."""
        self._hold()
        try:
            self._prepare()
            self._perform(runner, lambda: watch(ReplayProgress(*_rows(self.partitioning), *_rows(self.detecting))))
        except BaseException:
            self._release()
            raise
        self.problems += [_problem(each) for each in self._troubles()]

    def _perform(self, runner: Runner, look: Callable[[], None]) -> None:
        todo: list[PartitionTask | DetectTask | SubPatternTask] = [
            each for each in self.detecting if not each.is_done()
        ]
        if any(isinstance(each, DetectTask) and each.slot is not None for each in todo):
            # Partitions without a task that reads them are not made.
            todo += [each for each in self.partitioning if not each.is_done()]
        self.resumed = sum(each.is_done() for each in (*self.partitioning, *self.detecting))
        look()
        for stage in sorted({each.stage for each in todo}):
            runner.perform([each for each in todo if each.stage == stage], look)
        look()

    @property
    def is_incomplete(self) -> bool:
        """Whether parts of the history could not be read, or rows were rejected."""
        return len(self.problems) > self._changes

    @property
    def counts(self) -> TaskResult:
        """Counts of all tasks together."""
        done = [self._done_of(each) for each in self.detecting]
        names = ("consumed", "repeated", "found", "seconds")
        return TaskResult(**{name: sum(getattr(each, name) for each in done) for name in names})

    def __iter__(self) -> Iterator[CompositeEvent]:
        places = {each.canonical_id: place for place, each in enumerate(self.patterns)}
        self.found.clear()
        groups = []
        for number, group in enumerate(self.plan.groups):
            asked = [each for each in self.detecting if isinstance(each, DetectTask) or each.source]
            files = [read_found(each.found, self._done_of(each).found) for each in asked if each.group == number]
            merged: Iterator[CompositeEvent] = heapq.merge(*files, key=_order)
            patterns = [self.patterns[place] for place in group.patterns]
            if len(group.slices) > 1 or any(may_lack_constituents(each.plain) for each in patterns):
                merged = _once(merged, reach_of(patterns) or 0)
            groups.append(merged)
        for event in heapq.merge(*groups, key=_order):
            self.found[places[event.source]] += 1
            yield event

    def clear(self) -> None:
        """Remove the folder of work in progress."""
        shutil.rmtree(self.work, ignore_errors=True)
        self._release()

    def _hold(self) -> None:
        """Lock the folder until the replay is cleared or broken off."""
        self._release()
        self.work.mkdir(parents=True, exist_ok=True)
        self._lock = (self.work / LOCK).open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            advice = "wait for it, or give this one another --out"
            raise DistcedError("another replay runs in this folder", given=str(self.work), advice=advice) from None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _names(self, group: GroupPlan) -> frozenset[str] | None:
        """Names in the patterns of a group, whose columns are read; None for all."""
        return None if self._with_events else names_in([self.patterns[place] for place in group.patterns])

    def _partition_tasks(self, cores: int) -> list[PartitionTask]:
        """Tasks that partition events for groups with a key; neighbours in time together."""
        groups = tuple(
            (number, self._names(group), group.types, group.by, group.slots)
            for number, group in enumerate(self.plan.groups)
            if group.way == "key"
        )
        units = [
            unit
            for file in self._files
            if any(types is None or file.type in types for _, _, types, _, _ in groups)
            for unit in self._units[str(file.path)]
        ]
        target = max(UNIT // 4, sum(each.rows for each in units) // (4 * cores))
        made: list[PartitionTask] = []
        waiting: list[FileRange] = []
        for place, unit in enumerate(units):
            waiting.append(unit)
            if sum(each.rows for each in waiting) >= target or place == len(units) - 1:
                made.append(PartitionTask(str(self.work), tuple(waiting), groups, self._begin, self._until))
                waiting = []
        return made

    def _detecting(self) -> list[DetectTask | SubPatternTask]:
        made: list[DetectTask | SubPatternTask] = []
        for number, group in enumerate(self.plan.groups):
            patterns = tuple(self.patterns[place] for place in group.patterns)
            files = [each for each in self._files if group.types is None or each.type in group.types]
            if group.graph is not None:
                made += self._parts(number, self._names(group), group.graph, group.slices[0], len(made))
                continue
            for wanted in group.slices:
                mine = [each for each in files if each.note.last >= wanted.begin and each.note.first <= wanted.until]
                units = tuple(unit for file in mine for unit in self._units[str(file.path)])
                rows = group.events // group.tasks
                for slot in range(group.slots):
                    partition = slot if group.way == "key" else None
                    work, names = str(self.work), self._names(group)
                    task = DetectTask(
                        work, len(made), number, patterns, names, units, wanted, partition, self._engine, rows
                    )
                    made.append(task)
        return made

    def _parts(
        self, group: int, names: frozenset[str] | None, graph: DetectorGraph, wanted: Slice, first: int
    ) -> list[SubPatternTask]:
        """A task for each detector of a graph."""
        stages = stages_of(graph)
        numbers = {identity: first + place for place, identity in enumerate(graph.plans)}
        everything = [unit for file in self._files for unit in self._units[str(file.path)]]
        days = days_between(everything, self._until)
        made = []
        for identity, plan in graph.plans.items():
            types = plan.compiled.automaton.type_names()
            units = tuple(each for each in everything if types is None or each.type in types)
            writers = tuple((each, numbers[each]) for each in writers_of(graph, plan))
            made.append(
                SubPatternTask(
                    work=str(self.work),
                    number=numbers[identity],
                    group=group,
                    stage=stages[identity],
                    names=names,
                    plan=plan,
                    derivations=graph.derivations(identity),
                    source=identity if identity in graph.roots else "",
                    writers=writers,
                    units=units,
                    days=days,
                    wanted=wanted,
                )
            )
        return made

    def _prepare(self) -> None:
        """Make the folder, or check that it is of the same replay."""
        made = msgspec.json.encode(
            {
                "patterns": [each.canonical_id for each in self.patterns],
                "texts": [each.text for each in self.patterns],
                "groups": [(each.patterns, each.way, each.by, each.slots, each.slices) for each in self.plan.groups],
                "with_events": self._with_events,
                "files": blake2b(
                    msgspec.json.encode([(each.bytes, self._units[str(each.path)]) for each in self._files])
                ).hexdigest(),
            }
        )
        path = self.work / PLAN
        if path.exists() and path.read_bytes() != made:
            raise DistcedError(
                "an interrupted replay of something else is here", given=str(self.work),
                advice="remove the folder, or give the same patterns, history and options to resume it",
            )  # fmt: skip
        for part in self.work.glob("**/.*.part"):
            part.unlink(missing_ok=True)
        for folder in (
            FOUND,
            PARTITIONS,
            OUTPUTS,
            *(f"{PARTITIONS}/{number}" for number in range(len(self.plan.groups))),
        ):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        path.write_bytes(made)

    def _done_of(self, task: DetectTask | SubPatternTask) -> TaskResult:
        return left(task.done) or TaskResult()

    def _troubles(self) -> list[Trouble]:
        notes = [self._done_of(each) for each in self.detecting]
        for task in self.partitioning:
            notes += [left(self.work / PARTITIONS / f"{unit.name}.json") or TaskResult() for unit in task.units]
        return list(dict.fromkeys(trouble for each in notes for trouble in each.troubles))


def span_of_replay(
    patterns: Sequence[Compiled], history: History, begin: int | None, until: int | None
) -> tuple[int, int]:
    """First and last instant of a replay between bounds: time ends at the last event or the watermark."""
    end = history.until(types_read(patterns))
    last = INSTANT_MIN if end is None else end
    return INSTANT_MIN if begin is None else begin, last if until is None else min(until, last)


def _rows(tasks: Sequence[PartitionTask | DetectTask | SubPatternTask]) -> tuple[int, int]:
    """Number of events of finished tasks, and of all."""
    return sum(each.rows for each in tasks if each.is_done()), sum(each.rows for each in tasks)


def _problem(trouble: Trouble) -> Problem:
    advice = f"{trouble.rows:,} events left out"
    error = DistcedError("a file that cannot be read", given=trouble.error, where=trouble.where, advice=advice)
    return Problem(trouble.where, error, trouble.rows)


def _once(events: Iterable[CompositeEvent], reach: int) -> Iterator[CompositeEvent]:
    """Each composite event once, the first of them: slices may detect what the ones before have detected.

    One whose constituents are all hidden may repeat at any distance, with any key.
    """
    seen: set[EventId] = set()
    waiting: deque[tuple[int, EventId]] = deque()
    for event in events:
        while waiting and event.hi - waiting[0][0] > reach:
            seen.discard(waiting.popleft()[1])
        if event.id in seen:
            continue
        seen.add(event.id)
        if event.constituents:
            waiting.append((event.hi, event.id))
        yield event
