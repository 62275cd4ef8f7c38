"""Drill-down over recordings and histories, which are read once for each level and not kept.

Kept are the event asked for and its constituents alone: the first pass finds it by its id, each further one the
constituents of composite events found before. Of a history only row groups within their time are read; where something
is missing there, all of it is, as constituents in a file written by hand may be outside of that time. Composite events
that patterns find come with their constituents. Rejected: an index of all ids, which grows with the recording, and one
on disk, which takes longer than the few passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from distced.detectors.batch_run.drill_down import DrillDown, drill_down
from distced.detectors.batch_run.runner import Replay
from distced.detectors.compiler import Compiled
from distced.middleware.event_files import EventReader, events_of_table
from distced.middleware.event_files.rows import Rows
from distced.middleware.model.events import CompositeEvent, Event, EventId

if TYPE_CHECKING:
    from distced.middleware.event_files.event_chunks import EventChunk

_BLOCK: Final = 8_192  # events that become tables at once


class RecordedEvents:
    """Events of recordings, and those that patterns find in them, read again for each question."""

    def __init__(self, readers: Sequence[EventReader], patterns: Sequence[Compiled] = ()) -> None:
        self.readers = readers
        self._patterns = frozenset(each.canonical_id for each in patterns)
        source = readers[0] if len(readers) == 1 else _Recordings(readers)
        self._replay = Replay(patterns, source) if patterns else ()

    def __len__(self) -> int:
        """Number of events in the recordings, as the last pass read them."""
        return sum(each.counts["event"] for each in self.readers)

    def composites(self) -> Iterator[CompositeEvent]:
        """The composite events: recorded ones, then those that the patterns find."""
        for each in chain(*(_of_reader(each, None) for each in self.readers), self._replay):
            if isinstance(each, CompositeEvent):
                yield each

    def fitting(self, fits: Callable[[EventId], bool]) -> Iterator[Event]:
        """Events whose ids fit, in the same order."""
        yield from chain.from_iterable(_of_reader(each, fits) for each in self.readers)
        yield from (each for each in self._replay if fits(each.id))

    def drill_down(self, root: Event) -> DrillDown:
        """Drill-down of one of the events."""
        events: dict[EventId, Event] = {}
        _add(events, root)
        gone: set[EventId] = set()
        is_narrow = any(each.in_order for each in self.readers)  # histories, which have an index
        while True:
            found = drill_down(root.id, events)
            if wanted := set(found.missing) - gone:
                gone |= wanted
                for each in self._wanted(wanted, found if is_narrow else None):
                    _add(events, each)
                    if isinstance(each, CompositeEvent):
                        wanted |= set(each.constituents)
                gone -= events.keys()
            elif gone and is_narrow:
                is_narrow, gone = False, set()
            else:
                return found

    def _wanted(self, wanted: set[EventId], within: DrillDown | None) -> Iterator[Event]:
        """Events of these ids; of histories those within the time of a drill-down."""
        readers = self.readers
        if within is not None:
            span = (min(each.lo for each in within.events.values()), max(each.hi for each in within.events.values()))
            readers = [each.between(*span) for each in readers]
        for each in readers:
            yield from _of_reader(each, wanted.__contains__)
        if any(source in self._patterns for source, _ in wanted):
            yield from (each for each in self._replay if each.id in wanted)


def _add(events: dict[EventId, Event], event: Event) -> None:
    """Add an event, and those that come with it."""
    pending = [event]
    while pending:
        each = pending.pop()
        events.setdefault(each.id, each)
        if isinstance(each, CompositeEvent):
            pending += each.events


def _of_reader(reader: EventReader, fits: Callable[[EventId], bool] | None) -> Iterator[Event]:
    """Events of a recording whose ids fit, in its order; the composite ones for None."""
    if reader.has_exact_tables:
        for chunk in reader.chunks():
            yield from _of_chunk(chunk, fits)
        return
    for each in reader:
        if isinstance(each, CompositeEvent) if fits is None else fits(each.id):
            yield each


def _of_chunk(chunk: EventChunk, fits: Callable[[EventId], bool] | None) -> Iterator[Event]:
    found: list[tuple[int, Event]] = []
    begin = 0
    for table in chunk.tables:
        places = chunk.places[begin : begin + len(table)]
        begin += len(table)
        if fits is not None:
            ids = zip(table["source"].to_pylist(), map(int, table["seq"].to_pylist()), strict=True)
            rows = [row for row, each in enumerate(ids) if fits(each)]
        elif "constituents" in table.schema.names:
            rows = [row for row, each in enumerate(table["constituents"].is_valid().to_pylist()) if each]
        else:
            continue
        if rows:
            found += zip(places[rows].tolist(), events_of_table(table.take(rows)), strict=True)
    yield from map(itemgetter(1), sorted(found, key=itemgetter(0)))


class _Recordings(EventReader):
    """Several recordings as one, for patterns that run over all of them."""

    has_columns = find_spec("pyarrow") is not None

    def __init__(self, readers: Sequence[EventReader]) -> None:
        super().__init__(Rows("recordings"), None)
        self._readers = readers

    def __iter__(self) -> Iterator[Event]:
        return chain.from_iterable(self._readers)

    def chunks(self, attributes: frozenset[str] | None = None) -> Iterator[EventChunk]:
        from distced.middleware.event_files.event_chunks import chunk_of

        for each in self._readers:
            if each.has_exact_tables:
                yield from each.chunks()
                continue
            events = iter(each)
            while some := list(islice(events, _BLOCK)):
                yield chunk_of(some)
