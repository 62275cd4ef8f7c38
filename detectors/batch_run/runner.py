"""Runs of patterns over recorded events: a file, a table, or events in memory.

All patterns run together, so one may read what another publishes. The events that the patterns read are held in memory
and sorted into the order of consumption, because recordings are seldom in it. Time ends with the last event: a pending
time event does not fire, except on request.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from distced.detectors.batch_run.run_counts import RunCounts
from distced.detectors.batch_run.run_result import RunResult
from distced.detectors.compiler import Compiled, Consumption, types_read
from distced.detectors.pattern_files import PatternSource, compile_source, read_source
from distced.detectors.runtime.batch_engine import STEPWISE_STEP as STEP
from distced.detectors.runtime.batch_engine import BatchEngine
from distced.detectors.runtime.engines import EngineName, chosen
from distced.middleware.event_files import EventReader, events_of_table, read_events
from distced.middleware.event_files.reader import ReadingAgainError
from distced.middleware.event_files.rows import format_of
from distced.middleware.event_files.tables import ParquetRows, TableRows
from distced.middleware.mapping import Mapping, load_mapping
from distced.middleware.model.errors import DistcedError, EventError, PatternError
from distced.middleware.model.event_types import EventType, Kind, TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.patterns import Pattern, PatternFile, Publication, pattern_file

if TYPE_CHECKING:
    from distced.detectors.columnar.batch.columns import Batch
    from distced.middleware.event_files.kept_tables import Kept, KeptTables

TICK: Final = 2_000
"""Number of events read between two calls of the progress callback."""


class RunStep(NamedTuple):
    """Results of one stretch of the recording: number of events consumed so far, and the composite events in order."""

    consumed: int
    found: list[CompositeEvent]


class Replay(Iterable[CompositeEvent]):
    """A pass of patterns over recorded events. Iteration gives the composite events in order.

    Attributes:
        events: those given that some pattern reads, in the order of consumption; none of those that a reader reads.
        counts: the counts of the recording so far.
        last: the `hi` of its last event, ns.
        on_switch: called before the columnar engine takes over from the stepwise one.
    """

    def __init__(
        self,
        patterns: Sequence[Compiled],
        source: Iterable[Event],
        *,
        finish: bool = False,
        engine: EngineName = "auto",
        whole: bool = True,
    ) -> None:
        """Pass over events, or over what a reader reads, as columns where pyarrow is there.

        Args:
            engine: the engine to use; by default the one that is expected to be faster.
            finish: advance time after the last event until every time event has fired.
            whole: read all attributes, so that constituents are whole events; else those that the patterns read.
        """
        # Equal patterns give the same composite events, which are found once.
        self.patterns = tuple({each.canonical_id: each for each in patterns}.values())
        self.events: list[Event] = []
        self.counts = RunCounts(0, 0, 0, 0, Counter())
        self.last = INSTANT_MIN
        self._source = source
        self._finish = finish
        self._engine = engine
        self.on_switch: Callable[[], None] = lambda: None
        chosen(engine, 0)
        self._whole = whole
        self._read = False
        self._kept: KeptTables | None = None

    def read(self, watch: Callable[[int], None] = lambda _: None) -> None:
        """Read and sort the events, once. `watch` is called periodically with the number read."""
        if self._read:
            return
        self._read = True
        reader = self._reader
        if reader is not None:
            # What is in the order of consumption is read while it is consumed.
            if not reader.in_order:
                self._read_tables(reader, watch)
            return
        wanted = types_read(self.patterns)
        counts, seen, kept = self.counts, set(), self.events
        for number, event in enumerate(self._source, 1):
            if not isinstance(event, Event):
                raise EventError(
                    "not an event", given=repr(event), allowed="events, such as Event(...)", where=f"item {number}",
                    advice="rows are read from a table, or from a file with a mapping",
                )  # fmt: skip
            if event.id in seen:
                counts.repeated += 1
                continue
            seen.add(event.id)
            counts.events += 1
            if event.hi < self.last:
                counts.disordered += 1
            else:
                self.last = event.hi
            if wanted is None or event.type in wanted:
                kept.append(event)
            if counts.events % TICK == 0:
                watch(counts.events)
        counts.consumed = len(kept)
        kept.sort(key=_order)
        watch(counts.events)

    @property
    def expected(self) -> int:
        """Number of events to be consumed, as far as known."""
        reader = self._reader
        if reader is not None and reader.in_order:
            return reader.expected(types_read(self.patterns))
        return self.counts.consumed

    def steps(self) -> Iterator[RunStep]:
        """The composite events, stretch by stretch of the recording."""
        self.read()
        events = self.expected
        self.counts.found.clear()
        engine = BatchEngine(self.patterns, self._engine, events)
        engine.on_switch = lambda: self.on_switch()
        consumed = 0
        for batch, until in self._batches(engine):
            consumed += len(batch)
            yield self._step(consumed, engine.consume(batch, until, events - consumed))
        found = engine.advance(self.last)
        self.counts.running = engine.next_due() is not None
        if self._finish:
            found += engine.finish()
        yield self._step(consumed, found)

    @property
    def _reader(self) -> EventReader | None:
        """The reader of what is read as tables; None for events."""
        source = self._source
        return source if isinstance(source, EventReader) and source.has_columns else None

    def _batches(self, engine: BatchEngine) -> Iterator[tuple[Sequence[Event] | Batch, int]]:
        """Events to be consumed at once, and the instant of the last."""
        events, start = self.events, 0
        reader = self._reader
        if reader is not None:
            from distced.detectors.batch_run.table_run import batches_of

            yield from batches_of(self._stretches(reader), reader.attributes, engine)
            return
        while start < len(events):
            end = min(start + STEP, len(events))
            # An instant is not torn apart, so that what is found does not depend on where stretches end.
            while end < len(events) and events[end].hi == events[end - 1].hi:
                end += 1
            yield events[start:end], events[end - 1].hi
            start = end

    def _stretches(self, reader: EventReader) -> Iterator[list[Any]]:
        from distced.detectors.batch_run.table_run import TableReading, stretches

        if not reader.in_order:
            yield from stretches([] if self._kept is None else self._kept.tables)
            return
        self.counts = RunCounts(0, 0, 0, 0, self.counts.found)
        reading = TableReading(self.counts, types_read(self.patterns))
        for chunk in reader.chunks(self._attributes()):
            kept = reading.take(chunk)
            self.last = reading.last
            if kept:
                yield [each.table for each in kept]

    def _read_tables(self, reader: EventReader, watch: Callable[[int], None]) -> None:
        from distced.detectors.batch_run.table_run import TableReading
        from distced.middleware.event_files.kept_tables import KeptTables

        while True:
            self.counts = RunCounts(0, 0, 0, 0, Counter())
            kept = self._kept = KeptTables()
            reading = TableReading(self.counts, types_read(self.patterns))
            try:
                for chunk in reader.chunks(self._attributes()):
                    for each in reading.take(chunk):
                        _keep(kept, each)
                    watch(self.counts.events)
            except ReadingAgainError:
                continue
            self.last = reading.last
            return

    def _attributes(self) -> frozenset[str] | None:
        """Names of the attributes to be read; None for all."""
        from distced.detectors.batch_run.table_run import names_in

        return None if self._whole else names_in(self.patterns)

    def __iter__(self) -> Iterator[CompositeEvent]:
        for step in self.steps():
            yield from step.found

    def _step(self, consumed: int, found: list[CompositeEvent]) -> RunStep:
        found.sort(key=_order)
        places = {each.canonical_id: place for place, each in enumerate(self.patterns)}
        self.counts.found.update(places[each.source] for each in found)
        return RunStep(consumed, found)


def _keep(tables: KeptTables, each: Kept) -> None:
    try:
        tables.add(each)
    except OSError as error:
        advice = "make room there, or name another folder in TMPDIR"
        raise EventError("events cannot be kept in a temporary folder", given=str(error), advice=advice) from error


Source: TypeAlias = object
"""A path, events, or a table of pandas, polars or Arrow."""


def run(
    pattern: object,
    source: Source,
    mapping: Mapping | Path | str | None = None,
    *,
    types: Iterable[EventType] | None = None,
    consumption: Consumption = "ordered",
    finish: bool = False,
    engine: EngineName = "auto",
    language: str = "",
) -> RunResult:
    """The composite events of patterns in recorded events, in order of detection.

    Args:
        pattern: pattern text, the path of a pattern file, a pattern of `middleware.patterns`, or compiled patterns.
        source: the path of a recording or of an event history, a table of pandas, polars or Arrow, or events.
        mapping: how rows become events, or the path of a mapping; without it they are in the native form.
        types: event types to check the patterns against. Without them those of the mapping are taken, or those a
            Parquet file or a table notes; where there are none either, types and attributes are taken as they stand.
        consumption: events `"ordered"`, one by one, or those of one instant together, `"epoch"`; not for what is
            compiled already.
        finish: let time go on after the last event, until every time event has fired.
        engine: `"stepwise"` or `"columnar"`, with equal results; by default the columnar one for many events.
        language: of pattern text, such as `"cel"`; by default the core language, and for a file that of its ending.

    The result is a list; `to_pandas`, `to_polars` and `to_arrow` make a table of it. Rows that give no event are
    rejected: a warning says how many, and `rejected` of the result holds them with their reasons.
    """
    prepared, reader = replay(
        pattern, source, mapping, types=types, consumption=consumption, finish=finish, engine=engine, language=language
    )
    found = list(prepared)
    if reader is None:
        return RunResult(found, prepared.counts)
    rows, rejected = reader.counts["row"], reader.counts["rejected"]
    if rejected:
        first = reader.rejected[0].error
        text = f"{rejected:,} of {rows:,} rows rejected, the first: {first}; see `rejected` of the result"
        warnings.warn(text, stacklevel=2)
    return RunResult(found, prepared.counts, rows, rejected, reader.rejected)


def replay(
    pattern: object,
    source: Source,
    mapping: Mapping | Path | str | None = None,
    *,
    types: Iterable[EventType] | None = None,
    consumption: Consumption = "ordered",
    finish: bool = False,
    engine: EngineName = "auto",
    language: str = "",
) -> tuple[Replay, EventReader | None]:
    """A prepared `run`, with the reader that keeps rejected rows; None for the reader where events were given."""
    if isinstance(mapping, str | Path):
        mapping = load_mapping(mapping)
    declared = declared_types(source, mapping) if types is None else tuple(types)
    registry = None if declared is None else TypeRegistry(declared)
    if registry is None and isinstance(pattern, str | Path) and read_source(pattern, language).needs_types:
        registry = found_types(source)
    patterns = compiled_patterns(pattern, registry, consumption, language)
    events = read(source, mapping)
    reader = events if isinstance(events, EventReader) else None
    return Replay(patterns, events, finish=finish, engine=engine), reader


def read(source: Source, mapping: Mapping | None = None) -> Iterable[Event]:
    """The events of a path, a table, or an iterable of events."""
    if isinstance(source, str | Path):
        return reader_of(Path(source), mapping)
    if hasattr(source, "__arrow_c_stream__"):
        return events_of_table(source, mapping)
    if mapping is not None:
        raise EventError("a mapping for events", advice="mappings are for files and tables; events are events already")
    if isinstance(source, Iterable):
        events: Iterable[Event] = source
        return events
    raise EventError(
        "nothing to read events from",
        given=type(source).__name__,
        allowed="a path, events, or a table of pandas, polars or Arrow",
    )


def reader_of(path: Path, mapping: Mapping | None = None) -> EventReader:
    """The events of a recording, or of the folder of an event history."""
    if not path.is_dir():
        return read_events(path, mapping)
    if mapping is not None:
        raise EventError(
            "a mapping for an event history", advice="leave it out: what is in a history are events already"
        )
    from distced.middleware.history.history import History, HistoryReader

    return HistoryReader(History(path))


def declared_types(source: Source, mapping: Mapping | None = None) -> tuple[EventType, ...] | None:
    """The event types declared by a mapping or stored in a Parquet file or table; None without a declaration."""
    if mapping is not None:
        return mapping.types
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_dir():
            return None
        noted = ParquetRows(path).types() if format_of(path) == "parquet" else None
    elif hasattr(source, "__arrow_c_stream__"):
        noted = TableRows(source, "table").types()
    else:
        noted = None
    return None if noted is None else tuple(noted)


def found_types(source: Source) -> TypeRegistry | None:
    """Event types that are found in a recording without declarations, beside which others may be; None for events that
    can be read once only."""
    if isinstance(source, str | Path):
        return TypeRegistry(reader_of(Path(source)).types, open=True)
    if not isinstance(source, list | tuple):
        return None
    kinds: dict[str, dict[str, Kind]] = {}
    for event in source:
        if not isinstance(event, Event):
            return None
        attributes = kinds.setdefault(event.type, {})
        for name, value in event.attributes.items():
            kind: Kind = "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
            attributes[name] = attributes.get(name, kind) if value is None else kind
    return TypeRegistry([EventType(name, attributes) for name, attributes in kinds.items()], open=True)


def misfits(
    source: PatternSource, types: Iterable[EventType], consumption: Consumption = "ordered"
) -> DistcedError | None:
    """Errors of patterns against event types found in a recording (an absent attribute is no mistake); None without an
    error."""
    try:
        compile_source(source, TypeRegistry(types), consumption=consumption)
    except DistcedError as error:
        return error
    return None


def compiled_patterns(
    pattern: object, registry: TypeRegistry | None, consumption: Consumption = "ordered", language: str = ""
) -> tuple[Compiled, ...]:
    """The compiled patterns of any form that `run` accepts; texts in a language of this name."""
    if isinstance(pattern, Compiled):
        return (pattern,)
    if isinstance(pattern, list | tuple):
        return tuple(each for given in pattern for each in compiled_patterns(given, registry, consumption, language))
    if isinstance(pattern, Pattern | Publication):
        pattern = pattern_file(pattern)
    if isinstance(pattern, PatternFile):
        source = PatternSource(str(pattern), "patterns")
    elif isinstance(pattern, str | Path):
        source = read_source(pattern, language)
    else:
        raise PatternError(
            "not a pattern",
            given=type(pattern).__name__,
            allowed="pattern text, the path of a pattern file, a pattern of `distced.event`, compiled patterns",
        )
    return compile_source(source, registry, consumption=consumption).compiled


def _order(event: Event) -> tuple[int, int, int, str, int]:
    return event.key
