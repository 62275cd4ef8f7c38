"""Guaranteed detection: an event is consumed once stable, with every source's watermark beyond it.

Events and heartbeats carry watermarks. A silent source holds the stream until fenced by an administrator or its lease;
its later events are late. An event by itself promises nothing: it may be out of order beyond its source's watermark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any, Final, Self

from distced.detectors.runtime.detection_policy import Arrival, Released
from distced.detectors.snapshot_format import pack_event, unpack_event, unpack_id
from distced.middleware.model.events import Event, OrderKey
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.policies.detection.recent_ids import RecentIds

HANDED_ON: Final = 1_000
"""Number of ids in the state and in a copy of a policy; they only separate duplicates from late events."""


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


class Guaranteed:
    """Consume stable events.

    Attributes:
        sources, fenced: sources the stream waits for; others, with the watermark at fencing.
        waiting: unstable events, by order of consumption; detects redelivered ones.
        watermark: everything up to here is released; None before anything is. Never decreases.
        recent: ids of recent events, to separate redelivered from late ones.
    """

    name = "guaranteed"

    def __init__(self) -> None:
        self.sources: dict[str, SourceState] = {}
        self.fenced: dict[str, int] = {}
        self.waiting: dict[OrderKey, Event] = {}
        self.watermark: int | None = None
        self.recent = RecentIds()
        # The keys of `waiting`, the least first.
        self._heap: list[OrderKey] = []

    @property
    def held(self) -> int:
        """Number of events and ids kept."""
        return len(self.waiting) + len(self.recent)

    def state(self) -> Any:
        """State as plain values."""
        sources = {
            name: [each.watermark, each.lease, each.heard, each.events, each.late]
            for name, each in self.sources.items()
        }
        waiting = [pack_event(self.waiting[key]) for key in sorted(self._heap)]
        # An older event that comes again is late, and not consumed a second time.
        return [self.watermark, sources, self.fenced, waiting, self.recent.ids(HANDED_ON)]

    def resume(self, state: Any) -> None:
        """Continue from a `state`."""
        self.watermark, sources, fenced, waiting, ids = state
        self.sources = {name: SourceState(*each) for name, each in sources.items()}
        self.fenced = dict(fenced)
        self.waiting = {event.key: event for event in map(unpack_event, waiting)}
        # In order, so a heap.
        self._heap = list(self.waiting)
        for each in ids:
            self.recent.add(unpack_id(each))

    def receive(self, source: str, events: Sequence[Event], watermark: int | None, now: int) -> Released:
        return self.receive_all(((source, events, watermark),), now)

    def receive_all(self, arrivals: Sequence[Arrival], now: int) -> Released:
        late: list[Event] = []
        unstable: list[OrderKey] = []
        duplicates = 0
        for source, events, watermark in arrivals:
            behind, again = self._take(source, events, watermark, now, unstable)
            late += behind
            duplicates += again
        return self._released(late, duplicates, unstable=unstable)

    def heartbeat(self, sources: Iterable[str], watermark: int, now: int) -> Released:
        for source in sources:
            state = self.sources.get(source)
            if state is not None:
                self._hear(state, watermark, now)
        return self._released()

    def join(self, source: str, watermark: int, now: int, lease: int = 0) -> int:
        self.fenced.pop(source, None)
        granted = max(watermark, self._floor)
        known = self.sources.get(source)
        if known is None:
            self.sources[source] = SourceState(granted, lease, now)
            return granted
        known.lease = lease
        self._hear(known, granted, now)
        return known.watermark

    def waits_for(self) -> set[str]:
        return set(self.sources)

    def leave(self, source: str, now: int) -> Released:
        self.sources.pop(source, None)
        return self._released()

    def fence(self, source: str, now: int) -> Released:
        self._fence(source)
        return self._released()

    def tick(self, now: int) -> Released:
        silent = [name for name, each in self.sources.items() if each.lease and now - each.heard > each.lease]
        for source in silent:
            self._fence(source)
        return self._released(fenced=silent)

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
        )

    def copy(self) -> Self:
        made = type(self)()
        made.watermark, made.fenced, made.recent = self.watermark, dict(self.fenced), self.recent.copy(HANDED_ON)
        made.sources = {name: replace(each) for name, each in self.sources.items()}
        made.waiting, made._heap = dict(self.waiting), list(self._heap)
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

    def _fence(self, source: str) -> None:
        state = self.sources.pop(source, None)
        self.fenced[source] = self._floor if state is None else state.watermark

    def _hear(self, state: SourceState, watermark: int | None, now: int) -> None:
        state.heard = now
        if watermark is not None and watermark > state.watermark:
            state.watermark = watermark

    def _released(
        self,
        late: list[Event] | None = None,
        duplicates: int = 0,
        fenced: list[str] | None = None,
        unstable: list[OrderKey] | None = None,
    ) -> Released:
        """Release what has become stable; `unstable`: keys of further events that wait, not in the heap yet."""
        stable = min((state.watermark for state in self.sources.values()), default=None)
        if stable is None and self.waiting:
            # All sources have left or were fenced off: no earlier event can arrive.
            stable = max(self.waiting)[0]
        heap, keys = self._heap, unstable or []
        events: list[Event] = []
        if stable is not None and (self.watermark is None or stable > self.watermark):
            self.watermark = stable
            keys.sort()
            # Most events are stable on arrival, and never in the heap.
            end = bisect_right(keys, stable, key=_instant)
            due, keys = keys[:end], keys[end:]
            if heap and heap[0][0] <= stable:
                while heap and heap[0][0] <= stable:
                    due.append(heappop(heap))
                due.sort()
            events = list(map(self.waiting.pop, due))
        for key in keys:
            heappush(heap, key)
        return Released(events, self.watermark, late or [], duplicates, fenced or [])


def _instant(key: OrderKey) -> int:
    return key[0]
