"""Client session: the protocol of a client, sans-I/O (design, section 4).

It takes messages, connections, timers and calls of the application with the time, and returns effects that a driver
carries out in their order: on threads (`driver`), on asyncio, in virtual time (`simulations.network.participants`).
Calls that the application waits for name an operation; a `Done` with that object completes it. Messages that a
subscription listens to do not pass through the session: the driver routes them to the subscription, as `Listen` says.

A second client for the simulation was rejected after it had drifted from the shipped one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from distced.middleware.client.client_effects import ClientEffect, Done, Operations, SessionTimers
from distced.middleware.client.directory_session import DirectorySession
from distced.middleware.client.filter_session import FilterSession
from distced.middleware.client.source_session import SourceSession, SourceState
from distced.middleware.client.subscription_session import SubscriptionSession
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.errors import BusError, DistcedError, FrameError, SubscriptionError, TypeRegistryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import METERED_EVERY, RENEW_EVERY
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.mqtt_effects import Note, Publish, Subscribe
from distced.middleware.wire.outbox import Outbox
from distced.middleware.wire.topics import ROOT, Area, administration_topic, area_filter, parse_topic, pointer_topic

PATIENCE: Final = 5 * SECOND  # default time for nodes and servers to answer, ns
_parse = lru_cache(maxsize=1_024)(parse_topic)


class ClientSession:
    """Session of a client.

    Attributes:
        name: of the client, unlike all others.
        home: server of the client's site; empty for that of the directory.
        directory: its entries, and those of all others.
        subscriptions, sources: those of the client.
        filters: what it declares to read, and what its sources leave out.
    """

    def __init__(
        self,
        name: str,
        *,
        home: str = "",
        root: str = ROOT,
        server: str = "",
        patience: int = PATIENCE,
        outbox: Outbox | None = None,
        filters: bool = False,
        metered: bool = False,
    ) -> None:
        """Session with the server of the directory, for errors, the time for nodes and servers to answer, ns, the
        outbox of its sources, if chosen, whether these leave out events that nobody reads, and whether the link of the
        client is metered."""
        self.name = name
        self.home = home
        self._root = root
        self._server = server
        self._timers = SessionTimers()
        self._operations = Operations(self._timers)
        self.directory = DirectorySession(
            name, root, home, self._timers, renew_every=METERED_EVERY if metered else RENEW_EVERY
        )
        chosen = Outbox(queues=False) if outbox is None else outbox
        self.sources = SourceSession(
            name, root, home, server, patience, self.directory, self._timers, outbox=chosen, filters=filters
        )
        self.filters = FilterSession(
            name, root, home, self.directory, self._timers, self.sources.sources, filters=filters
        )
        self.subscriptions = SubscriptionSession(
            name, root, server, patience, self.directory, self._timers, self.filters
        )
        self._pointer_topic = pointer_topic(root=root)
        self._missing = administration_topic("missing", "source", name, root=root)
        self._covered = administration_topic("covered", name, root=root)
        self._barriers = f"{self.directory.handshake.topic}/"
        self._directory = area_filter(Area.DIRECTORY, root=root).removesuffix("#")

    @property
    def patience(self) -> int:
        """Time for nodes and servers to answer, ns."""
        return self.sources.patience

    @patience.setter
    def patience(self, patience: int) -> None:
        self.sources.patience = self.subscriptions.patience = patience

    @property
    def entries(self) -> Entries:
        """Directory as delivered so far."""
        return self.directory.entries

    # From the driver.

    def begin(self) -> list[ClientEffect]:
        """Subscriptions to be made before the server of the directory is connected."""
        answers = Subscribe(administration_topic("answer", self.name, root=self._root))
        acknowledgements = Subscribe(area_filter(Area.ADMINISTRATION, "ack", root=self._root))
        asked = [Subscribe(each, home=self.home) for each in (self._missing, self._covered)]
        listening = self.subscriptions.listening_at("")
        return [*self.directory.filters(), answers, *listening, acknowledgements, *asked, *self.filters.begin()]

    def connected(self, home: str, now: int) -> list[ClientEffect]:
        """Take a new connection; the driver has made its subscriptions."""
        self.directory.now = now
        if not home:
            self.filters.lost()
        return [
            *(self.directory.connected(now) if not home else ()),
            *self.sources.connected(home),
            *self.subscriptions.connected(home),
        ]

    def lost(self, home: str, reason: BusError) -> list[ClientEffect]:
        """Take the loss of a connection, or a failed attempt; the driver tries again."""
        if not home:
            self.directory.lost()
            self.filters.lost()
        self.sources.lost(home)
        return self.subscriptions.lost(home, reason)

    def receive(self, topic: str, payload: bytes, now: int, home: str = "") -> list[ClientEffect]:
        """Take a message by a `Subscribe`: from the server of the directory, by those of `begin`, or from another."""
        self.directory.now = now
        try:
            return self._receive(topic, payload, now, home)
        except DistcedError as error:
            # Broker nodes report entries that cannot be read.
            if topic.startswith(self._directory):
                return []
            return [Note("warning", "message rejected", {"topic": topic, "reason": str(error)})]

    def fired(self, number: int, now: int) -> list[ClientEffect]:
        """Take a timer that has fired, or a flush that is complete."""
        self.directory.now = now
        return self._timers.fired(number, now)

    def waits(self, timer: int) -> bool:
        """Whether a timer was neither cancelled nor has fired."""
        return self._timers.waits(timer)

    def confirmed(self, number: int) -> list[ClientEffect]:
        """Take a server's confirmation of a `Listen`."""
        return self.subscriptions.places.confirmed(number)

    def refused(self, number: int, error: BusError, *, kept: bool) -> list[ClientEffect]:
        """Take the refusal of a `Listen`; `kept` where the driver asks for it again on the next connection."""
        return self.subscriptions.places.refused(number, error, kept=kept)

    def _receive(self, topic: str, payload: bytes, now: int, home: str) -> list[ClientEffect]:
        if topic == self.directory.handshake.topic:
            reading = self.directory.handshake.reading
            effects = self.directory.answered(payload)
            if reading and not self.directory.handshake.reading:
                effects = [*effects, *self.filters.known(now)]
            return [*effects, *self.sources.changed(), *self._operations.look()]
        if topic.startswith(self._barriers):
            return self.directory.passed(topic)
        if topic == self.subscriptions.progress_topic:
            return self.subscriptions.progressed(payload, topic)
        if topic == self._missing:
            return self.sources.missing(payload, topic)
        if topic == self._covered:
            self.sources.covered(payload, topic)
            return []
        if topic == self._pointer_topic:
            self.directory.pointed(payload, topic)
            return []
        area, levels = _parse(topic, root=self._root)
        if area is Area.DIRECTORY:
            try:
                change, effects = self.directory.entry(levels, payload, topic, now)
            except FrameError:
                self.filters.unreadable(levels)
                raise
            effects += self.subscriptions.changed(change)
            effects += self.filters.changed(change, now)
            if change.kind in ("node", "recorder"):
                effects += self.sources.changed()
            return effects + self._operations.look()
        if levels[0] == "answer":
            return self.subscriptions.answered(topic, payload)
        if levels[0] == "filtered" and len(levels) == 3:
            return self.filters.acknowledged(levels[2], payload, topic)
        if levels[0] == "again" and len(levels) == 4:
            return self.subscriptions.missing.redelivered(levels[2], levels[3], payload, home)
        if levels[0] == "lost" and len(levels) == 4:
            return self.subscriptions.missing.not_available(levels[2], levels[3], payload, home)
        return self.sources.acknowledged(levels, payload, topic)

    # From the application.

    def wait_known(self, timeout: int, operation: object) -> list[ClientEffect]:
        """Wait until the directory was read."""
        error = BusError("the directory could not be read", given=f"after {timeout / SECOND:.1f} s", where=self._server)
        return self._operations.begin(operation, lambda: self.directory.known, timeout, lambda: error)

    def wait_for_nodes(self, n: int, timeout: int, operation: object) -> list[ClientEffect]:
        """Wait for n broker nodes."""
        nodes = self.entries.nodes

        def failed() -> DistcedError:
            advice = "start one with `distced broker`"
            return SubscriptionError("too few broker nodes", given=f"{len(nodes)}", allowed=f"{n}", advice=advice)

        return self._operations.begin(operation, lambda: len(nodes) >= n, timeout, failed)

    def register(
        self, event_type: EventType, home: str, operation: object, awaited: Container[str] = ()
    ) -> list[ClientEffect]:
        """Register an event type, at home at `home` where it names no server.

        One that differs from a known one of its name is a `TypeRegistryError`. One may be derived from a type of
        composite events, which detectors publish, or which is `awaited`.
        """
        base = self.directory.composite_base(event_type)
        unread_base = base if base not in awaited else ""
        if not unread_base:
            self.directory.check_new(event_type, awaited)
            if event_type.name in self.entries.types:
                return self._register(event_type, home, operation, awaited)
        waiting = [operation]

        def known() -> list[ClientEffect]:
            if not waiting:
                return []
            if unread_base and not self.directory.has_read(unread_base):
                return self.directory.read(unread_base, known)
            self._timers.cancel(late.number)
            try:
                return self._register(event_type, home, waiting.pop(), awaited)
            except TypeRegistryError as differs:
                return [Done(operation, differs)]

        def unread(now: int) -> list[ClientEffect]:
            return [Done(waiting.pop(), self.directory.unread(event_type.name, self._server))] if waiting else []

        late = self._timers.set(self.patience, unread)
        return [late, *self.directory.read(event_type.name, known)]

    def _register(
        self, event_type: EventType, home: str, operation: object, awaited: Container[str]
    ) -> list[ClientEffect]:
        self.directory.check_new(event_type, awaited)
        name, types = event_type.name, self.entries.types
        chosen = types.get(name) or replace(event_type, home=event_type.home or home)

        def check() -> DistcedError | None:
            # Another client may have been quicker.
            try:
                self.directory.check_new(chosen, awaited)
            except TypeRegistryError as differs:
                return differs
            return None

        late = BusError("the server has not confirmed an event type", given=name, where=self._server)
        put = self.directory.put("type", name, chosen)
        return [
            put,
            *self._operations.begin(operation, lambda: name in types, self.patience, lambda: late, check=check),
        ]

    def read_detectors(self, operation: object) -> list[ClientEffect]:
        """Read the entries of all detectors, from now on."""
        read = self._operations.begin(
            operation,
            lambda: self.directory.has_read(""),
            self.patience,
            lambda: self.directory.unread("all", self._server),
        )
        return [*read, *self.directory.read("", self._operations.look)]

    def unregister(self, name: str, operation: object) -> list[ClientEffect]:
        """Remove an event type; one that others are derived from is a `TypeRegistryError`."""
        self.directory.type(name)
        self.entries.registry().unregister(name)
        types = self.entries.types
        gone = self._operations.begin(operation, lambda: name not in types, self.patience, lambda: None)
        return [self.directory.clear("type", name), *gone]

    def open_sources(self, sources: Sequence[SourceState], lease: int, operation: object) -> list[ClientEffect]:
        """Open sources, all or none; `lease` in ns, 0 for ever."""
        return self.sources.open(sources, lease, operation)

    def close_source(self, name: str, operation: object) -> list[ClientEffect]:
        """End a source, unless it has ended."""
        return self.sources.close([name], lambda: [Done(operation)])

    def fence(self, source: str) -> list[ClientEffect]:
        """Have detectors go on without a source, and those to come not wait for it."""
        topic = administration_topic("fence", source, root=self._root)
        return [Publish(topic, b""), self.directory.clear("source", source)]

    def subscribe(
        self, subscription: SubscriptionState, definitions: Mapping[str, str], operation: object
    ) -> list[ClientEffect]:
        """Subscribe to a pattern, or to an event type by its name."""
        return self.subscriptions.request(subscription, dict(definitions), operation)

    def subscribe_many(
        self,
        subscriptions: Sequence[SubscriptionState],
        definitions: Mapping[str, str],
        errors: dict[str, DistcedError],
        operation: object,
    ) -> list[ClientEffect]:
        """Subscribe to several patterns or types; the errors of those that are refused go into `errors`, by id."""
        return self.subscriptions.request_all(subscriptions, dict(definitions), errors, operation)

    def unsubscribe(self, subscription: str) -> list[ClientEffect]:
        """End a subscription, unless it has ended."""
        return self.subscriptions.end(subscription)

    def unsubscribe_many(
        self, subscriptions: Iterable[str], operation: object, *, forget: bool = False
    ) -> list[ClientEffect]:
        """End subscriptions, unless they have ended; those that are durable for good where they are to be forgotten."""
        return self.subscriptions.end_all(subscriptions, operation, forget=forget)

    def stop(self, operation: object) -> list[ClientEffect]:
        """End all subscriptions and sources, and leave the directory; the connections end afterwards."""
        effects = [*self.subscriptions.stop(), *self.filters.stop()]
        return effects + self.sources.close(
            list(self.sources.sources), lambda: [self.directory.stop(), Done(operation)]
        )
