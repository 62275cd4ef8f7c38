"""Directory session of a client: entries it reads, and its own entries, which it publishes again after a reconnection.

A client reads the types, nodes, sources, clients and recorders, and its own subscriptions, as others may clear them.
Detectors may be a hundred thousand: those that publish a type are read when the type is first subscribed to or
registered, all of them when the application asks, behind a barrier of its own each, and from then on.

It tells where events are published; `subscription_session` decides where a client listens. Entries are retained
messages and outlive a connection; but a server may restart without its memory, and nodes clear the subscriptions of a
client that stays away. So after each connection, once the directory was read, a client publishes again its own entries
that are not there.

At the server of its own site a client may find a pointer to the server of the directory instead, read along with the
directory.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Final, TypeAlias

import msgspec

from distced.middleware.client.client_effects import ClientEffect, SessionTimers
from distced.middleware.client.subscription_state import Place
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.errors import BusError, TypeRegistryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.published_types import PublishedType, agreed
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import RENEW_EVERY, Pointer, renewal
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory import Change, Entries
from distced.middleware.wire.directory_entries import ClientEntry, DetectorEntry, SubscriptionEntry
from distced.middleware.wire.directory_handshake import ASK_EVERY, DirectoryHandshake
from distced.middleware.wire.mqtt_effects import Publish, Subscribe
from distced.middleware.wire.topics import (
    administration_topic,
    composite_topic,
    directory_filter,
    directory_topic,
    event_filter,
    pointer_topic,
)

KINDS_READ: Final = ("type", "client", "source", "node", "recorder", "topology", "reader")
"""Kinds of entries of which a client reads all."""

OF_DURABLE: Final = ("subscription", "durable", "position")
"""Kinds of entries of a durable subscription."""

CLEARED_WITHIN: Final = 30 * SECOND
"""Time after a repeated connection in which nodes may still clear subscriptions, as they have taken the client for
gone, ns; it publishes them again."""

Continuation: TypeAlias = Callable[[], list[ClientEffect]]


class DirectorySession:
    """Directory as a client reads and fills it.

    Attributes:
        entries: the directory as delivered so far.
        handshake: tells whether it was read completely.
        pointer: URL of the server of the directory, where this one has such a pointer; else empty.
        own: the entries that the client keeps, by kind, then by name.
        home: server of the client's site.
        now: instant of the last message, ns.
        metered: whether the link of the client is.
    """

    def __init__(
        self, name: str, root: str, home: str, timers: SessionTimers, *, renew_every: int = RENEW_EVERY
    ) -> None:
        """Args: renew_every: interval of the renewals of the client, ns."""
        self.entries = Entries()
        self.handshake = DirectoryHandshake(name, root)
        self.pointer = ""
        self.own: dict[str, dict[str, msgspec.Struct]] = {}
        self._name = name
        self._root = root
        self.home = home
        self.now = 0
        self._timers = timers
        # Types whose detectors are read, empty for all detectors: whether completely; what waits for that.
        self._read: dict[str, bool] = {}
        self._waiting: dict[str, list[Continuation]] = {}
        self._timer = self._renewal = 0
        self._renew_every = renew_every
        self.metered = renew_every > RENEW_EVERY
        self._renews = 0 if renew_every == RENEW_EVERY else renew_every
        self._connected = False
        # Until when nodes may have taken the client for gone, ns.
        self._returning = 0
        self._stopped = False

    @property
    def known(self) -> bool:
        """Whether the directory was read completely, once."""
        return self.handshake.settled

    @property
    def elsewhere(self) -> str:
        """URL of the server of the directory where it is not here; valid once `known`."""
        return "" if self.entries.nodes else self.pointer

    def type(self, name: str) -> EventType:
        """Event type of this name, or a `TypeRegistryError` that lists the known ones."""
        found = self.entries.types.get(name)
        if found is None:
            known = ", ".join(sorted(self.entries.types)) or "none is registered yet"
            raise TypeRegistryError("unknown event type", given=name, allowed=known, advice="register it first")
        return found

    def published_type(self, name: str) -> EventType:
        """Event type of this name that events are published under, which excludes derived ones."""
        found = self.type(name)
        if found.derived is not None:
            raise TypeRegistryError(
                f"the type {name!r} is derived: no events are published under it",
                given=name,
                allowed=found.derived.base,
                advice=f"subscribe to the pattern [{name}], or take the type it is derived from",
            )
        return found

    def check_new(self, event_type: EventType, awaited: Container[str] = ()) -> None:
        """Raise `TypeRegistryError` where a type cannot be registered beside those there are, and types of composite
        events that are `awaited`."""
        self.entries.registry(self._bases(event_type, awaited)).register(event_type)
        for each in self.entries.publishers(event_type.name):
            published = self.entries.detectors[each].published
            if not published.suits(event_type.attributes) or event_type.derived is not None:
                raise TypeRegistryError(
                    f"composite events of the type {event_type.name!r} are published already, and differ",
                    given=", ".join(event_type.attributes) or "no attributes",
                    allowed=", ".join(published.all_kinds) or "no attributes",
                    advice="choose another name",
                )

    def composite_base(self, event_type: EventType) -> str:
        """Type of composite events that a type is derived from, directly or not; empty for none."""
        root = next(reversed(list(self._bases_of(event_type))), None)
        return "" if root is None or is_clock(root) or root in self.entries.types else root

    def _bases_of(self, event_type: EventType) -> Iterator[str]:
        """Names of the types that a type is derived from, the nearest first."""
        found: EventType | None = event_type
        seen = {event_type.name}
        while found is not None and found.derived is not None and found.derived.base not in seen:
            yield found.derived.base
            seen.add(found.derived.base)
            found = self.entries.types.get(found.derived.base)

    def _bases(self, event_type: EventType, awaited: Container[str]) -> list[PublishedType]:
        """Type of composite events that a type is derived from, as detectors publish it, or are about to."""
        base = self.composite_base(event_type)
        publishers = self.entries.publishers(base) if base else []
        if publishers:
            # Nodes compare them. What does not agree with the first is not read by any detector.
            return [agreed(self.entries.detectors[each].published for each in publishers)]
        if base not in awaited:
            return []
        # The nodes check its attributes, with the patterns.
        between = (self.entries.types[each] for each in self._bases_of(event_type) if each != base)
        derivations = [each.derived for each in (event_type, *between) if each.derived is not None]
        return [PublishedType(base, {name: "number" for each in derivations for name in each.by})]

    # Where events are published.

    def places(self, detector: str, entry: DetectorEntry) -> list[Place]:
        """Places where a detector and its replicas publish."""
        topic = composite_topic(detector, root=self._root)
        return [Place(home, topic) for home in sorted({entry.home, *entry.replicas.values()})]

    def places_of_events(self, type_name: str) -> list[Place]:
        """Places where sources publish a type; a source without an entry does at the server of the directory."""
        homes = {each.home for each in self.entries.sources.values() if type_name in each.types}
        return [self.events_at(home, type_name) for home in sorted(homes | {""})]

    def events_at(self, home: str, type_name: str) -> Place:
        """Place where the sources of a home publish a type."""
        return Place(home, event_filter(type_name, root=self._root))

    def why_unpublished(self, type_name: str) -> str:
        """Reason for which no events of a type can come; empty where they can."""
        known = self.entries.types.get(type_name)
        if self.entries.publishers(type_name) or (known is not None and known.derived is None):
            return ""
        if known is not None:
            return f"the type {type_name} is derived now: no events are published under it"
        return f"the type {type_name} has no publisher any more"

    # Entries of its own.

    def put(self, kind: str, name: str, entry: msgspec.Struct) -> Publish:
        """Publish an entry, and keep it from now on."""
        self.own.setdefault(kind, {})[name] = entry
        return self._published(kind, name)

    def clear(self, kind: str, name: str) -> Publish:
        """Clear an entry of the directory."""
        self.own.get(kind, {}).pop(name, None)
        return Publish(directory_topic(kind, name, root=self._root), b"", retain=True)

    def leave(self, kind: str, name: str, entry: msgspec.Struct) -> Publish:
        """Publish an entry for the last time: it stays without the client."""
        message = self.put(kind, name, entry)
        self.disown(kind, name)
        return message

    def disown(self, kind: str, name: str) -> None:
        """Keep an entry no longer, as it is another client's."""
        self.own.get(kind, {}).pop(name, None)

    def repeat(self, kind: str, name: str) -> Publish:
        """Publish an own entry again."""
        return self._published(kind, name)

    def keeps(self, kind: str, name: str) -> bool:
        """Whether an entry is kept."""
        return name in self.own.get(kind, {})

    def stop(self) -> Publish:
        """Clear the entry of the client itself."""
        self._stopped = True
        self._timers.cancel(self._renewal)
        return self.clear("client", self._name)

    # From the server of the directory.

    def filters(self) -> list[Subscribe]:
        """Subscriptions at the server of the directory, to be made before it is connected."""
        filters = [directory_filter(kind, root=self._root) for kind in KINDS_READ]
        filters.append(directory_filter("subscription", self._name, root=self._root))
        return [Subscribe(each) for each in (*filters, pointer_topic(root=self._root), self.handshake.topic)]

    # Detectors, on demand.

    def unread(self, publishes: str, where: str) -> BusError:
        """Error where the detectors that publish a type could not be read in time."""
        return BusError("detectors could not be read from the directory", given=publishes, where=where)

    def has_read(self, publishes: str) -> bool:
        """Whether the detectors that publish a type were read, or all where it is empty."""
        return self._read.get(publishes, False) or self._read.get("", False)

    def read(self, publishes: str, then: Continuation) -> list[ClientEffect]:
        """Read the detectors that publish a type, all where it is empty, and continue."""
        if self.has_read(publishes):
            return then()
        return self._read_all(publishes, [directory_filter("detector", publishes, root=self._root)], then)

    def read_durable(self, name: str, then: Continuation) -> list[ClientEffect]:
        """Read the entries of a durable subscription, as they are now and from now on, and continue."""
        # Its name begins as that of no type.
        self._read.pop(name, None)
        return self._read_all(name, [directory_topic(kind, name, root=self._root) for kind in OF_DURABLE], then)

    def _read_all(self, publishes: str, filters: list[str], then: Continuation) -> list[ClientEffect]:
        self._waiting.setdefault(publishes, []).append(then)
        if publishes in self._read:
            return []
        self._read[publishes] = False
        return [*map(Subscribe, filters), Subscribe(self._barrier(publishes)), *self._ask(publishes)]

    def passed(self, topic: str) -> list[ClientEffect]:
        """Take a barrier of `read`."""
        publishes = next((each for each in self._waiting if self._barrier(each) == topic), None)
        if publishes is None:
            return []
        self._read[publishes] = True
        return [effect for then in self._waiting.pop(publishes) for effect in then()]

    def _ask(self, publishes: str) -> list[ClientEffect]:
        if publishes not in self._waiting:
            return []
        again = self._timers.set(ASK_EVERY, lambda now: self._ask(publishes))
        return [*([Publish(self._barrier(publishes), b"")] if self._connected else []), again]

    def _barrier(self, publishes: str) -> str:
        levels = ("detectors", publishes) if publishes else ("detectors",)
        return administration_topic("known", self._name, *levels, root=self._root)

    def connected(self, now: int) -> list[ClientEffect]:
        """Announce the client and read the directory, over a new connection."""
        self._connected = True
        if self.own.get("client"):
            self._returning = now + CLEARED_WITHIN
        if self._stopped:
            return []
        return [self._put_itself(now), self.handshake.begin(now), self._ask_later(), self._renew_later()]

    def lost(self) -> None:
        """Take the loss of the connection."""
        self._connected = False

    def entry(self, levels: tuple[str, ...], payload: bytes, topic: str, now: int) -> tuple[Change, list[ClientEffect]]:
        """Take an entry in; raises `FrameError` for a malformed one, which broker nodes report."""
        kind, name = levels[0], levels[-1]
        own = self.own.get(kind, {}).get(name) if len(levels) == 2 else None
        if own is not None and payload == encode(own):
            # It comes back as it was published, and is kept once.
            kept = kind != "subscription" or name in self.entries.subscriptions
            change = self.entries.put(kind, name, own) if kept else Change(kind, name, own, own)
        else:
            change = self.entries.read(levels, payload, where=topic)
        self.handshake.saw(change.kind, change.name)
        effects: list[ClientEffect] = []
        if change.entry is None and self._is_returning(own, now):
            effects.append(self._again_published(name))
        elif change.entry is None and change.kind in ("type", "source", "subscription", "position"):
            # Cleared by another participant, which holds.
            self.own.get(change.kind, {}).pop(change.name, None)
        elif change.entry is None and (change.kind, change.name) == ("client", self._name) and not self._stopped:
            # The last will of a connection that was lost before this one.
            effects.append(self._put_itself(now))
        return change, effects

    def pointed(self, payload: bytes, topic: str) -> None:
        """Take in the pointer to the server of the directory, or that it was cleared."""
        self.pointer = decode(payload, Pointer, where=topic).url if payload else ""

    def answered(self, payload: bytes) -> list[ClientEffect]:
        """Take a barrier; once the directory was read, forget entries that are gone, and put back own ones."""
        if not self.handshake.answered(payload):
            return []
        self._timers.cancel(self._timer)
        for kind, name in self.handshake.unseen(self.entries.names()):
            del self.entries.table(kind)[name]
        missing = list(self.handshake.unseen((kind, name) for kind, names in self.own.items() for name in names))
        self.handshake.forget()
        return [
            self._again_published(name) if kind == "subscription" else self._published(kind, name)
            for kind, name in missing
        ]

    def _is_returning(self, own: msgspec.Struct | None, now: int) -> bool:
        """Whether an own entry is a subscription of which nodes may not know yet that the client is back."""
        return isinstance(own, SubscriptionEntry) and own.durable is None and now < self._returning

    def _again_published(self, subscription: str) -> Publish:
        """Publish an own subscription that was cleared, as one that is not new."""
        subscriptions = self.own["subscription"]
        subscriptions[subscription] = msgspec.structs.replace(subscriptions[subscription], again=True)
        return self._published("subscription", subscription)

    def _published(self, kind: str, name: str) -> Publish:
        return Publish(directory_topic(kind, name, root=self._root), encode(self.own[kind][name]), retain=True)

    def _put_itself(self, now: int) -> Publish:
        return self.put("client", self._name, ClientEntry(now, self.home, declares=True, renews=self._renews))

    def _ask_later(self) -> ClientEffect:
        self._timers.cancel(self._timer)
        timer = self._timers.set(ASK_EVERY, self._again)
        self._timer = timer.number
        return timer

    def _renew_later(self) -> ClientEffect:
        self._timers.cancel(self._renewal)
        timer = self._timers.set(self._renew_every, self._renew)
        self._renewal = timer.number
        return timer

    def _renew(self, now: int) -> list[ClientEffect]:
        if not self._connected or self._stopped:
            return []
        return [renewal("client", self._name, root=self._root), self._renew_later()]

    def _again(self, now: int) -> list[ClientEffect]:
        return [*self.handshake.again(now), self._ask_later()] if self._connected and self.handshake.reading else []
