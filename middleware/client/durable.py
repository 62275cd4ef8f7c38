"""Durable subscriptions of a client: their names, what is compared on resumption, and what the application has taken.

The application has taken an item when it asks for the next one, when its callback has returned, or at a farewell. Items
are counted as they go into the queue; after each message of a detector the lives of its hosts are noted, as a mark
behind the items so far. So the position is the last mark before the first item that is not taken, with the ids of the
items that were taken behind it. It is published now and then (`subscription_session`), as a retained entry: what is
taken between the last publication and a crash comes again, with the same ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from distced.middleware.model.detection import GUARANTEED
from distced.middleware.model.events import Event
from distced.middleware.wire.directory_entries import PositionEntry, SubscriptionEntry
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.replica_streams import LifeState

PREFIX: Final = "durable:"
"""How the names of durable subscriptions begin in the directory."""

RECENT: Final = 100
"""Number of ids that are published where the watermark says nothing of what was taken."""

MOST_IDS: Final = 2_000
"""Number of ids in a position that is published in between; with more, of a large message, it is published later."""

_TERMS: Final = (
    *("pattern", "language", "query", "definitions", "consumption", "policy"),
    *("constituents", "decomposition", "distribution"),
)
_ALL_TERMS: Final = (*_TERMS, "hints", "publish_json")


def durable_id(name: str) -> str:
    """Name of a durable subscription in the directory; without a dot, so that its topic has no level for a client."""
    return PREFIX + name.replace("%", "%25").replace(".", "%2E")


def differences(known: SubscriptionEntry, wanted: SubscriptionEntry) -> Iterator[tuple[str, object, object]]:
    """Terms in which a subscription differs from the one that is there: name, wanted, there."""
    for name in _ALL_TERMS:
        there, asked = getattr(known, name), getattr(wanted, name)
        if there != asked:
            yield {"policy": "detection"}.get(name, name), asked, there


class TakenItems:
    """Items of a durable subscription that its application has taken."""

    __slots__ = ("_closed", "_consumed", "_ids", "_lives", "_marks", "_put", "_recent", "_resumed", "dirty")

    def __init__(self, detection: str) -> None:
        self.dirty = False
        self._put = 0
        self._consumed = 0
        self._closed = False
        # Lives behind a number of items; those behind the items that are taken.
        self._marks: deque[tuple[int, tuple[LifeState, ...]]] = deque()
        self._lives: tuple[LifeState, ...] = ()
        # Ids of items handed out behind the last mark that is reached, by number.
        self._ids: deque[tuple[int, str]] = deque()
        self._recent: deque[str] | None = None if detection == GUARANTEED else deque(maxlen=RECENT)
        # Ids that an earlier application has taken behind the position it left, of items that do not come again.
        self._resumed: tuple[str, ...] = ()

    def resume(self, ids: Iterable[str]) -> None:
        """Go on behind a position with these ids, before any item."""
        if self._recent is None:
            self._resumed = tuple(ids)
        else:
            self._recent.extend(ids)

    def put(self) -> None:
        """Count an item that goes into the queue."""
        self._put += 1

    def mark(self, lives: tuple[LifeState, ...]) -> bool:
        """Note the lives behind the items so far; whether they are the first ones known."""
        if not lives:
            return False
        first = not self._lives and not self._marks
        if self._marks and self._marks[-1][0] == self._put:
            self._marks.pop()
        self._marks.append((self._put, lives))
        return first

    def handed_out(self, item: Event | Loss, waiting: int) -> None:
        """Note an item that the application gets, with the number of those that still wait."""
        if not isinstance(item, Loss):
            self._ids.append((self._put - waiting, f"{item.seq:x}"))

    def confirm(self, waiting: int) -> bool:
        """Count all items as taken but those that wait; whether that is to be published."""
        if self._closed:
            return False
        self._consumed = self._put - waiting
        news = not self.dirty and bool(self._marks) and self._marks[0][0] <= self._consumed
        news |= not self.dirty and bool(self._ids) and self._ids[0][0] <= self._consumed
        self.dirty |= news
        return news

    def close(self) -> None:
        """Count nothing as taken any more."""
        self._closed = True

    def position(self, now: int, *, last: bool = False) -> PositionEntry | None:
        """Position of what was taken; None for unknown, and where it is too long, unless it is the last one."""
        self.dirty = False
        reached = 0
        while self._marks and self._marks[0][0] <= self._consumed:
            reached, self._lives = self._marks.popleft()
        while self._ids and self._ids[0][0] <= reached:
            _, identity = self._ids.popleft()
            if self._recent is not None:
                self._recent.append(identity)
        if reached:
            # The first item comes behind them.
            self._resumed = ()
        ids = [*self._resumed, *(identity for number, identity in self._ids if number <= self._consumed)]
        if not self._lives or (len(ids) > MOST_IDS and not last):
            return None
        return PositionEntry(now, self._lives, (*(self._recent or ()), *ids))
