"""Guaranteed detection: an event is consumed once stable, with every source's watermark beyond it.

Events and heartbeats carry watermarks, which count once all messages before them have come
(`policies.detection.intake`). A silent source holds the stream until fenced by an administrator or its lease; its later
events are late. An event by itself promises nothing: it may be out of order beyond its source's watermark.

Inputs do not begin at one instant: a detector that is read may be recovered from a checkpoint, and publish from its
time on, while sources are read from now on. A composite event from before the begin of another input is left out: what
came between is not known, so whatever it would be part of may be wrong. Events of sources are not left out: these are
read from nearly the same instant on.

A source that a server had forgotten may be known only once the watermark is beyond its messages. These are late, and
lost: what other inputs have been part of meanwhile may be wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, repeat
from typing import Any, Final, Self

from distced.detectors.runtime.detection_policy import Arrival, Begins, Positions, Released, losses_of
from distced.detectors.snapshot_format import pack_event, unpack_event
from distced.middleware.model.events import CompositeEvent, Event, OrderKey, held_bytes
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.numbered_stream import Loss, StreamPosition
from distced.policies.detection.intake import Intake, ReadsStreams
from distced.policies.detection.recent_ids import RecentIds

HANDED_ON: Final = 1_000
"""Number of ids in the state and in a copy of a policy; they only separate duplicates from late events."""

EVENT_BYTES: Final = 80
"""Approximate size of a waiting event in its state, bytes."""

MOST_FENCED: Final = 10_000
"""Sources fenced off that are remembered: a client may announce others without end. What an older one sends, and is not
late, counts as that of a source that nobody has announced."""

MOST_OUTDATED: Final = 1_000
"""Number of outdated watermarks from which on, beside twice the number of sources, all are collected again."""


@dataclass(slots=True)
class SourceState:
    """A source as a policy sees it.

    Attributes:
        lease: allowed silence before fencing, ns of arrival time; 0 for ever.
        heard: last arrival, ns of arrival time.
    """

    watermark: int
    lease: int
    heard: int
    events: int = 0
    late: int = 0


class Guaranteed(ReadsStreams):
    """Consume stable events.

    Attributes:
        sources, fenced: sources the stream waits for; others, with the watermark at fencing.
        waiting: unstable events, by order of consumption; detects redelivered ones.
        waiting_bytes: memory that these take, bytes; estimated.
        watermark: everything up to here is released; None before anything is. Never decreases.
        recent: ids of recent events, to separate redelivered from late ones.
        intake: numbered streams of the sources.
        first: `hi` of the first event released, ns; None before. What is late and not behind it concerns nothing.
        covered: instant up to which all was consumed from a history, ns: what comes of it is no news, and not late.
        begins: while it begins, without a state, of detectors that it reads the instants up to which they may have
            published before, ns; None behind its begin.
    """

    name = "guaranteed"

    def __init__(self) -> None:
        self.sources: dict[str, SourceState] = {}
        self.fenced: dict[str, int] = {}
        self.waiting: dict[OrderKey, Event] = {}
        self.waiting_bytes = 0
        self.watermark: int | None = None
        self.recent = RecentIds()
        self.intake = Intake()
        self.begins: dict[str, int] | None = {}
        self.first: int | None = None
        self.covered = INSTANT_MIN
        # Not released yet.
        self._losses: list[Loss] = []
        # The keys of `waiting`, the least first.
        self._heap: list[OrderKey] = []
        # Watermarks of sources at some time, which only rise, the least first: each source has one at or below its own.
        self._marks: list[tuple[int, str]] = []

    @property
    def size(self) -> int:
        """Approximate size of its state, bytes."""
        return EVENT_BYTES * len(self.waiting) + self.recent.size(HANDED_ON)

    def state(self) -> Any:
        """State as plain values."""
        sources = {
            name: [each.watermark, each.lease, each.heard, each.events, each.late]
            for name, each in self.sources.items()
        }
        waiting = [pack_event(self.waiting[key]) for key in sorted(self._heap)]
        # An older event that comes again is late, and not consumed a second time.
        begins = None if self.begins is None else [self.intake.base, self.begins]
        ids = self.recent.ids(HANDED_ON)
        return [self.watermark, sources, self.fenced, waiting, ids, self.intake.state(), begins, self.covered]

    def resume(self, state: Any) -> None:
        """Continue from a `state`."""
        # Recorders have states without an intake on disk.
        self.watermark, sources, fenced, waiting, ids, *intake = state
        self.sources = {name: SourceState(*each) for name, each in sources.items()}
        self.fenced = dict(fenced)
        self.waiting = {event.key: event for event in map(unpack_event, waiting)}
        self.waiting_bytes = sum(map(held_bytes, self.waiting.values()))
        # In order, so a heap.
        self._heap = list(self.waiting)
        self._mark_all()
        self.recent.resume(ids)
        self.intake.resume(intake[0] if intake else {})
        begins = intake[1] if len(intake) > 1 else None
        self.intake.base, self.begins = (None, None) if begins is None else begins
        self.covered = intake[2] if len(intake) > 2 else INSTANT_MIN
        self.first = INSTANT_MIN

    def begin_behind(self, reached: int) -> None:
        """Go on behind an instant up to which all was consumed from a history, ns."""
        self.covered, self.begins, self.first = reached, None, INSTANT_MIN
        if self.watermark is None or reached > self.watermark:
            self.watermark = reached
        self.waiting = {key: event for key, event in self.waiting.items() if key[0] > reached}
        self.waiting_bytes = sum(map(held_bytes, self.waiting.values()))
        self._heap = sorted(self.waiting)

    def receive(
        self,
        source: str,
        events: Sequence[Event],
        watermark: int | None,
        now: int,
        position: StreamPosition | None = None,
    ) -> Released:
        return self.receive_all(((source, events, watermark, position),), now)

    def receive_all(self, arrivals: Sequence[Arrival], now: int) -> Released:
        late: list[Event] = []
        unstable: list[OrderKey] = []
        duplicates = 0
        for source, events, watermark, position in arrivals:
            numbered = position if source in self.sources else None
            if numbered is not None:
                new, watermark = self.intake.take(source, numbered, watermark, now)
                if not new:
                    duplicates += len(events)
                    continue
            behind, again = self._take(source, events, watermark, now, unstable)
            late += behind
            if behind and numbered is not None:
                self.lose_late(behind)
            duplicates += again
            if position is not None and numbered is None and source in self.sources:
                # An unannounced source, from here on.
                self.intake.take(source, position, watermark, now)
        return self._released(now, late, duplicates, unstable=unstable)

    def heartbeat(
        self, sources: Iterable[str], watermark: int, now: int, positions: Sequence[Positions] = ()
    ) -> Released:
        for source, each in zip(sources, chain(positions, repeat(())), strict=False):
            state = self.sources.get(source)
            if state is not None:
                reached = self.intake.claim(source, each, watermark, now)
                self._hear(state, reached, now)
        return self._released(now)

    def join(self, source: str, watermark: int, now: int, lease: int = 0, begins: Begins | None = None) -> int:
        if begins is not None:
            self._losses += self.intake.begin(source, begins, now)
        self.fenced.pop(source, None)
        granted = max(watermark, self._floor)
        known = self.sources.get(source)
        if known is None:
            self.sources[source] = SourceState(granted, lease, now)
            heappush(self._marks, (granted, source))
            if len(self._marks) > 2 * len(self.sources) + MOST_OUTDATED:
                self._mark_all()
            return granted
        known.lease = lease
        # The promise of an entry that is published again says nothing of the messages before it.
        self._hear(known, None if self.intake.reads(source) else granted, now)
        return max(known.watermark, self._floor)

    def read_from(self, detector: str, since: int) -> None:
        if self.begins is not None:
            self.begins.setdefault(detector, since)

    @property
    def base(self) -> int | None:
        read = super().base
        return read if read is None or not self.begins else max(read, *self.begins.values())

    def unnumbered(self) -> Mapping[str, int | None]:
        return {name: each.watermark for name, each in self.sources.items() if not self.intake.reads(name)}

    def waits_for(self) -> set[str]:
        return set(self.sources)

    def slowest(self) -> tuple[str, int] | None:
        if self._least() is None:
            return None
        _, source = self._marks[0]
        return source, self.sources[source].heard

    def leave(self, source: str, now: int) -> Released:
        self.sources.pop(source, None)
        self._losses += self.intake.end(source, "it has left, and its last messages are missing")
        return self._released(now)

    def unavailable(self, lost: Unavailable, now: int) -> Released:
        loss, watermark = self.intake.unavailable(lost, now)
        if loss is not None:
            self._losses.append(loss)
        state = self.sources.get(lost.source)
        if state is not None:
            self._hear(state, watermark, now)
        return self._released(now)

    def fence(self, source: str, now: int) -> Released:
        self._fence(source)
        return self._released(now)

    def tick(self, now: int) -> Released:
        silent = [name for name, each in self.sources.items() if each.lease and now - each.heard > each.lease]
        for source in silent:
            self._fence(source)
        return self._released(now, fenced=silent)

    def holding(self) -> list[str]:
        """Sources with the least watermark, which the stream waits for."""
        least = min((state.watermark for state in self.sources.values()), default=None)
        return sorted(source for source, state in self.sources.items() if state.watermark == least)

    def is_level_with(self, other: Self) -> bool:
        return (
            self.watermark == other.watermark
            and self.sources.keys() == other.sources.keys()
            and self.fenced.keys() == other.fenced.keys()
            and self.waiting.keys() == other.waiting.keys()
            and self.intake.is_level_with(other.intake)
        )

    def copy(self) -> Self:
        made = self._new()
        made.watermark, made.fenced, made.recent = self.watermark, dict(self.fenced), self.recent.copy(HANDED_ON)
        made.sources = {name: replace(each) for name, each in self.sources.items()}
        made.waiting, made._heap, made._marks = dict(self.waiting), list(self._heap), list(self._marks)
        made.waiting_bytes = self.waiting_bytes
        made.intake = self.intake.copy()
        made.covered = self.covered
        made.begins, made.first = None if self.begins is None else dict(self.begins), self.first
        return made

    @property
    def _floor(self) -> int:
        """The watermark, or the least instant before anything was released."""
        return INSTANT_MIN if self.watermark is None else self.watermark

    def _take(
        self, source: str, events: Sequence[Event], watermark: int | None, now: int, unstable: list[OrderKey]
    ) -> tuple[list[Event], int]:
        """Receive events of a source without release: those that are late, and the number of duplicates; the keys of
        the others are added to `unstable`."""
        floor, waiting = self._floor, self.waiting
        fenced = source in self.fenced
        late: list[Event] = []
        kept = self.recent.unknown(events)
        duplicates = len(events) - len(kept)
        for event in kept:
            hi = event.hi
            key = (hi, event.lo, event.rank, event.source, event.seq)
            if key in waiting:
                duplicates += 1
            elif hi <= floor or fenced:
                if hi <= self.covered:
                    duplicates += 1
                else:
                    late.append(event)
            else:
                waiting[key] = event
                unstable.append(key)
        state = self.sources.get(source)
        if state is None and not fenced and (not events or len(late) + duplicates < len(events)):
            # An unannounced source: it is waited for from here on. A straggler of one that has left is not its
            # word that it is back.
            self.join(source, floor, now)
            state = self.sources[source]
        if state is not None:
            state.events += len(events)
            state.late += len(late)
            self._hear(state, watermark, now)
        return late, duplicates

    def lose_late(self, late: list[Event]) -> None:
        """Lose late events of messages that are new."""
        if self.first is not None:
            first = self.first
            self._losses += losses_of(each for each in late if each.hi > first)

    def _fence(self, source: str) -> None:
        self._losses += self.intake.end(source, "it was fenced off, and messages of it are missing")
        state = self.sources.pop(source, None)
        self.fenced.pop(source, None)
        self.fenced[source] = self._floor if state is None else state.watermark
        if len(self.fenced) > MOST_FENCED:
            del self.fenced[next(iter(self.fenced))]

    def _hear(self, state: SourceState, watermark: int | None, now: int) -> None:
        state.heard = now
        if watermark is not None and watermark > state.watermark:
            state.watermark = watermark

    def _least(self) -> int | None:
        """Least watermark of the sources, None without any; only those that were the least are looked at."""
        marks, sources = self._marks, self.sources
        while marks:
            mark, source = marks[0]
            state = sources.get(source)
            if state is None:
                heappop(marks)
            elif state.watermark == mark:
                return mark
            else:
                heapreplace(marks, (state.watermark, source))
        return None

    def _behind_begin(self, events: list[Event], watermark: int) -> list[Event]:
        """Leave out composite events from before the begin of another input; it has begun once released beyond all."""
        assert self.begins is not None
        begins, base = self.begins, self.base
        read = INSTANT_MIN if self.intake.base is None else self.intake.base
        if base is not None and watermark > INSTANT_MIN and base <= watermark:
            self.begins = None
        if not begins:
            return events
        of_others = {each: max([read, *(at for one, at in begins.items() if one != each)]) for each in begins}
        latest = max(read, *begins.values())
        return [
            each
            for each in events
            if not isinstance(each, CompositeEvent) or each.hi > of_others.get(each.source, latest)
        ]

    def _mark_all(self) -> None:
        self._marks = [(state.watermark, source) for source, state in self.sources.items()]
        heapify(self._marks)

    def _new(self) -> Self:
        """A new policy with the same parameters."""
        return type(self)()

    def _mark(self, stable: int | None, now: int) -> int | None:
        """Instant up to which events are released, given that up to which they are stable, ns; None for none."""
        return stable

    def _released(
        self,
        now: int,
        late: list[Event] | None = None,
        duplicates: int = 0,
        fenced: list[str] | None = None,
        unstable: list[OrderKey] | None = None,
    ) -> Released:
        """Release what has become stable; `unstable`: keys of further events that wait, not in the heap yet."""
        stable = self._least()
        if stable is None and self.waiting:
            # All sources have left or were fenced off: no earlier event can arrive.
            stable = max(self.waiting)[0]
        heap, keys = self._heap, unstable or []
        events: list[Event] = []
        stable = self._mark(stable, now)
        if stable is not None and (self.watermark is None or stable > self.watermark):
            self.watermark = stable
            keys.sort()
            # Most events are stable on arrival, and never in the heap.
            end = bisect_right(keys, stable, key=_instant)
            due, keys = keys[:end], keys[end:]
            if heap and heap[0][0] <= stable:
                while heap and heap[0][0] <= stable:
                    key = heappop(heap)
                    due.append(key)
                    self.waiting_bytes -= held_bytes(self.waiting[key])
                due.sort()
            events = list(map(self.waiting.pop, due))
            if self.begins is not None:
                events = self._behind_begin(events, stable)
            if self.first is None and events:
                self.first = events[0].hi
        for key in keys:
            heappush(heap, key)
            self.waiting_bytes += held_bytes(self.waiting[key])
        losses = self._losses
        if losses:
            self._losses = []
        return Released(events, self.watermark, late or [], duplicates, fenced or [], losses)


def _instant(key: OrderKey) -> int:
    return key[0]
