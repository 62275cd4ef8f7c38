"""A batch of events and the composite events detected meanwhile, merged in order of consumption.

A composite event has the `hi` of its last event but an earlier `lo`, so it may sort before events of its instant:
batches hold whole instants, and their own composite events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from distced.detectors.columnar.batch.columns import Batch, Column, Handed, Ints
from distced.middleware.model.events import Attribute, CompositeEvent, Event, OrderKey

Places: TypeAlias = NDArray[np.int32]


class MergedBatch(Batch):
    """A batch with other events merged in; `alike`: places with the order key of the one before, consumed with it."""

    def __init__(self, batch: Batch, others: Sequence[CompositeEvent]) -> None:
        """The other events may come in any order."""
        found = sorted(others, key=_order)
        added = Batch.of_events(found)
        before = np.array([_place_in(batch, each.key) for each in found], np.int64)
        # Where the events of either stand among all.
        theirs = before + np.arange(len(found))
        is_other = np.zeros(len(batch) + len(found), np.bool_)
        is_other[theirs] = True
        mine = np.flatnonzero(~is_other)
        self._pieces = ((batch, mine), (added, theirs))
        self._source = np.empty(len(is_other), np.int64)
        self._source[mine] = np.arange(len(batch))
        self._source[theirs] = -1 - np.arange(len(found))
        names = dict.fromkeys((*batch.type_names, *added.type_names))
        numbers = {name: number for number, name in enumerate(names)}
        types = np.empty(len(is_other), np.int32)
        lo, hi = np.empty(len(is_other), np.int64), np.empty(len(is_other), np.int64)
        for piece, places in self._pieces:
            mapped = np.array([numbers[name] for name in piece.type_names], np.int32)
            if len(piece):
                types[places] = mapped[piece.types]
            lo[places], hi[places] = piece.lo, piece.hi
        super().__init__(types, list(names), lo, hi)
        self.alike = [place for place in theirs.tolist() if place and self._is_alike(place)]
        behind = (place + 1 for place in theirs.tolist() if place + 1 < len(hi) and not is_other[place + 1])
        self.alike += [place for place in behind if self._is_alike(place)]

    @property
    def pieces(self) -> Sequence[tuple[Batch, Ints | slice]]:
        return self._pieces

    def column(self, name: str | Handed) -> Column:
        return Column.of([_value(self.event(place), name) for place in range(len(self))])

    def event(self, place: int) -> Event:
        source = int(self._source[place])
        (batch, _), (added, _) = self._pieces
        return batch.event(source) if source >= 0 else added.event(-1 - source)

    def select(self, places: Ints) -> Batch:
        return Batch.of_events([self.event(place) for place in places.tolist()])

    def _is_alike(self, place: int) -> bool:
        return self.hi[place] == self.hi[place - 1] and self.event(place).key == self.event(place - 1).key


def together_by_key(batch: Batch) -> Places | None:
    """For each event the first one with the same order key; None where all differ."""
    if not isinstance(batch, MergedBatch) or not batch.alike:
        return None
    firsts = np.arange(len(batch), dtype=np.int32)
    for place in sorted(batch.alike):
        firsts[place] = firsts[place - 1]
    return firsts


def together_by_instant(batch: Batch) -> Places:
    """For each event the first one of its instant: consumption by epochs."""
    return np.searchsorted(batch.hi, batch.hi).astype(np.int32)


def _place_in(batch: Batch, key: OrderKey) -> int:
    """Number of events of a batch before or at an order key."""
    first, end = np.searchsorted(batch.hi, key[0]), np.searchsorted(batch.hi, key[0], "right")
    while first < end:
        middle = (first + end) // 2
        if batch.event(int(middle)).key <= key:
            first = middle + 1
        else:
            end = middle
    return int(first)


def _value(event: Event, name: str | Handed) -> Attribute:
    return name.of(event) if isinstance(name, Handed) else event.attributes.get(name)


def _order(event: Event) -> OrderKey:
    return event.key
