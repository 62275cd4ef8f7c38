"""The client: register types, publish events, subscribe to types and to patterns.

composite-event-framework-2004, Fig. 5, in Python's idiom. A client is light: it sends pattern text to the broker nodes
over the bus and compiles nothing. It listens to the directory, so it knows the types, the nodes and the sources.

Every method may be called from any thread but the bus's own. For asyncio see `middleware.aio`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from msgspec.structs import replace

from middleware import protocol
from middleware.bus import Bus, BusState
from middleware.clock import Clock, SystemClock
from middleware.errors import BusError, DistcedError, SubscriptionError, TypeRegistryError
from middleware.events import Attribute, Event
from middleware.eventtypes import EventType, TypeRegistry
from middleware.protocol import Acknowledgement, Answer, DetectorEntry, NodeEntry, SourceEntry, SubscriptionEntry
from middleware.quality import QualityOfService
from middleware.source import Source
from middleware.subscription import Subscription
from middleware.timestamps import INSTANT_MIN
from middleware.topics import (
    ROOT,
    Area,
    administration_topic,
    area_filter,
    composite_topic,
    directory_topic,
    event_filter,
    parse_topic,
)


@dataclass(slots=True)
class _Waiting:
    """Somebody waits for an answer."""

    done: threading.Event
    answer: Answer | None = None


class Client:
    """A connection of an application to distced; a context manager, or `start` and `stop`.

    Attributes:
        name: who this is; unlike all others.
        types: the event types that are registered.
        nodes, detectors: the broker nodes and detectors, by name.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        clock: Clock | None = None,
        root: str = ROOT,
        patience: float = 5.0,
    ) -> None:
        """Describe a client; nothing happens before `start`.

        Args:
            url: the MQTT server, such as `mqtt://127.0.0.1:1883`.
            name: made up where left out.
            patience: seconds to wait for broker nodes to answer.
        """
        self.name = name or f"client-{uuid.uuid4().hex[:10]}"
        self.clock = clock or SystemClock()
        self.root = root
        self.patience = patience
        self.types: dict[str, EventType] = {}
        self.nodes: dict[str, NodeEntry] = {}
        self.detectors: dict[str, DetectorEntry] = {}
        self._sources: dict[str, Source] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._acknowledged: dict[str, dict[str, int]] = {}
        self._changed = threading.Condition()
        self._waiting: dict[str, _Waiting] = {}
        self._known = False
        self.bus = Bus(url, client_id=f"distced-{self.name}", clock=self.clock, on_state=self._state_changed)

    # From start to stop.

    def start(self, timeout: float = 10.0) -> Self:
        """Connect and read the directory; raise `BusError` where that does not come about in so many seconds."""
        self.bus.subscribe(area_filter(Area.DIRECTORY, root=self.root), self._directory, qos=1)
        self.bus.subscribe(administration_topic("answer", self.name, root=self.root), self._answered, qos=1)
        self.bus.subscribe(area_filter(Area.ADMINISTRATION, "ack", root=self.root), self._acknowledgement, qos=1)
        self.bus.subscribe(administration_topic("known", self.name, root=self.root), self._directory_read, qos=1)
        self.bus.start()
        try:
            self.bus.wait_connected(timeout)
        except BusError:
            self.bus.stop(0.0)
            raise
        # What the directory retains comes before what is sent behind the subscription to it.
        self.bus.publish(administration_topic("known", self.name, root=self.root), b"", qos=1)
        self._wait(lambda: self._known, timeout)
        return self

    def stop(self) -> None:
        """Unsubscribe, say of every source that it is done, and disconnect."""
        for subscription in list(self._subscriptions.values()):
            self.unsubscribe(subscription)
        for source in list(self._sources.values()):
            source.close()
        self.bus.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Types and events.

    def register(self, *types: EventType) -> None:
        """Make event types known to everybody; one that names no home server is at home at this client's.

        A type of the name that is known with other attributes is a `TypeRegistryError`.
        """
        for event_type in types:
            with self._changed:
                registry = TypeRegistry(self._ordered_types())
            registry.register(event_type)
            if event_type.name in self.types:
                continue
            if not event_type.home:
                event_type = replace(event_type, home=str(self.bus.address))
            topic = directory_topic("type", event_type.name, root=self.root)
            self.bus.publish(topic, protocol.encode(event_type), qos=1, retain=True)
            self._wait(lambda name=event_type.name: name in self.types, self.patience)  # type: ignore[misc]

    def unregister(self, name: str) -> None:
        """Forget an event type."""
        self.type(name)
        self.bus.publish(directory_topic("type", name, root=self.root), b"", qos=1, retain=True)
        self._wait(lambda: name not in self.types, self.patience)

    def type(self, name: str) -> EventType:
        """The event type of this name, or a `TypeRegistryError` that lists what is known."""
        found = self.types.get(name)
        if found is None:
            known = ", ".join(sorted(self.types)) or "none is registered yet"
            raise TypeRegistryError("unknown event type", given=name, allowed=known, advice="register it first")
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
        """Become a source of events of these types; it returns when all broker nodes count with it.

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
        """Become several sources at once; the arguments are those of `source`."""
        floor = self.clock.now() - 1 if watermark is None else watermark
        made: list[Source] = []
        for name, types in named.items():
            published = {each: self.type(each) for each in types}
            if name in self._sources:
                raise DistcedError("a source of this name is open already", given=name, advice="close it, or share it")
            self._acknowledged[name] = {}
            entry = SourceEntry(tuple(published), floor, lease, self.name)
            topic = directory_topic("source", name, root=self.root)
            self.bus.publish(topic, protocol.encode(entry), qos=1, retain=True)
            made.append(Source(self, name, published, floor, qos))
        for source in made:
            if not self._wait(lambda name=source.name: set(self.nodes) <= set(self._acknowledged[name]), self.patience):  # type: ignore[misc]
                silent = sorted(set(self.nodes) - set(self._acknowledged[source.name]))
                raise SubscriptionError(
                    f"broker nodes have not acknowledged the source {source.name!r}",
                    given=", ".join(silent),
                    advice="look whether they still run; a dead one leaves the directory after a while",
                )
            source.watermark = max([floor, *self._acknowledged.pop(source.name).values()])
            self._sources[source.name] = source
        return made

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
        chosen = list(self._sources.values() if sources is None else sources)
        for source in chosen:
            source.watermark = max(source.watermark, watermark)
        beat = protocol.Heartbeat(tuple(source.name for source in chosen), watermark)
        qos = max((source.qos for source in chosen), default=0)
        self.bus.publish(administration_topic("heartbeat", self.name, root=self.root), protocol.encode(beat), qos=qos)

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
        wanted = quality or QualityOfService()
        text = pattern.name if isinstance(pattern, EventType) else str(pattern).strip()
        identity = f"{self.name}.{uuid.uuid4().hex[:8]}"
        subscription = Subscription(self, identity, text, wanted, callback)
        if text.isidentifier() and text not in (definitions or {}):
            self._subscribe_type(subscription, text)
        else:
            self._subscribe_pattern(subscription, text, dict(definitions or {}))
        self._subscriptions[identity] = subscription
        subscription.begin()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; what it has received can still be read."""
        if self._subscriptions.pop(subscription.id, None) is None:
            return
        for topic_filter in subscription.filters:
            self.bus.unsubscribe(topic_filter, subscription.receive)
        if subscription.detector:
            self.bus.publish(directory_topic("subscription", subscription.id, root=self.root), b"", qos=1, retain=True)
        subscription.end()

    def fence(self, source: str) -> None:
        """Have detectors go on without a source; what it sends afterwards is late. For administrators."""
        self.bus.publish(administration_topic("fence", source, root=self.root), b"", qos=1)

    def wait_for_nodes(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until so many broker nodes are there."""
        if not self._wait(lambda: len(self.nodes) >= count, timeout):
            raise SubscriptionError(
                "too few broker nodes",
                given=f"{len(self.nodes)}",
                allowed=f"{count}",
                advice="start one with `distced broker`",
            )

    def _subscribe_type(self, subscription: Subscription, name: str) -> None:
        publishers = [each for each, entry in self.detectors.items() if entry.publishes == name]
        if not publishers:
            self.type(name)
        filters = [composite_topic(each, root=self.root) for each in publishers]
        if name in self.types:
            filters.append(event_filter(name, root=self.root))
        self._listen(subscription, filters)

    def _subscribe_pattern(self, subscription: Subscription, text: str, definitions: dict[str, str]) -> None:
        quality = subscription.quality
        entry = SubscriptionEntry(
            self.name, text, definitions, quality.consumption, quality.detection, quality.constituents
        )
        topic = directory_topic("subscription", subscription.id, root=self.root)
        waiting = self._waiting[subscription.id] = _Waiting(threading.Event())
        self.bus.publish(topic, protocol.encode(entry), qos=1, retain=True)
        try:
            offer = self._await_answer(subscription.id, waiting)
            subscription.detector, subscription.node = offer.detector, offer.node
            self._listen(subscription, [composite_topic(offer.detector, root=self.root)])
            waiting.done.clear()
            self.bus.publish(administration_topic("ready", subscription.id, root=self.root), b"", qos=1)
            self._await_answer(subscription.id, waiting)
        except DistcedError:
            self.bus.publish(topic, b"", qos=1, retain=True)
            for topic_filter in subscription.filters:
                self.bus.unsubscribe(topic_filter, subscription.receive)
            raise
        finally:
            del self._waiting[subscription.id]

    def _await_answer(self, identity: str, waiting: _Waiting) -> Answer:
        if not waiting.done.wait(self.patience) or waiting.answer is None:
            raise SubscriptionError(
                "no broker node has answered",
                given=f"after {self.patience} s",
                allowed=f"{len(self.nodes)} nodes are known",
                where=str(self.bus.address),
                advice="start one with `distced broker`" if not self.nodes else "look at the log of the nodes",
            )
        answer = waiting.answer
        if answer.state == "refused":
            raise SubscriptionError(answer.message, where=f"node {answer.node}")
        return answer

    def _listen(self, subscription: Subscription, filters: list[str]) -> None:
        subscription.filters = filters
        for topic_filter in filters:
            self.bus.subscribe(topic_filter, subscription.receive, qos=1, timeout=self.patience)

    # On the thread of the bus.

    def _state_changed(self, state: BusState, error: BusError | None) -> None:
        for subscription in list(self._subscriptions.values()):
            subscription.connection_changed(state is BusState.CONNECTED)

    def _directory_read(self, topic: str, payload: bytes, retain: bool) -> None:
        with self._changed:
            self._known = True
            self._changed.notify_all()

    def _directory(self, topic: str, payload: bytes, retain: bool) -> None:
        kind, name = (*parse_topic(topic, root=self.root).levels, "")[:2]
        tables: dict[str, tuple[dict[str, object], type]] = {
            "type": (self.types, EventType),  # type: ignore[dict-item]
            "node": (self.nodes, NodeEntry),  # type: ignore[dict-item]
            "detector": (self.detectors, DetectorEntry),  # type: ignore[dict-item]
        }
        if kind not in tables:
            return
        table, entry_type = tables[kind]
        with self._changed:
            if payload:
                table[name] = protocol.decode(payload, entry_type, where=topic)
            else:
                table.pop(name, None)
            self._changed.notify_all()

    def _acknowledgement(self, topic: str, payload: bytes, retain: bool) -> None:
        levels = parse_topic(topic, root=self.root).levels
        if len(levels) == 3 and levels[1] in self._acknowledged:
            acknowledged = protocol.decode(payload, Acknowledgement, where=topic)
            with self._changed:
                self._acknowledged[levels[1]][levels[2]] = max(acknowledged.watermark, INSTANT_MIN)
                self._changed.notify_all()

    def _answered(self, topic: str, payload: bytes, retain: bool) -> None:
        answer = protocol.decode(payload, Answer, where=topic)
        waiting = self._waiting.get(answer.subscription)
        if waiting is not None:
            waiting.answer = answer
            waiting.done.set()

    def _wait(self, until: Callable[[], bool], timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(until, timeout)

    def _ordered_types(self) -> list[EventType]:
        """The types, bases before those derived from them."""
        ordered: dict[str, EventType] = {}

        def add(event_type: EventType) -> None:
            if event_type.derived is not None and event_type.derived.base in self.types:
                add(self.types[event_type.derived.base])
            ordered.setdefault(event_type.name, event_type)

        for event_type in list(self.types.values()):
            add(event_type)
        return list(ordered.values())

    def _forget_source(self, source: Source) -> None:
        self._sources.pop(source.name, None)
