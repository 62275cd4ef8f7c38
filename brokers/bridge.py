"""Bridge, sans-I/O: messages of devices become events by mappings (docs/how-to/mappings.md, docs/how-to/broker.md).

It registers the event types of its mappings, announces a source with its first event, and promises one watermark for
all its sources: the present less the `lateness` allowed. Late events go to the dead letters, as do rejected messages.

The bridge itself is a source that never publishes, so that detectors wait for it from the start and are not beyond the
first event of an unknown device. Announcing all devices beforehand was rejected: only their messages name them.

Its messages are numbered as those of any source (`middleware.wire.published_streams`). What devices have published
while the bridge had no connection it has missed: it says so in its own streams, of each type, before its watermark goes
on.

Its entries carry its name as their publisher, so that after a crash its next life finds and clears them; until then
their lease lets detectors continue without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from distced.brokers.core.dead_letters import DeadLetters
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Publish, Subscribe, warning
from distced.middleware.mapping import Mapping
from distced.middleware.model.errors import DistcedError, TypeRegistryError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MINUTE, SECOND, format_duration
from distced.middleware.wire.administration import RENEW_EVERY, Filtered, Heartbeat, Missing, renewal
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import ClientEntry, SourceEntry
from distced.middleware.wire.directory_handshake import DirectoryHandshake
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.numbered_stream import SUBSCRIBED_WITHIN, Loss
from distced.middleware.wire.published_streams import PublishedStreams
from distced.middleware.wire.source_filter import CONCERNS, SourceFilter
from distced.middleware.wire.topics import (
    ROOT,
    Area,
    administration_topic,
    area_filter,
    check_root,
    directory_topic,
    event_topic,
    matches,
    parse_topic,
)

LATENESS: Final = 2 * SECOND
LEASE: Final = MINUTE

MOST_SOURCES: Final = 10_000
"""Number of sources above which a mapping is assumed to take the wrong field for the source."""

RECONCILE_EVERY: Final = 2 * SECOND

_MISSED: Final = "the bridge had no connection: messages of devices may be missing"


class Bridge:
    """Turns the messages of devices into events.

    Attributes:
        name: unique among bridges, clients and sources; its own as a source.
        since: start, ns.
        lateness: time after its `hi` in which an event may arrive, ns.
        lease: silence after which detectors continue without its sources, ns; 0 for ever.
        retained: whether messages that were retained before the start become events.
        home: the home server of the event types it registers.
        watermark: no event with `hi` at or before it is published, ns; it only grows.
        sources: types of each announced source, by name, in order of announcement; itself among them, with all.
        streams: of their messages.
        listening: whether the directory was read and the devices were subscribed to.
        ready: whether the server has taken these subscriptions.
        problem: error that keeps it from beginning; None for none.
        counts: messages received, events published, late ones, rejections, retained messages ignored, and events left
            out, as nobody reads them.
        filter: leaves these out, where it is enabled (`middleware.wire.source_filter`).
    """

    def __init__(
        self,
        name: str,
        mappings: Sequence[Mapping],
        now: int,
        *,
        lateness: int = LATENESS,
        lease: int = LEASE,
        retained: bool = False,
        home: str = "",
        root: str = ROOT,
        filters: bool = False,
    ) -> None:
        self.name = name
        self.since = now
        self.mappings = tuple(mappings)
        self.lateness = lateness
        self.lease = lease
        self.retained = retained
        self.home = home
        self.root = root
        self.watermark = now - lateness
        self.directory = Directory()
        self._types = list(_types_of(self.mappings))
        self.sources: dict[str, list[str]] = {}
        self.streams = PublishedStreams()
        # Numbers with which the streams of each source begin.
        self._first: dict[str, int] = {}
        for each in self._types:
            self._add(name, each.name, now)
        self.listening = False
        self.ready = False
        self.problem: DistcedError | None = None
        self.dead_letters = DeadLetters(name, root)
        self.counts = {"messages": 0, "events": 0, "late": 0, "rejected": 0, "retained": 0, "left_out": 0}
        self.filter = SourceFilter(filters)
        self.filter.publishes([each.name for each in self._types], now)
        self._own = f"{check_root(root)}/"
        self._directory_filter = area_filter(Area.DIRECTORY, root=root)
        self._handshake = DirectoryHandshake(name, root)
        self._asked = administration_topic("missing", "source", name, root=root)
        self._connections = 0
        # Whether the directory is being read; afterwards the handshake stands behind the subscriptions to devices.
        self._reading = False
        self._missing: set[tuple[str, str]] = set()
        self._reconciled_at = self._renewed_at = now

    # From the driver.

    def start(self, now: int) -> list[Effect]:
        """Effects of a connection, perhaps a repeated one: the bridge reads the directory first."""
        self._connections += 1
        self._reading = True
        self.directory = Directory()
        self._missing = set()
        self.filter.lost()
        return [
            *(self._missed(now) if self.listening else ()),
            Subscribe(self._directory_filter),
            Subscribe(self._asked),
            Subscribe(self._handshake.topic),
            self._present(),
            self._handshake.begin(now),
        ]

    def stop(self) -> list[Effect]:
        """Effects of the end: the bridge withdraws its sources."""
        left = list(self.sources) if self.listening else []
        self.listening = self.ready = False
        return [*(self._clear(each) for each in left), self.will()]

    def will(self) -> Publish:
        """Last will, published when the bridge is lost."""
        return Publish(directory_topic("client", self.name, root=self.root), b"", retain=True)

    def receive(self, topic_filter: str, topic: str, payload: bytes, retained: bool, now: int) -> list[Effect]:
        """Effects of a message through a filter; one that matches several filters comes once through each."""
        if topic_filter == self._directory_filter:
            return self._entry(topic, payload, now)
        if topic_filter == self._handshake.topic:
            return self._known(now) if self._handshake.answered(payload) else []
        if topic_filter == self._asked:
            with suppress(DistcedError):  # No request that anything can be made of.
                return list(self.streams.answer(decode(payload, Missing, where=topic), root=self.root))
            return []
        if not self.listening or topic.startswith(self._own):
            return []  # Its own events, through a mapping of all topics.
        effects: list[Effect] = []
        for mapping in self.mappings:
            if topic_filter == next((each for each in mapping.topics if matches(each, topic)), None):
                effects += self._message(mapping, topic, payload, retained, now)
        return effects

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time, for all sources; call it a few times a second while connected."""
        if not self.listening:
            return list(self._handshake.again(now))
        self.watermark = max(self.watermark, now - self.lateness)
        positions = [
            tuple([self.streams.position(source, each, self.watermark) for each in types])
            for source, types in self.sources.items()
        ]
        for source in self.sources:
            self.streams.promise(source, self.watermark)
        beat = Heartbeat(tuple(self.sources), self.watermark, tuple(positions))
        heartbeat = Publish(administration_topic("heartbeat", self.name, root=self.root), encode(beat))
        effects: list[Effect] = [*self._handshake.again(now), heartbeat, *self.dead_letters.tick(now)]
        if now - self._renewed_at >= RENEW_EVERY:
            self._renewed_at = now
            effects.append(renewal("client", self.name, root=self.root))
        if now - self._reconciled_at >= RECONCILE_EVERY:
            self._reconciled_at = now
            effects += self._reconcile()
            self.filter.look(self.directory, now)
        return effects

    # Messages of devices.

    def _message(self, mapping: Mapping, topic: str, payload: bytes, retained: bool, now: int) -> list[Effect]:
        if retained and not (self.retained and self._connections == 1):
            self.counts["retained"] += 1
            return []
        self.counts["messages"] += 1
        events, rejected = mapping.map(topic, payload, now)
        self.counts["rejected"] += len(rejected)
        effects: list[Effect] = []
        for each in rejected:
            effects += self.dead_letters.message("rejected", each.error, topic, payload)
        for (source, type_name), group in groupby(events, key=lambda event: (event.source, event.type)):
            try:
                effects += self._publish(source, type_name, list(group), topic, now)
            except DistcedError as error:
                # A source whose name is too long for a topic.
                self.counts["rejected"] += 1
                effects += self.dead_letters.message("rejected", error, topic, payload)
        return effects

    def _publish(self, source: str, type_name: str, events: list[Event], topic: str, now: int) -> list[Effect]:
        effects: list[Effect] = []
        timely = [event for event in events if event.hi > self.watermark]
        for event in events:
            if event.hi <= self.watermark:
                behind = format_duration(max(now - event.hi, 0))
                problem = f"it came {behind} after its time, more than a lateness of {format_duration(self.lateness)}"
                self.counts["late"] += 1
                effects += self.dead_letters.event("late", problem, event, topic)
        if not timely:
            return effects
        if source not in self.sources and len(self.sources) >= MOST_SOURCES:
            self.counts["rejected"] += len(timely)
            problem = f"more than {MOST_SOURCES} sources: does the mapping take the right field for the source?"
            for event in timely:
                effects += self.dead_letters.event("rejected", problem, event, topic)
            return effects
        topic = event_topic(type_name, source, root=self.root)
        if self.filter.enabled:
            wanted = [event for event in timely if self.filter.passes(event)]
            self.counts["left_out"] += len(timely) - len(wanted)
            timely = wanted
            if not timely:
                return effects
        effects += self._announced(source, type_name, now)
        self.counts["events"] += len(timely)
        number, top = self.streams.position(source, type_name, None)
        frame = encode_frame(timely, type=type_name, source=source, number=number, top=top)
        self.streams.published(source, type_name, frame, max(each.hi for each in timely), now)
        return [*effects, Publish(topic, frame)]

    def _missed(self, now: int) -> list[Effect]:
        """Statements that messages of devices may be missing, to the readers of each type."""
        effects: list[Effect] = []
        loss = Loss(self.watermark, now + SUBSCRIBED_WITHIN, _MISSED)
        for each in self.sources[self.name]:
            number, top = self.streams.position(self.name, each, None)
            frame = encode_frame([], type=each, source=self.name, number=number, top=top, losses=[loss])
            self.streams.published(self.name, each, frame, loss.until, now)
            effects.append(Publish(event_topic(each, self.name, root=self.root), frame))
        return effects

    def _add(self, source: str, type_name: str, now: int) -> None:
        """Begin the stream of a type."""
        self.sources.setdefault(source, []).append(type_name)
        first = self._first.setdefault(source, max(now // 1_000, 0))
        self.streams.begin(source, type_name, first)

    def _announced(self, source: str, type_name: str, now: int) -> list[Effect]:
        """Announcement of a source, or of a further type that it publishes, where that is new."""
        if type_name in self.sources.get(source, ()):
            return []
        self._add(source, type_name, now)
        effects: list[Effect] = []
        other = self.directory.sources.get(source)
        if other is not None and other.publisher != self.name:
            effects.append(warning("source claimed twice", source=source, publisher=other.publisher))
        return [*effects, self._announce(source)]

    # The directory.

    def _entry(self, topic: str, payload: bytes, now: int) -> list[Effect]:
        levels: tuple[str, ...] = ()
        try:
            levels = parse_topic(topic, root=self.root).levels
            change = self.directory.read(levels, payload, where=topic)
        except DistcedError:
            # The nodes report it.
            if levels[:1] == ("reader",):
                self.filter.unreadable(levels[-1])
            return []
        if change.kind not in CONCERNS:
            return []
        effects: list[Effect] = []
        if change.kind == "reader":
            effects += self._acknowledged(self.filter.declared(change.name, change.entry, now))
        self.filter.look(self.directory, now)
        return effects

    def _acknowledged(self, acks: Iterable[tuple[str, Filtered]]) -> list[Effect]:
        """Acknowledgements of declarations."""
        return [
            Publish(administration_topic("filtered", reader, self.name, root=self.root), encode(ack))
            for reader, ack in acks
        ]

    def _known(self, now: int) -> list[Effect]:
        """Continue behind a barrier: first the directory is read, then devices are subscribed to."""
        if self._reading:
            self._reading = False
            return self._begin(now)
        self.ready = self.listening
        return []

    def _begin(self, now: int) -> list[Effect]:
        """Register the types, announce the sources, clear entries of an earlier life, subscribe to devices."""
        registry = self.directory.registry()
        try:
            for each in self._types:
                registry.register(each)
        except TypeRegistryError as error:
            self.problem = error
            return [warning("event type refused", reason=str(error))]
        effects: list[Effect] = [
            Publish(
                directory_topic("type", each.name, root=self.root), encode(replace(each, home=self.home)), retain=True
            )
            for each in self._types
            if each.name not in self.directory.types
        ]
        effects += [self._announce(each) for each in self.sources]
        for source, entry in self.directory.sources.items():
            if entry.publisher == self.name and source not in self.sources:
                effects.append(self._clear(source))
        if not self.listening:
            self.listening = True
            effects += [Subscribe(each) for each in self._device_filters()]
        if self.filter.enabled:
            effects += self._acknowledged(self.filter.known(self.directory, now))
        return [*effects, self._handshake.begin(now)]

    def _reconcile(self) -> list[Effect]:
        """Restore cleared entries: those of devices with their next event, those of the bridge at once.

        An entry counts as cleared when it is missing twice in a row, for announcements take time to come back. A late
        last will of an earlier connection clears the entry of the bridge as a client.
        """
        known = self.directory
        missing = {("source", each) for each in self.sources if each not in known.sources}
        missing |= {("client", each) for each in (self.name,) if each not in known.clients}
        gone, self._missing = missing & self._missing, missing - self._missing
        effects: list[Effect] = []
        for kind, name in sorted(gone):
            if name != self.name:
                for each in self.sources.pop(name):
                    self.streams.end(name, each)
                del self._first[name]
            else:
                effects.append(self._present() if kind == "client" else self._announce(name))
        return effects

    def _device_filters(self) -> list[str]:
        return list(dict.fromkeys(each for mapping in self.mappings for each in mapping.topics))

    def _present(self) -> Publish:
        topic = directory_topic("client", self.name, root=self.root)
        return Publish(topic, encode(ClientEntry(self.since, declares=True)), retain=True)

    def _announce(self, source: str) -> Publish:
        # Types that are new come last: positions of heartbeats are in their order.
        types, first = tuple(self.sources[source]), self._first[source]
        entry = SourceEntry(types, self.watermark, self.lease, self.name, first=first, filters=self.filter.enabled)
        return Publish(directory_topic("source", source, root=self.root), encode(entry), retain=True)

    def _clear(self, source: str) -> Publish:
        return Publish(directory_topic("source", source, root=self.root), b"", retain=True)


def _types_of(mappings: Sequence[Mapping]) -> TypeRegistry:
    """Event types of all mappings. Raises `TypeRegistryError` where two disagree about a type."""
    registry = TypeRegistry()
    for mapping in mappings:
        for each in mapping.types:
            registry.register(EventType(each.name, each.attributes))
    return registry
