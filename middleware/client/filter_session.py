"""Filters of a client: what it declares to read, and what its sources leave out, with their promises.

A client has two roles. As a reader it declares the types it listens to by their names (`DeclaredReads`), from the first
one on, whether any source filters or not: without a declaration it reads nothing. Nodes declare the types of patterns.
As a publisher that filters it takes the declarations of all readers in (`SourceFilter`), acknowledges them, and
publishes the promises that came with events that were left out: of all its sources together, and only where the
application has not promised as much within `PROMISE_AFTER`, as a promise for each would take as many bytes as the
event. So guaranteed detection goes on, later by that at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from distced.middleware.client.client_effects import ClientEffect, NotAvailable, SessionTimers
from distced.middleware.client.directory_session import DirectorySession
from distced.middleware.client.source_session import SourceState, last_beat
from distced.middleware.model.timestamps import INSTANT_MIN, MILLISECOND, SECOND
from distced.middleware.wire.administration import Filtered, Unavailable
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.declared_reads import LEFT_OUT, DeclaredReads, types_whole
from distced.middleware.wire.directory import Change
from distced.middleware.wire.mqtt_effects import Publish, Subscribe
from distced.middleware.wire.source_filter import CONCERNS, SourceFilter, reader_name
from distced.middleware.wire.topics import Area, administration_topic, area_filter

PROMISE_AFTER: Final = 250 * MILLISECOND
"""Time within which the promise of an event that was left out is published, ns: the interval of heartbeats of most
publishers."""

PROMISE_EVERY: Final = 50 * MILLISECOND
"""Interval of looks at these, ns."""

LOOK_EVERY: Final = SECOND
"""Interval of looks at what is declared, beside those at each change, ns."""


class FilterSession:
    """Declarations of a client, and the filter of its sources.

    Attributes:
        reads: what it declares.
        filter: of its sources.
    """

    def __init__(
        self,
        name: str,
        root: str,
        home: str,
        directory: DirectorySession,
        timers: SessionTimers,
        sources: Mapping[str, SourceState],
        *,
        filters: bool,
    ) -> None:
        """`sources`: the open ones; `filters`: whether they leave out what nobody reads."""
        self.reads = DeclaredReads(reader_name("client", name))
        self.filter = SourceFilter(filters)
        self._name = name
        self._root = root
        self._home = home
        self._directory = directory
        self._timers = timers
        self._sources = sources
        self._ticks = False
        self._looked_at = INSTANT_MIN
        self._stopped = False
        # Subscriptions that wait for acknowledgements.
        self._waiting: dict[str, Callable[[], list[ClientEffect]]] = {}

    # The directory.

    def begin(self) -> list[ClientEffect]:
        """Look at the filter from now on, if there is one."""
        return self._tick_later() if self.filter.enabled else []

    def lost(self) -> None:
        """The connection to the directory is lost."""
        self.filter.lost()

    def known(self, now: int) -> list[ClientEffect]:
        """The directory was read, perhaps again."""
        acks = self.filter.known(self._directory.entries, now) if self.filter.enabled else []
        return self._acks(acks)

    def changed(self, change: Change, now: int) -> list[ClientEffect]:
        """Take a change of the directory."""
        if change.kind not in CONCERNS:
            return []
        effects: list[ClientEffect] = []
        if change.kind == "reader":
            if change.name == self.reads.reader and not self._stopped:
                self.reads.seen(change.entry, now)
            effects += self._acks(self.filter.declared(change.name, change.entry, now))
        if self.filter.enabled:
            self.filter.look(self._directory.entries, now)
        if change.kind == "source" and change.entry is not None and change.entry.publisher == self._name:
            effects += self._acks(self.filter.publishes(change.entry.types, now)) if self.filter.enabled else []
        return [*effects, *self._declare(), *self._go_on()]

    def unreadable(self, levels: tuple[str, ...]) -> None:
        """An entry of the directory cannot be read."""
        if levels[:1] == ("reader",):
            self.filter.unreadable(levels[-1])

    # Reads.

    def reading(
        self, subscription: str, type_name: str, now: int, then: Callable[[], list[ClientEffect]]
    ) -> list[ClientEffect]:
        """Continue when all events of a type are sent from then on, for a subscription."""
        self.reads.need(subscription, types_whole([type_name]), now)
        self._waiting[subscription] = then
        return [*self._activate(now), *self._declare(), *self._go_on()]

    def waits_for(self, subscription: str) -> list[str]:
        """Publishers that a subscription waits for."""
        return self.reads.waits_for(subscription, self._directory.entries) if subscription in self._waiting else []

    def read_no_more(self, subscription: str, now: int) -> None:
        """A subscription has ended."""
        self._waiting.pop(subscription, None)
        self.reads.drop(subscription, now)

    def acknowledged(self, publisher: str, payload: bytes, topic: str) -> list[ClientEffect]:
        """Take the acknowledgement of a publisher."""
        lost: dict[str, NotAvailable] = {}
        for name, _ in self.reads.acknowledged(publisher, decode(payload, Filtered, where=topic)):
            lost[name] = NotAvailable(name, "", Unavailable("e", "", 0, reason=LEFT_OUT))
        return [*lost.values(), *self._go_on()]

    def stop(self) -> list[ClientEffect]:
        """Withdraw the declaration."""
        self._stopped = True
        declares = self._directory.keeps("reader", self.reads.reader)
        return [self._directory.clear("reader", self.reads.reader)] if declares else []

    def _go_on(self) -> list[ClientEffect]:
        effects: list[ClientEffect] = []
        for each in [each for each in self._waiting if not self.waits_for(each)]:
            self.reads.runs(each)
            effects += self._waiting.pop(each)()
        return effects

    def _activate(self, now: int) -> list[ClientEffect]:
        """Declare what is read, from the first subscription to a type on."""
        if self._stopped or self.reads.active:
            return []
        mine = self._directory.entries.readers.get(self.reads.reader)
        if mine is not None:
            self.reads.seen(mine, now)
        self.reads.activate(now)
        answers = Subscribe(area_filter(Area.ADMINISTRATION, "filtered", self.reads.reader, root=self._root))
        return [answers, *(() if self._ticks else self._tick_later())]

    def _declare(self) -> list[ClientEffect]:
        entry = None if self._stopped else self.reads.take()
        return [] if entry is None else [self._directory.put("reader", self.reads.reader, entry)]

    def _acks(self, acks: Iterable[tuple[str, Filtered]]) -> list[ClientEffect]:
        return [acknowledgement(reader, self._name, ack, root=self._root) for reader, ack in acks]

    # Time.

    def _tick_later(self) -> list[ClientEffect]:
        self._ticks = True
        return [self._timers.set(PROMISE_EVERY if self.filter.enabled else LOOK_EVERY, self._tick)]

    def _tick(self, now: int) -> list[ClientEffect]:
        if self._stopped:
            return []
        # Nor does a look wait for a clock that was set back.
        if abs(now - self._looked_at) < LOOK_EVERY:
            return [*self._promises(now), *self._go_on(), *self._tick_later()]
        self._looked_at = now
        self.reads.tick(now)
        if self.filter.enabled:
            self.filter.look(self._directory.entries, now)
        return [*self._declare(), *self._promises(now), *self._go_on(), *self._tick_later()]

    def _promises(self, now: int) -> list[Publish]:
        """Promises that came with events which were left out, of all sources where one is due."""
        owing = [(each, since) for each in [*self._sources.values()] if (since := each.owes_since) is not None]
        # Nor do they wait for a clock that was set back.
        if not any(abs(now - since) >= PROMISE_AFTER for _, since in owing):
            return []
        by_watermark: dict[int, list[SourceState]] = {}
        for each, _ in owing:
            each.owes_since = None
            by_watermark.setdefault(each.watermark, []).append(each)
        return [last_beat(self._name, each, home=self._home, root=self._root) for each in by_watermark.values()]


def acknowledgement(reader: str, publisher: str, ack: Filtered, *, root: str) -> Publish:
    """Message to a reader that its declaration is in force."""
    return Publish(administration_topic("filtered", reader, publisher, root=root), encode(ack))
