"""The events that instances and matches refer to, by position: how many events came before.

A position is never given twice and never changes. Batches are held as they came while much of them is referred to; of
the others what is referred to is taken out, and the rest is let go.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.columnar.state import Words
from distced.middleware.model.events import Event

_HELD_SHARE = 2
"""A batch is held as it came while one in so many of its events is referred to."""


class _Segment(NamedTuple):
    """A stretch of events.

    Attributes:
        first: the position of the first; those of the others follow, unless `positions` says otherwise.
    """

    first: int
    batch: Batch
    positions: Words | None = None


class Store:
    """Events by position.

    Attributes:
        next: the position of the next event.
        held: how many events are held, those included that nobody refers to any more.
    """

    def __init__(self) -> None:
        self.next = 0
        self.held = 0
        self._segments: list[_Segment] = []
        # Where the segments begin.
        self._firsts: list[int] = []

    def add(self, batch: Batch) -> int:
        """Take a batch; the position of its first event."""
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
        """The events as they are now, whatever is let go later."""
        made = Store()
        # What is let go of is left out of new lists; these only grow at their ends.
        made.next, made._segments, made._firsts = self.next, self._segments, self._firsts
        return made

    def let_go(self, referred: Words) -> None:
        """Let go of all but these positions, which are sorted."""
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
