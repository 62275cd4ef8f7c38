"""Store of events referred to by position from instances and matches, and its compaction.

Position: number of earlier events. Batches mostly referred to stay whole, of others the referenced events are copied.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

import numpy as np

from distced.detectors.columnar import word_offsets
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.kernel.compaction import compact_links, compact_spent, compact_times, referred_to, sweep
from distced.detectors.columnar.state import LoopState, Program, Words
from distced.middleware.model.events import Event

LEAST: Final = 524_288
"""Minimum size for a compaction."""

LEAST_LEFT: Final = 4096
"""Minimum of removed patterns for a sweep."""

_HELD_SHARE = 2
"""Reciprocal of the share of referenced events above which a batch is kept whole."""


class _Segment(NamedTuple):
    """A run of events from a first position on; the others follow, unless `positions` says otherwise."""

    first: int
    batch: Batch
    positions: Words | None = None


class Store:
    """Events by position; `next` is the next position, `held` the number of events held, unreferenced ones included."""

    def __init__(self) -> None:
        self.next = 0
        self.held = 0
        self._segments: list[_Segment] = []
        # Where the segments begin.
        self._firsts: list[int] = []

    def add(self, batch: Batch) -> int:
        """Add a batch; the position of its first event."""
        first = self.next
        if len(batch):
            self._segments.append(_Segment(first, batch))
            self._firsts.append(first)
            self.next += len(batch)
            self.held += len(batch)
        return first

    def event(self, position: int) -> Event:
        """The event at a position."""
        segment = self._segments[bisect_right(self._firsts, position) - 1]
        if segment.positions is None:
            return segment.batch.event(position - segment.first)
        return segment.batch.event(int(np.searchsorted(segment.positions, position)))

    def frozen(self) -> Store:
        """A snapshot of the events, independent of later compaction."""
        made = Store()
        # What is let go of is left out of new lists; these only grow at their ends.
        made.next, made._segments, made._firsts = self.next, self._segments, self._firsts
        return made

    def let_go(self, referred: Words) -> None:
        """Release all events but those at these positions, which are sorted."""
        kept: list[_Segment] = []
        for segment in self._segments:
            count = len(segment.batch)
            last = segment.first + count - 1 if segment.positions is None else int(segment.positions[-1])
            begin, end = np.searchsorted(referred, (segment.first, last + 1))
            if (end - begin) * _HELD_SHARE >= count:
                kept.append(segment)
            elif end > begin:
                positions = referred[begin:end]
                places = positions - segment.first
                if segment.positions is not None:
                    places = np.searchsorted(segment.positions, positions)
                kept.append(_Segment(segment.first, segment.batch.select(places), positions.copy()))
        self._segments, self._firsts = kept, [each.first for each in kept]
        self.held = sum(len(each.batch) for each in kept)


def crowded(state: LoopState, store: Store) -> bool:
    """Whether a compaction may pay: the memory used has doubled since the last one."""
    return _used(state.counters, store) > int(state.counters[word_offsets.C_CROWD])


def many_left(state: LoopState, store: Store, removed: int) -> bool:
    """Whether the memory left by removed patterns outweighs the cost of a sweep."""
    return removed > max(LEAST_LEFT, _used(state.counters, store) // 32)


def _used(counters: Words, store: Store) -> int:
    looked = (
        word_offsets.C_LINKS,
        word_offsets.C_TIMES,
        word_offsets.C_ROWS,
        word_offsets.C_BUCKETS,
        word_offsets.C_SPENT,
    )
    return max(store.held // 2, *(int(counters[each]) for each in looked))


def look_soon(state: LoopState) -> None:
    """Compact with the next batch, whatever its size."""
    state.counters[word_offsets.C_CROWD] = -1


def collect(program: Program, state: LoopState, store: Store, latest: int) -> None:
    """Release everything unreferenced. To be called without matches and without instances under construction."""
    counters = state.counters
    sweep(program, state, latest)
    compact_links(state)
    compact_times(program, state)
    if counters[word_offsets.C_SPENT] > 0:
        compact_spent(program, state)
    referred = np.unique(referred_to(program, state))
    store.let_go(referred[referred >= 0])
    counters[word_offsets.C_CROWD] = LEAST + 2 * _used(counters, store)
