"""The client: register types, publish events, subscribe to types and to patterns.

composite-event-framework-2004, Fig. 5, in Python's idiom. A client is light: it sends pattern text to the broker nodes
over the bus and compiles nothing. It listens to the directory, so it knows the types, the nodes and the sources.

There may be several MQTT servers (`middleware.bus.pool`): that of the directory, to which every client is connected,
that of the client's own site, where its sources publish, and those where detectors publish what it has subscribed to.

Every method may be called from any thread but the bus's own. For asyncio see `middleware.client.aio`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Self

from msgspec.structs import replace

from distced.middleware.bus import Bus, BusState, Message
from distced.middleware.bus.pool import Connections, server_name
from distced.middleware.client.directory_session import Presence
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.source import Source, check_watermark
from distced.middleware.client.source_session import Announcing
from distced.middleware.client.subscription import Subscription
from distced.middleware.client.subscription_session import Subscribing
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError, DistcedError, SubscriptionError, TypeRegistryError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Attribute, Event
from distced.middleware.wire import directory_entries as protocol
from distced.middleware.wire.directory_entries import NODE_CLIENT, DetectorEntry, NodeEntry
from distced.middleware.wire.topics import ROOT, administration_topic, directory_topic


class Client:
    """A connection of an application to distced; a context manager, or `start` and `stop`.

    Attributes:
        name: who this is; unlike all others.
        patience: seconds to wait for broker nodes and servers to answer.
    """

    def __init__(
        self,
        url: str,
        *,
        home: str | None = None,
        name: str | None = None,
        clock: Clock | None = None,
        root: str = ROOT,
        patience: float = 5.0,
    ) -> None:
        """Describe a client; nothing happens before `start`.

        Args:
            url: the MQTT server of the directory, such as `mqtt://127.0.0.1:1883`. Where `home` is left out it may be
                that of the client's own site as well, provided that there are broker nodes, which know where the
                directory is.
            home: the MQTT server of the client's own site, where its sources publish; that of the directory where left
                out.
            name: made up where left out.
            patience: seconds to wait for broker nodes, and for servers that are needed, to answer.
        """
        if name is not None and name.startswith(NODE_CLIENT):
            raise DistcedError(
                "not a name for a client", given=name, advice=f"{NODE_CLIENT} is how nodes call themselves"
            )
        self.name = name or f"client-{uuid.uuid4().hex[:10]}"
        self.clock = clock or SystemClock()
        self.root = root
        self.patience = patience
        self._url = url
        self._finds = home is None
        self._meet(url, home or "")

    # From start to stop.

    def start(self, timeout: float = 10.0) -> Self:
        """Connect and read the directory; raise `BusError` where that does not come about in so many seconds."""
        deadline = time.monotonic() + timeout
        try:
            self._begin(deadline, timeout)
            if self._finds and self._presence.elsewhere:
                self._follow(self._presence.elsewhere, deadline, timeout)
            if self.home:
                error = self._connections.wait(self.home, max(deadline - time.monotonic(), 0.0))
                if error is not None:
                    raise error
        except BusError:
            if self.bus.connected:
                # Its farewell keeps its last will from being published.
                self._presence.clear("client", self.name)
            self._connections.stop(1.0)
            raise
        return self

    def _meet(self, url: str, home: str) -> None:
        """Prepare to connect to the server of the directory, and to that of the own site."""
        self._connections = Connections(
            url,
            home,
            client_id=f"distced-{self.name}",
            clock=self.clock,
            will=Message(directory_topic("client", self.name, root=self.root), b"", 1, True),
            on_state=self._state_changed,
        )
        self._presence = Presence(self.bus, self.name, self.root, self.clock, self.home)
        self._subscribing = Subscribing(self, self._presence, self._connections)
        self._announcing = Announcing(self, self._presence, self._connections)

    def _begin(self, deadline: float, timeout: float) -> None:
        self._presence.listen()
        self._subscribing.listen()
        self._announcing.listen()
        self.bus.start()
        self.bus.wait_connected(max(deadline - time.monotonic(), 0.0))
        if not self._presence.wait(lambda: self._presence.known, max(deadline - time.monotonic(), 0.0)):
            raise BusError("the directory could not be read", given=f"after {timeout} s", where=str(self.bus.address))

    def _follow(self, pointer: str, deadline: float, timeout: float) -> None:
        """The directory is at another server: that of the client's own site is the one it was given."""
        here = server_name(self._url)
        try:
            if server_name(pointer) == here:
                return
            self._presence.clear("client", self.name)
            self._connections.stop()
            self._meet(self._connections.with_login(pointer), self._url)
            self._begin(deadline, timeout)
        except BusError as error:
            advice = f"the server {here} says that the directory is there; name the right one"
            raise BusError(error.problem, given=error.given, where=error.where or pointer, advice=advice) from error

    def stop(self) -> None:
        """Unsubscribe, say of every source that it is done, and disconnect."""
        with suppress(BusError):
            for subscription in self._subscribing.all():
                self.unsubscribe(subscription)
            for source in list(self._sources.values()):
                source.close()
            self._presence.clear("client", self.name)
        self._connections.stop()

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait up to so many seconds until the servers have taken everything published; whether they have."""
        return self._connections.flush(timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bus(self) -> Bus:
        """The connection to the server of the directory."""
        return self._connections.main

    @property
    def home(self) -> str:
        """The server of the client's own site; empty for that of the directory."""
        return self._connections.home

    @property
    def home_bus(self) -> Bus:
        """The connection to the server of the client's own site, perhaps that to the one of the directory."""
        return self._connections.to(self.home)

    @property
    def _sources(self) -> dict[str, Source]:
        return self._announcing.sources

    @property
    def types(self) -> dict[str, EventType]:
        """The event types that are registered, by name."""
        with self._presence.changed:
            return dict(self._presence.directory.types)

    @property
    def nodes(self) -> dict[str, NodeEntry]:
        """The broker nodes, by name."""
        with self._presence.changed:
            return dict(self._presence.directory.nodes)

    @property
    def detectors(self) -> dict[str, DetectorEntry]:
        """The detectors, by id."""
        with self._presence.changed:
            return dict(self._presence.directory.detectors)

    # Types and events.

    def register(self, *types: EventType) -> None:
        """Make event types known to everybody; one that names no home server is at home at this client's.

        A type of the name that is known with other attributes is a `TypeRegistryError`.
        """
        for event_type in types:
            self._check_new(event_type)
            if not event_type.home:
                address = self.bus.address
                event_type = replace(event_type, home=f"{'mqtts' if address.tls else 'mqtt'}://{address}")
            event_type = self.types.get(event_type.name, event_type)
            self._presence.put("type", event_type.name, event_type)
            if not self._presence.wait(lambda name=event_type.name: name in self.types, self.patience):  # type: ignore[misc]
                raise BusError(
                    "the server has not confirmed an event type", given=event_type.name, where=str(self.bus.address)
                )
            # Somebody else may have been quicker.
            self._check_new(event_type)

    def unregister(self, name: str) -> None:
        """Forget an event type; one that others are derived from is a `TypeRegistryError`."""
        self.type(name)
        with self._presence.changed:
            self._presence.directory.registry().unregister(name)
        self._presence.clear("type", name)
        self._presence.wait(lambda: name not in self.types, self.patience)

    def type(self, name: str) -> EventType:
        """The event type of this name, or a `TypeRegistryError` that lists what is known."""
        found = self.types.get(name)
        if found is None:
            known = ", ".join(sorted(self.types)) or "none is registered yet"
            raise TypeRegistryError("unknown event type", given=name, allowed=known, advice="register it first")
        return found

    def published_type(self, name: str) -> EventType:
        """The same for a type that events can be published under, which those derived from others are not."""
        found = self.type(name)
        if found.derived is not None:
            raise TypeRegistryError(
                f"the type {name!r} is derived: no events are published under it",
                given=name,
                allowed=found.derived.base,
                advice=f"subscribe to the pattern [{name}], or take the type it is derived from",
            )
        return found

    def source(
        self,
        name: str,
        types: Iterable[str],
        *,
        watermark: int | None = None,
        lease: int = 0,
        qos: int = 1,
    ) -> Source:
        """Become a source of events of these types; it returns when all broker nodes and recorders count with it.

        Args:
            name: unlike all other sources.
            types: names of registered types.
            watermark: a promise to publish no event with `hi` at or before it, ns; the present where left out.
            lease: how long the source may be silent before detectors go on without it, ns; 0 for ever.
            qos: 0 or 1 for what it publishes.
        """
        (made,) = self.sources({name: tuple(types)}, watermark=watermark, lease=lease, qos=qos)
        return made

    def sources(
        self, named: Mapping[str, Iterable[str]], *, watermark: int | None = None, lease: int = 0, qos: int = 1
    ) -> list[Source]:
        """Become several sources at once; the arguments are those of `source`.

        Raises:
            TypeRegistryError: for a type that nobody publishes.
            SubscriptionError: where broker nodes do not answer; none of the sources is there then.
        """
        floor = check_watermark(self.clock.now() - 1 if watermark is None else watermark)
        if lease < 0:
            raise DistcedError("not a lease", given=lease, allowed="ns, or 0 for ever")
        return self._announcing.open(named, floor, lease, qos)

    def create(
        self, source: Source, type_name: str, lo: int, hi: int | None = None, /, **attributes: Attribute
    ) -> Event:
        """An event of a registered type, the source's next; checked, not yet published."""
        return source.create(type_name, lo, hi, **attributes)

    def publish(self, event: Event) -> None:
        """Publish an event of one of this client's sources."""
        source = self._sources.get(event.source)
        if source is None:
            known = ", ".join(sorted(self._sources)) or "none"
            raise DistcedError(
                "not a source of this client", given=event.source, allowed=known, advice="make it with source()"
            )
        source.publish(event)

    def heartbeat(self, watermark: int, sources: Iterable[Source] | None = None) -> None:
        """Promise for sources, all of this client's where left out, no event with `hi` at or before a watermark."""
        check_watermark(watermark)
        beating = list(self._sources.values() if sources is None else sources)
        for source in beating:
            source.watermark = max(source.watermark, watermark)
        beat = protocol.Heartbeat(tuple(source.name for source in beating), watermark)
        qos = max((source.qos for source in beating), default=0)
        topic = administration_topic("heartbeat", self.name, root=self.root)
        self.home_bus.publish(topic, protocol.encode(beat), qos=qos)

    # Subscriptions.

    def subscribe(
        self,
        pattern: object,
        callback: Callable[[Event], object] | None = None,
        *,
        quality: QualityOfService | None = None,
        definitions: Mapping[str, str] | None = None,
    ) -> Subscription:
        """Subscribe to a pattern, or to an event type by its name.

        Args:
            pattern: pattern text, an expression of the Python binding, an `EventType`, or a registered type's name.
            callback: called with each event, on a thread of its own; without one iterate over the subscription.
            quality: what kind of service is wanted.
            definitions: patterns by name that `pattern` may refer to.

        Raises:
            SubscriptionError: where the pattern is refused, or no broker node answers.
        """
        text = pattern.name if isinstance(pattern, EventType) else str(pattern).strip()
        identity = f"{self.name}.{uuid.uuid4().hex[:8]}"
        subscription = Subscription(self, identity, text, quality or QualityOfService(), callback)
        if text.isidentifier() and text not in (definitions or {}):
            self._subscribing.to_type(subscription, text)
        else:
            self._subscribing.to_pattern(subscription, dict(definitions or {}))
        subscription.begin()
        if subscription.ended:
            # The first match came before the subscription was complete.
            self.unsubscribe(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; what it has received can still be read."""
        self._subscribing.end(subscription)

    def fence(self, source: str) -> None:
        """Have detectors go on without a source, and those to come not wait for it. For administrators.

        What it sends afterwards is late, until it announces itself anew.
        """
        self.bus.publish(administration_topic("fence", source, root=self.root), b"", qos=1)
        self._presence.clear("source", source)

    def wait_for_nodes(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until so many broker nodes are there."""
        if not self._presence.wait(lambda: len(self.nodes) >= count, timeout):
            raise SubscriptionError(
                "too few broker nodes",
                given=f"{len(self.nodes)}",
                allowed=f"{count}",
                advice="start one with `distced broker`",
            )

    # Types.

    def _check_new(self, event_type: EventType) -> None:
        """Raise `TypeRegistryError` where a type cannot be registered beside those there are."""
        with self._presence.changed:
            directory = self._presence.directory
            directory.registry().register(event_type)
            for each in directory.publishers(event_type.name):
                attributes = directory.detectors[each].attributes
                if attributes != event_type.attributes or event_type.derived is not None:
                    raise TypeRegistryError(
                        f"composite events of the type {event_type.name!r} are published already, and differ",
                        given=", ".join(event_type.attributes) or "no attributes",
                        allowed=", ".join(attributes) or "no attributes",
                        advice="choose another name",
                    )

    # On the thread of a bus.

    def _state_changed(self, home: str, state: BusState, error: BusError | None) -> None:
        if state is BusState.CONNECTED and not home:
            self._presence.connected()
        for subscription in self._subscribing.all():
            subscription.connection_changed(home, state, error)
