"""The events that instances and matches refer to, by position: how many events came before.

A position is never given twice and never changes. Batches are held as they came while much of them is referred to; of
the others what is referred to is made into events, and the rest is let go.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from detectors.columnar.columns import Batch
from detectors.columnar.memory import Words
from middleware.events import Event

_HELD_SHARE = 8
"""A batch is held while one in so many of its events is referred to."""


class Store:
    """Events by position.

    Attributes:
        next: the position of the next event.
    """

    def __init__(self) -> None:
        self.next = 0
        self._firsts: list[int] = []
        self._batches: list[Batch] = []
        self._kept: dict[int, Event] = {}

    def __len__(self) -> int:
        """How many events are held, those included that nobody refers to any more."""
        return len(self._kept) + sum(map(len, self._batches))

    def add(self, batch: Batch) -> int:
        """Take a batch; the position of its first event."""
        first = self.next
        if len(batch):
            self._firsts.append(first)
            self._batches.append(batch)
            self.next += len(batch)
        return first

    def keep(self, event: Event) -> int:
        """Take a single event; its position."""
        position = self.next
        self.next += 1
        self._kept[position] = event
        return position

    def event(self, position: int) -> Event:
        """The event at a position."""
        kept = self._kept.get(position)
        if kept is not None:
            return kept
        place = bisect_right(self._firsts, position) - 1
        return self._batches[place].event(position - self._firsts[place])

    def frozen(self) -> Store:
        """The events as they are now, whatever is let go later."""
        made = Store()
        made.next = self.next
        made._firsts, made._batches, made._kept = list(self._firsts), list(self._batches), self._kept
        return made

    def let_go(self, referred: Words) -> None:
        """Let go of all but these positions, which are sorted."""
        # Those who hold on to it as it was go on with their own.
        kept = {int(position): self._kept[int(position)] for position in referred if int(position) in self._kept}
        firsts: list[int] = []
        batches: list[Batch] = []
        for first, batch in zip(self._firsts, self._batches, strict=True):
            begin, end = np.searchsorted(referred, (first, first + len(batch)))
            if (end - begin) * _HELD_SHARE >= len(batch):
                firsts.append(first)
                batches.append(batch)
            else:
                kept |= {int(position): batch.event(int(position) - first) for position in referred[begin:end]}
        self._firsts, self._batches, self._kept = firsts, batches, kept
