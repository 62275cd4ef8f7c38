"""Ids of recent events, to separate redelivered events from new or late ones.

A detector that moves takes them along, so their packed form decides what a move costs where its engine has little
state. Sources are packed by their place in a list, and each number as the difference to the one before of its source:
two bytes an id where pairs had thirty to sixty. The order stays, for the oldest are dropped first; runs of numbers
would lose it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Self

from distced.detectors.runtime.detection_policy import delivery_id
from distced.detectors.snapshot_format import WIDE, pack_seq, unpack_seq
from distced.middleware.model.events import PRIMITIVE, Event, EventId

REMEMBERED: Final = 2_000
"""Number of ids kept; an event redelivered later counts as late or new."""

_BYTES: Final = 3
"""Of a packed id; two where no source is quiet for long."""


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
        """Keep ids as `ids` returns them, and no others; in bulk, as a node may recover thousands of detectors. Raises
        `ValueError` or `TypeError` for anything else."""
        self._order = deque(dict.fromkeys(_unpacked(list(packed))[-self.limit :]))
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

    def size(self, last: int | None = None) -> int:
        """Approximate size of the packed ids, bytes; of all, or of the `last` ones."""
        return _BYTES * (len(self._ids) if last is None else min(len(self._ids), last))

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self, last: int | None = None) -> list[Any]:
        """Ids as plain values, the oldest first; all, or the `last` ones: the sources, and for each id the place of its
        source and the difference of its number to the one before of that source, or as bytes one beyond 63 bits."""
        places: dict[str, int] = {}
        before: list[int] = []
        codes: list[int | bytes] = []
        for source, seq in self._order if last is None else self._last(last):
            place = places.get(source)
            if place is None:
                place = places[source] = len(before)
                before.append(0)
            if seq < WIDE:
                codes += (place, seq - before[place])
                before[place] = seq
            else:
                codes += (place, pack_seq(seq))
        return [list(places), codes] if codes else []

    def _last(self, count: int) -> list[EventId]:
        found = list(islice(reversed(self._order), count))
        found.reverse()
        return found


def _unpacked(packed: list[Any]) -> list[EventId]:
    """The inverse of `RecentIds.ids`, and of the pairs of source and number that earlier versions have packed."""
    if not packed or len(packed) != 2 or not packed[1] or isinstance(packed[1][0], str):
        return [(source, unpack_seq(seq)) for source, seq in packed]
    names, codes = packed
    before = [0] * len(names)
    found: list[EventId] = []
    each = iter(codes)
    try:
        for place, code in zip(each, each, strict=True):
            if place < 0:
                raise IndexError
            if code.__class__ is bytes:
                seq = unpack_seq(code)
            else:
                seq = before[place] = before[place] + code
            found.append((names[place], seq))
    except IndexError:
        raise ValueError(f"an id of source {place} out of {len(names)}") from None
    return found
