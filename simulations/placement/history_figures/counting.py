"""Counts of a history: events of each stream, and the work of every detector that patterns may be made of.

Each detector runs on an engine of its own, over events and composite events of its parts, so that counts are those of
live engines, and nothing is estimated. Composite events do not depend on the cut (design, section 2); of a detector
with parts only touched instances are counted.

The engine is stepwise by default. The columnar one detects the same and finds instances by their values: it touches
fewer where there are guards, as many where it derives composite events too, so that loads of parts and wholes would not
compare.

A `Counting` takes events in the order of consumption: all days in a row, or one day after an uncounted *lead* for
matches that began before midnight. Days counted apart miss matches longer than the lead (`days`). Counts of stretches
add up, in any order, and are small to send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import attrgetter
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from distced.detectors.cutting.cut import DetectorPlan
from distced.detectors.runtime.engines import EngineName, Kinds, make_engine
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.frames import encode
from distced.middleware.wire.topics import event_topic
from distced.simulations.placement.history_figures.heartbeat_rates import heartbeat_counts, promises_of, steps
from distced.simulations.placement.optimum.search_space import SearchSpace


class StreamCount(msgspec.Struct):
    """Events of one type from one source, and the bytes of their frames, one event in each, with topics."""

    events: int = 0
    bytes: int = 0


class DetectorCount(msgspec.Struct):
    """Composite events and work of a detector.

    Attributes:
        plain: bytes of composite events in frames, without the fixed bytes of a frame.
        part: the same for readers of the part: with derivations and constituents, repeated for further derivations.
        touched: pairs of an instance and an event that were tried, by the parts that it reads (`parts_key`).
        listened: ns for which its messages were counted: `loud` ones to detectors, `quiet` ones to applications.
    """

    found: int = 0
    plain: int = 0
    part: int = 0
    touched: dict[str, int] = {}
    listened: int = 0
    loud: int = 0
    quiet: int = 0


class HistoryCounts(msgspec.Struct):
    """Counts of a stretch of `duration` ns: events, streams by type and source, detectors by id."""

    duration: int = 0
    events: int = 0
    streams: dict[str, dict[str, StreamCount]] = {}
    detectors: dict[str, DetectorCount] = {}

    @property
    def seconds(self) -> float:
        """Length of the stretch, s."""
        return self.duration / SECOND

    def stream(self, type_name: str, source: str) -> StreamCount:
        """Mutable count of a stream."""
        return self.streams.setdefault(type_name, {}).setdefault(source, StreamCount())

    def detector(self, name: str) -> DetectorCount:
        """Mutable count of a detector."""
        return self.detectors.setdefault(name, DetectorCount())

    def selectivity(self, name: str, types: Iterable[str]) -> float:
        """Composite events of a detector for each event of these types; 0 where there were none."""
        read = sum(each.events for type_name in types for each in self.streams.get(type_name, {}).values())
        return self.detectors[name].found / read if read and name in self.detectors else 0.0


def add(one: HistoryCounts, other: HistoryCounts) -> HistoryCounts:
    """Sum of the counts of two stretches."""
    total = HistoryCounts(one.duration + other.duration, one.events + other.events)
    for counts in (one, other):
        for type_name, sources in counts.streams.items():
            for source, each in sources.items():
                known = total.stream(type_name, source)
                known.events += each.events
                known.bytes += each.bytes
        for detector, count in counts.detectors.items():
            mine = total.detector(detector)
            for name in ("found", "plain", "part", "listened", "loud", "quiet"):
                setattr(mine, name, getattr(mine, name) + getattr(count, name))
            for key, touched in count.touched.items():
                mine.touched[key] = mine.touched.get(key, 0) + touched
    return total


def total(counts: Iterable[HistoryCounts]) -> HistoryCounts:
    """Sum of the counts of all stretches."""
    return reduce(add, counts, HistoryCounts())


TICK = 5_000
"""Approximate number of events consumed at once."""

NUMBER: Final = 2**50
"""Number of a message of the present, as long as any."""


@dataclass(slots=True)
class _Run:
    """A detector running in one of its ways, the ids of its composite events, and the `hi` of those that count."""

    key: str
    plan: DetectorPlan
    engine: Any
    reads: frozenset[str] | None
    touched: int = 0
    seen: set[EventId] = field(default_factory=set)
    found: list[int] = field(default_factory=list)


class Counting:
    """Counts of stretches of a history, one after the other.

    `found` has, by detector, the `hi` of its composite events in the last stretch, ns, sorted.
    """

    def __init__(
        self, space: SearchSpace, sources: Mapping[str, Sequence[str]], kinds: Kinds = lambda _: None,
        *, engine: EngineName = "stepwise",
    ) -> None:  # fmt: skip
        """`sources` has the types that each source publishes, `kinds` those of the attributes of a type."""
        self.space = space
        self.sources = sources
        self.counts = HistoryCounts()
        self.found: dict[str, list[int]] = {}
        self._parts = space.parts
        self._runs = [
            _Run(key, plan, make_engine([plan.compiled], kinds, engine=engine, derivations=not key and name in
            self._parts),
                 plan.compiled.automaton.type_names())
            for name in space.ordered()
            for key, plan in sorted(space.alternatives[name].items())
        ]  # fmt: skip

    def take(self, events: Sequence[Event], begin: int, end: int, *, counted: bool = True) -> None:
        """Consume a stretch, all events with `begin < hi <= end`, in order of consumption; a lead is not `counted`."""
        for run in self._runs:
            run.touched = run.engine.touched
            run.found = []
        place = 0
        while place < len(events) or not place:
            stop = min(place + TICK, len(events))
            # Events of one instant stay together.
            while 0 < stop < len(events) and events[stop].hi == events[stop - 1].hi:
                stop += 1
            self._step(events[place:stop], end if stop >= len(events) else events[stop - 1].hi, counted)
            place = max(stop, 1)
        if not counted:
            return
        self.found = {}
        for run in self._runs:
            count = self.counts.detector(run.plan.id)
            count.touched[run.key] = count.touched.get(run.key, 0) + run.engine.touched - run.touched
            if not run.key:
                self.found[run.plan.id] = sorted(run.found)
        self._count_streams(events)
        self._count_published(events, begin, end)
        self.counts.duration += end - begin
        self.counts.events += len(events)

    def _step(self, events: Sequence[Event], until: int, counted: bool) -> None:
        outputs: dict[str, tuple[list[CompositeEvent], list[Any]]] = {}
        for run in self._runs:
            inputs = [event for event in events if run.reads is None or event.type in run.reads]
            read = [*run.plan.parts, *self.space.named(run.plan)]
            if read:
                inputs += [event for part in read for event in outputs[part][0]]
                inputs.sort(key=attrgetter("key"))
            found = run.engine.feed(inputs) + run.engine.advance(until)
            for part in run.plan.parts:
                run.engine.hear_open(part, outputs[part][1])
            if not run.key:
                opens = run.engine.open_gaps() if run.plan.id in self._parts else []
                outputs[run.plan.id] = (found, opens)
                self._found(run, found, counted)

    def _found(self, run: _Run, found: Iterable[CompositeEvent], counted: bool) -> None:
        count = self.counts.detector(run.plan.id)
        as_part = run.plan.id in self._parts
        empty = _size(run.plan.id, [])
        for event in found:
            if counted and as_part:
                count.part += _size(run.plan.id, [event]) - empty
            if event.id in run.seen:
                continue
            run.seen.add(event.id)
            if counted:
                count.found += 1
                count.plain += _size(run.plan.id, [replace(event, events=(), derivations=())]) - empty
                run.found.append(event.hi)

    def _count_streams(self, events: Iterable[Event]) -> None:
        topics: dict[tuple[str, str], int] = {}
        for event in events:
            key = (event.type, event.source)
            if key not in topics:
                topics[key] = len(event_topic(*key).encode())
            # With one type the promise travels along.
            alone = len(self.sources.get(event.source, ())) == 1
            frame = encode(
                [event], type=event.type, source=event.source, watermark=event.hi if alone else None, check=False,
                number=NUMBER, top=None if alone else event.hi,
            )  # fmt: skip
            count = self.counts.stream(*key)
            count.events += 1
            count.bytes += len(frame) + topics[key]

    def _count_published(self, events: Sequence[Event], begin: int, end: int) -> None:
        promises, duration = promises_of(events, self.sources, begin, end, Random(begin))
        for name, each in steps(self.space, promises, self.sources).items():
            count = self.counts.detector(name)
            loud, quiet = heartbeat_counts(each, self.found[name], duration)
            count.listened += duration
            count.loud += loud
            count.quiet += quiet


def count(
    space: SearchSpace,
    events: Sequence[Event],
    sources: Mapping[str, Sequence[str]],
    begin: int,
    end: int,
    kinds: Kinds = lambda _: None,
    *,
    engine: EngineName = "stepwise",
) -> HistoryCounts:
    """Counts of events in memory, all with `begin < hi <= end`, in the order of consumption."""
    counting = Counting(space, sources, kinds, engine=engine)
    counting.take(events, begin, end)
    return counting.counts


def frame_size(name: str) -> int:
    """Bytes of a detector's frame with a watermark and no events, and its topic."""
    from distced.middleware.wire.topics import composite_topic

    return _size(name, []) + len(composite_topic(name).encode())


def _size(name: str, events: Sequence[CompositeEvent]) -> int:
    type_name = events[0].type if events else name
    # An instant of the present takes nine bytes.
    base = None if events else 2**62
    position: dict[str, Any] = {"number": 1, "life": NUMBER, "base": base}
    return len(encode(events, type=type_name, source=name, watermark=2**62, kind="c", check=False, **position))
