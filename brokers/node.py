"""A broker node: it is told what messages arrive and what time it is, and says what is to be done.

composite-event-framework-2004, "Mobile Composite Event Detectors" and "Implementation using JMS"; design, section 4.
The node is sans-I/O: the same object runs live, on MQTT and the wall clock, and in simulations. It keeps a view of the
directory, hosts detectors for the subscriptions that fall to it, hands events to them and their composite events on.

A subscription comes about in steps, so that nothing is lost: the node that is chosen builds the detector and offers its
topic; the client listens and says that it is ready; the node subscribes to what the detector reads, and answers that it
is active. A detector stays where it is as long as its node lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from brokers.dead_letters import DeadLetters
from brokers.directory import Change, Directory
from brokers.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from brokers.inputs import Fits, fitting, what_is_wrong
from brokers.placement import chosen
from detectors.compilation import compile_pattern
from detectors.detector import Detected, Detector, detector_id
from middleware.errors import DistcedError
from middleware.events import CompositeEvent
from middleware.eventtypes import EventType, Kind, TypeRegistry
from middleware.protocol import (
    Acknowledgement,
    Answer,
    DetectorEntry,
    Heartbeat,
    NodeEntry,
    SourceEntry,
    SubscriptionEntry,
    decode,
    encode,
)
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
from middleware.wire import decode_any
from middleware.wire import encode as encode_frame
from policies.detection import Guaranteed, detection_policy

STATUS_EVERY: Final = 2_000_000_000
"""How often a node says how it is, ns."""


@dataclass(slots=True)
class Hosted:
    """A detector on this node.

    Attributes:
        detector: the detector.
        subscriptions: the ids of those it serves, and whether their clients are ready.
        reads: the published types it reads, those of primitive events and of composite ones; None for all.
        active: whether its inputs are subscribed to.
        told: the watermark it has published last, ns; None for none.
        constituents: whether somebody wants the constituents sent along.
    """

    detector: Detector
    subscriptions: dict[str, bool]
    reads: frozenset[str] | None
    active: bool = False
    told: int | None = None
    constituents: bool = False


@dataclass(slots=True)
class Route:
    """What a topic of events leads to.

    Attributes:
        type: the type of the events; None where it is not known.
        fits: the quick test of their attributes.
        detector: where they are composite events, the detector they come from; empty otherwise.
        hosted: the detectors that read them.
    """

    type: EventType | None
    fits: Fits
    detector: str = ""
    hosted: list[Hosted] = field(default_factory=list)


class Node:
    """A broker node.

    Attributes:
        name: unlike all others.
        since: when it came up, ns.
        directory: what is known.
        hosted: the detectors it hosts, by id.
        counts: what it has done so far.
        dead_letters: what could not be used.
    """

    def __init__(self, name: str, now: int, *, root: str = ROOT, inspects: bool = True) -> None:
        self.name = name
        self.since = now
        self.root = root
        self.inspects = inspects
        self.directory = Directory()
        self.hosted: dict[str, Hosted] = {}
        self.by_subscription: dict[str, str] = {}
        self.dead_letters = DeadLetters(name, root)
        self.counts = {"frames": 0, "events": 0, "composite events": 0, "late": 0, "duplicates": 0}
        self._routes: dict[str, Route] = {}
        self._wanted: Counter[str] = Counter()
        self._filters: set[str] = set()
        self._status: bytes = b""
        self._status_at = now
        self._settled = False
        self._inspecting = False

    # From the driver.

    def start(self) -> list[Effect]:
        """The node is connected, or connected again."""
        effects: list[Effect] = [
            Subscribe(area_filter(Area.DIRECTORY, root=self.root)),
            Subscribe(area_filter(Area.ADMINISTRATION, root=self.root)),
        ]
        return [*effects, self._announce()]

    def will(self) -> Publish:
        """What is to be published when the node is lost."""
        return Publish(directory_topic("node", self.name, root=self.root), b"", retain=True)

    def stop(self) -> list[Effect]:
        """The node is to end: it takes its entries out of the directory."""
        cleared: list[Effect] = [self._clear("detector", name) for name in self.hosted]
        return [*cleared, self.will()]

    def receive(self, topic: str, payload: bytes, now: int) -> list[Effect]:
        """A message has arrived."""
        route = self._routes.get(topic)
        if route is not None:
            return self._events(route, topic, payload, now)
        try:
            area, levels = parse_topic(topic, root=self.root)
            if area in (Area.EVENTS, Area.COMPOSITE_EVENTS):
                return self._events(self._route(topic, area, levels), topic, payload, now)
            if area is Area.DIRECTORY:
                return self._directory(levels, payload, now, topic)
            if area is Area.ADMINISTRATION:
                return self._administration(levels, payload, now, topic)
        except DistcedError as error:
            return [self.dead_letters.message("malformed", str(error), topic, payload)]
        return []

    def tick(self, now: int) -> list[Effect]:
        """Time has passed; call it a few times a second."""
        effects: list[Effect] = []
        if not self._settled and self.name in self.directory.nodes:
            # The directory is retained messages, and its own entry came back: the rest is there as well.
            self._settled = True
            effects += self._take_up(now)
        effects += self._inspect()
        for hosted in list(self.hosted.values()):
            if hosted.active:
                effects += self._detected(hosted, hosted.detector.tick(now))
        if now - self._status_at >= STATUS_EVERY:
            self._status_at = now
            status = self._announce()
            if status.payload != self._status:
                self._status = status.payload
                effects.append(status)
        return effects

    # Events.

    def _events(self, route: Route, topic: str, payload: bytes, now: int) -> list[Effect]:
        self.counts["frames"] += 1
        try:
            frame = decode_any(payload, where=topic, now=now)
        except DistcedError as error:
            return [self.dead_letters.message("malformed", str(error), topic, payload)]
        effects: list[Effect] = [self.dead_letters.row(each, topic) for each in frame.rejected]
        events = frame.events
        if route.type is None:
            problem = f"no event type {frame.type!r} is registered"
            effects += [self.dead_letters.event("unknown-type", problem, each, topic) for each in events]
            return effects
        if frame.type != route.type.name:
            problem = f"a frame of {frame.type!r} on the topic of {route.type.name!r}"
            return [*effects, self.dead_letters.message("malformed", problem, topic, payload)]
        fits = route.fits
        if not all(fits(event.attributes) for event in events):
            for event in events:
                if not fits(event.attributes):
                    problem = what_is_wrong(event, route.type, topic)
                    effects.append(self.dead_letters.event("mistyped", problem, event, topic))
            events = [event for event in events if fits(event.attributes)]
        self.counts["events"] += len(events)
        source = route.detector or frame.source
        for hosted in route.hosted:
            if hosted.active:
                effects += self._detected(hosted, hosted.detector.receive(source, events, frame.watermark, now))
        return effects

    def _detected(self, hosted: Hosted, detected: Detected) -> list[Effect]:
        effects: list[Effect] = []
        if detected.late:
            self.counts["late"] += len(detected.late)
            problem = f"late for detector {hosted.detector.id}, which is beyond it"
            where = hosted.detector.id
            effects += [self.dead_letters.event("late", problem, each, where) for each in detected.late]
        self.counts["duplicates"] += detected.duplicates
        found = detected.events
        watermark = detected.watermark
        if found or (watermark is not None and watermark != hosted.told):
            self.counts["composite events"] += len(found)
            hosted.told = watermark
            effects.append(self._composite_frame(hosted, found, watermark))
        return effects

    def _composite_frame(self, hosted: Hosted, found: list[CompositeEvent], watermark: int | None) -> Effect:
        detector = hosted.detector
        if not hosted.constituents:
            found = [_without_constituents(each) for each in found]
        canonical = detector.compiled.automaton.canonical_id
        payload = encode_frame(
            found,
            type=detector.compiled.publishes.name or canonical,
            source=canonical,
            watermark=watermark,
            kind="c",
            check=False,
        )
        return Publish(composite_topic(detector.id, root=self.root), payload)

    # The directory.

    def _directory(self, levels: tuple[str, ...], payload: bytes, now: int, topic: str) -> list[Effect]:
        change = self.directory.read(levels, payload, where=topic)
        if change.entry == change.before:
            return []
        if change.kind in ("type", "detector"):
            self._routes.clear()
        match change.kind:
            case "source":
                return self._source_changed(change, now)
            case "subscription":
                if change.entry is None:
                    return self._unsubscribed(change.name)
                return self._consider(change.name, change.entry, now) if self._settled else []
            case "node":
                return self._take_up(now) if change.entry is None and self._settled else []
            case "detector":
                return self._detector_changed(change, now)
        return []

    def _source_changed(self, change: Change, now: int) -> list[Effect]:
        name = change.name
        effects: list[Effect] = []
        if change.entry is None:
            for hosted in self._reading(change.before):
                effects += self._detected(hosted, hosted.detector.leave(name, now))
            return effects
        entry: SourceEntry = change.entry
        watermark = entry.watermark
        for hosted in self._reading(entry):
            watermark = max(watermark, hosted.detector.join(name, entry.watermark, now, entry.lease))
        topic = administration_topic("ack", name, self.name, root=self.root)
        return [Publish(topic, encode(Acknowledgement(watermark)))]

    def _detector_changed(self, change: Change, now: int) -> list[Effect]:
        """A detector elsewhere has come or gone: whoever reads its composite events waits for it, or no more."""
        effects: list[Effect] = []
        entry: DetectorEntry = change.entry or change.before
        for hosted in self.hosted.values():
            if hosted.reads is None or entry.publishes not in hosted.reads or not hosted.active:
                continue
            if change.entry is None:
                effects += self._detected(hosted, hosted.detector.leave(change.name, now))
            elif change.before is None:
                hosted.detector.join(change.name, _floor(hosted), now)
                effects += self._subscribe(composite_topic(change.name, root=self.root))
        if change.entry is None and self._settled and entry.node not in self.directory.nodes:
            effects += self._take_up(now)
        return effects

    def _reading(self, entry: SourceEntry) -> Iterable[Hosted]:
        types = set(entry.types)
        return [h for h in self.hosted.values() if h.active and (h.reads is None or h.reads & types)]

    # Subscriptions.

    def _take_up(self, now: int) -> list[Effect]:
        """Look at every subscription again: nodes have come or gone."""
        effects: list[Effect] = []
        for name, entry in list(self.directory.subscriptions.items()):
            if name not in self.by_subscription:
                effects += self._consider(name, entry, now)
        return effects

    def _consider(self, name: str, entry: SubscriptionEntry, now: int) -> list[Effect]:
        """Serve a subscription if it falls to this node."""
        registry = self.directory.registry()
        try:
            compiled = compile_pattern(
                entry.pattern,
                registry,
                definitions=entry.definitions,
                consumption="epoch" if entry.consumption == "epoch" else "ordered",
            )
            identity = detector_id(compiled, entry.policy)
            policy = detection_policy(entry.policy)
            if compiled.publishes.name:
                self.directory.check_types(compiled.publishes)
        except DistcedError as error:
            if chosen(entry.pattern, self.directory.nodes) != self.name:
                return []
            answer = Answer(name, "refused", node=self.name, error=error.as_dict(), message=str(error))
            return [self._answer(entry.client, answer)]
        if not self._is_mine(identity):
            return []
        effects: list[Effect] = []
        hosted = self.hosted.get(identity)
        if hosted is None:
            detector = Detector(compiled, policy, _kinds(registry))
            reads = compiled.reads(registry)
            hosted = self.hosted[identity] = Hosted(detector, {}, reads)
            effects.append(Note("info", "detector created", {"detector": identity, "pattern": compiled.text}))
        hosted.subscriptions[name] = False
        hosted.constituents |= entry.constituents
        self.by_subscription[name] = identity
        effects.append(self._entry(hosted))
        offer = Answer(name, "offered", identity, self.name, compiled.publishes.name)
        return [*effects, self._answer(entry.client, offer)]

    def _is_mine(self, identity: str) -> bool:
        """A detector stays where it is as long as its node lives; else every node makes the same choice."""
        if identity in self.hosted:
            return True
        known = self.directory.detectors.get(identity)
        if known is not None and known.node in self.directory.nodes and known.node != self.name:
            return False
        return chosen(identity, self.directory.nodes) == self.name

    def _ready(self, name: str, now: int) -> list[Effect]:
        """The client listens: the detector begins, if it has not yet."""
        identity = self.by_subscription.get(name)
        entry = self.directory.subscriptions.get(name)
        if identity is None or entry is None:
            return []
        hosted = self.hosted[identity]
        hosted.subscriptions[name] = True
        effects: list[Effect] = []
        if not hosted.active:
            hosted.active = True
            effects += self._begin(hosted, now)
        answer = Answer(name, "active", identity, self.name, hosted.detector.compiled.publishes.name)
        return [*effects, self._answer(entry.client, answer)]

    def _begin(self, hosted: Hosted, now: int) -> list[Effect]:
        """Count with every source there is, and subscribe to what they publish."""
        for name, entry in self.directory.sources.items():
            if hosted.reads is None or hosted.reads & set(entry.types):
                hosted.detector.join(name, entry.watermark, now, entry.lease)
        effects: list[Effect] = []
        for topic_filter in self._inputs(hosted):
            effects += self._subscribe(topic_filter)
        for type_name in hosted.reads or ():
            for publisher in self.directory.publishers(type_name):
                hosted.detector.join(publisher, _floor(hosted), now)
        self._routes.clear()
        return effects

    def _unsubscribed(self, name: str) -> list[Effect]:
        identity = self.by_subscription.pop(name, None)
        if identity is None:
            return []
        hosted = self.hosted[identity]
        del hosted.subscriptions[name]
        if hosted.subscriptions:
            return [self._entry(hosted)]
        # Nobody needs it: the detector is destroyed.
        del self.hosted[identity]
        self._routes.clear()
        effects: list[Effect] = [self._clear("detector", identity)]
        if hosted.active:
            for topic_filter in self._inputs(hosted):
                effects += self._unsubscribe(topic_filter)
        return [*effects, Note("info", "detector destroyed", {"detector": identity})]

    def _inputs(self, hosted: Hosted) -> list[str]:
        if hosted.reads is None:
            return [event_filter(root=self.root)]
        filters: list[str] = []
        for type_name in sorted(hosted.reads):
            publishers = self.directory.publishers(type_name)
            filters += [composite_topic(each, root=self.root) for each in publishers]
            if type_name in self.directory.types:
                filters.append(event_filter(type_name, root=self.root))
        return filters

    # Administration.

    def _administration(self, levels: tuple[str, ...], payload: bytes, now: int, topic: str) -> list[Effect]:
        match levels:
            case ("heartbeat", _):
                beat = decode(payload, Heartbeat, where=topic)
                effects: list[Effect] = []
                for hosted in self.hosted.values():
                    if hosted.active:
                        effects += self._detected(hosted, hosted.detector.heartbeat(beat.sources, beat.watermark, now))
                return effects
            case ("ready", name):
                return self._ready(name, now)
            case ("fence", source):
                effects = [Note("warning", "source fenced off", {"source": source})]
                for hosted in self.hosted.values():
                    effects += self._detected(hosted, hosted.detector.fence(source, now))
                return effects
        return []

    # Bookkeeping.

    def _route(self, topic: str, area: Area, levels: tuple[str, ...]) -> Route:
        name = levels[0]
        if area is Area.COMPOSITE_EVENTS:
            entry = self.directory.detectors.get(name)
            event_type = EventType(entry.publishes, {}) if entry is not None and entry.publishes else None
            fits: Fits = _anything
        else:
            event_type = self.directory.types.get(name)
            fits = fitting(event_type) if event_type is not None else _anything
        route = Route(event_type, fits, name if area is Area.COMPOSITE_EVENTS else "")
        if event_type is not None:
            name = event_type.name
            route.hosted = [h for h in self.hosted.values() if h.reads is None or name in h.reads]
            if len(self._routes) < 100_000:
                self._routes[topic] = route
        return route

    def _inspect(self) -> list[Effect]:
        """One node looks at all events, for those of types that nobody has registered."""
        wanted = self.inspects and self._settled and chosen("inspector", self.directory.nodes) == self.name
        if wanted == self._inspecting:
            return []
        self._inspecting = wanted
        topic_filter = event_filter(root=self.root)
        return self._subscribe(topic_filter) if wanted else self._unsubscribe(topic_filter)

    def _subscribe(self, topic_filter: str) -> list[Effect]:
        self._wanted[topic_filter] += 1
        return self._refilter()

    def _unsubscribe(self, topic_filter: str) -> list[Effect]:
        self._wanted -= Counter({topic_filter: 1})
        return self._refilter()

    def _refilter(self) -> list[Effect]:
        """Subscribe to what is wanted, without filters that a wider one covers: each event has to come once."""
        everything = event_filter(root=self.root)
        filters = set(self._wanted)
        if everything in filters:
            below = everything.removesuffix("+/+")
            filters = {each for each in filters if each == everything or not each.startswith(below)}
        added, dropped = sorted(filters - self._filters), sorted(self._filters - filters)
        self._filters = filters
        return [*map(Subscribe, added), *map(Unsubscribe, dropped)]

    def _announce(self) -> Publish:
        counts = {**self.counts, **{f"dead letters, {name}": n for name, n in self.dead_letters.counts.items()}}
        entry = NodeEntry(self.since, len(self.hosted), counts)
        return Publish(directory_topic("node", self.name, root=self.root), encode(entry), retain=True)

    def _entry(self, hosted: Hosted) -> Publish:
        detector = hosted.detector
        entry = DetectorEntry(
            self.name,
            detector.compiled.text,
            detector.policy.name,
            None if hosted.reads is None else tuple(sorted(hosted.reads)),
            detector.compiled.publishes.name,
            dict(detector.compiled.publishes.attributes),
            len(hosted.subscriptions),
        )
        self.directory.detectors[detector.id] = entry
        return Publish(directory_topic("detector", detector.id, root=self.root), encode(entry), retain=True)

    def _clear(self, kind: str, name: str) -> Publish:
        getattr(self.directory, f"{kind}s").pop(name, None)
        return Publish(directory_topic(kind, name, root=self.root), b"", retain=True)

    def _answer(self, client: str, answer: Answer) -> Publish:
        return Publish(administration_topic("answer", client, root=self.root), encode(answer))

    def holding(self) -> dict[str, list[str]]:
        """For each detector the sources its stream waits for."""
        return {
            name: hosted.detector.policy.holding()
            for name, hosted in self.hosted.items()
            if isinstance(hosted.detector.policy, Guaranteed)
        }


def _floor(hosted: Hosted) -> int:
    clock = hosted.detector.engine.clock
    return max(clock, -(2**63))


def _kinds(registry: TypeRegistry) -> Callable[[str], Mapping[str, Kind] | None]:
    def kinds(name: str) -> Mapping[str, Kind] | None:
        found = registry.find(name)
        return None if found is None else found.attributes

    return kinds


def _anything(attributes: object) -> bool:
    return True


def _without_constituents(event: CompositeEvent) -> CompositeEvent:
    return replace(event, events=()) if event.events else event
