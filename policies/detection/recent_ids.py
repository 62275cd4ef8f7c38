"""Ids of recent events, to separate redelivered events from new or late ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Self

from distced.detectors.runtime.detection_policy import delivery_id
from distced.detectors.snapshot_format import WIDE, pack_id, unpack_seq
from distced.middleware.model.events import PRIMITIVE, Event, EventId

REMEMBERED: Final = 2_000
"""Number of ids kept; an event redelivered later counts as late or new."""


class RecentIds:
    """A bounded number of ids, the oldest dropped first. An `OrderedDict` of them has almost twice the size."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self.limit = limit
        self._ids: dict[EventId, None] = {}
        self._order: deque[EventId] = deque()

    def add(self, identity: EventId) -> bool:
        """Keep an id; False for a known one."""
        if identity in self._ids:
            return False
        self._ids[identity] = None
        self._order.append(identity)
        if len(self._order) > self.limit:
            del self._ids[self._order.popleft()]
        return True

    def resume(self, packed: Iterable[Any]) -> None:
        """Keep ids as `ids` returns them, and no others; in bulk, as a node may recover thousands of detectors."""
        ids = [(source, seq if seq.__class__ is int else unpack_seq(seq)) for source, seq in packed]
        self._order = deque(dict.fromkeys(ids[-self.limit :]))
        self._ids = dict.fromkeys(self._order)

    def unknown(self, events: Iterable[Event]) -> list[Event]:
        """Keep the ids of events; those with ids that were not known."""
        ids, order = self._ids, self._order
        found: list[Event] = []
        for event in events:
            identity = (event.source, event.seq) if event.rank == PRIMITIVE else delivery_id(event)
            if identity not in ids:
                ids[identity] = None
                order.append(identity)
                found.append(event)
        for _ in range(len(order) - self.limit):
            del ids[order.popleft()]
        return found

    def __le__(self, other: RecentIds) -> bool:
        """Whether another memory has every id of this one."""
        return all(map(other._ids.__contains__, reversed(self._order)))

    def copy(self, last: int | None = None) -> Self:
        """An independent memory with the same ids, or the `last` ones."""
        made = type(self)(self.limit)
        made._order = self._order.copy() if last is None else deque(self._last(last))
        made._ids = dict.fromkeys(made._order)
        return made

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self, last: int | None = None) -> list[Any]:
        """Ids as plain values, the oldest first; all, or the `last` ones."""
        ids = self._order if last is None else self._last(last)
        return [identity if identity[1] < WIDE else pack_id(identity) for identity in ids]

    def _last(self, count: int) -> list[EventId]:
        found = list(islice(reversed(self._order), count))
        found.reverse()
        return found
