"""Events in, composite events out: what a node does with the frames that reach it.

Frames are decoded, their events checked against their type, and handed to the detectors that read them; what those find
leaves in frames of its own. What cannot be used goes to the dead letters, and takes nothing else with it. Which
detectors are on this node is not decided here (`brokers.node.hosting`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from distced.brokers.core.dead_letters import DeadLetters
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Note, Publish
from distced.brokers.core.replica_streams import Streams
from distced.brokers.core.topic_routes import Fits, fitting, what_is_wrong
from distced.brokers.node.metering import DetectorMeter, Meter
from distced.brokers.node.planning import Planned
from distced.detectors.runtime.detector import Detected, Detector
from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import CompositeEvent, OpenGap
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Heartbeat, LoadEntry, Measured
from distced.middleware.wire.frames import Frame, decode_any
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import Area, composite_topic

UNREAD_EVERY: Final = SECOND
"""How often a watermark is told that no detector waits for, without composite events, ns."""

ROUTES: int = 100_000
"""How many topics are remembered."""


@dataclass(slots=True)
class Hosted:
    """A detector on this node.

    Attributes:
        detector: the detector.
        reads: the published types it reads; None for every primitive event.
        names: the types it names; composite events are read by their names only.
        subscriptions: the ids of those it serves, and whether their clients are ready.
        upstream: the detectors whose composite events it reads by their types, and waits for.
        active: whether it is at work.
        buffering: whether it is on its way to another node, or here, and keeps what arrives meanwhile.
        planned: how it came about.
        engine: the engine it was last said to run on.
        told: the watermark it has published last, ns; None for none, or for one that is to be told again.
        told_at: when that was, ns; None for never.
        read: whether detectors read what it publishes, by its type.
        constituents: whether somebody wants the constituents sent along.
        records: whether some detector reads it as part of its own pattern.
        tell_gaps: whether it is time to tell its readers how far its records are complete.
        parts: the detectors that it reads as parts of its pattern, and whether they are at work.
        streams: of the detectors that it reads, by their types or as parts, where it listens to them.
        meter: counts what it does, while it is at work here.
        since: when it came here, ns.
        expected: what it was expected to do when it was placed here; None where nobody knows.
        home: the home server of its topic, or where this copy of it publishes.
        primary: whether it is the one that serves subscriptions; the others are copies of it.
        copies: of the primary: the nodes that host copies of it, and where these publish.
        listed: of a copy: whether the directory has named it; before that it says nothing of it.
        near: of the primary: by subscription, the one node whose copy it listens to; all others listen to every copy
            where their policy wants several, else to the primary.
        waiting: of the primary: by subscription, the node that is to have a copy before it is offered anything.
        idle_since: since when nobody needs it, ns; None while somebody does.
        early: what was told before it is at work, in order: by parts before all of them are, or on its way; a frame
            with its source and the home it came from. A source that was fenced off stands for itself.
    """

    detector: Detector
    reads: frozenset[str] | None
    names: frozenset[str]
    planned: Planned
    subscriptions: dict[str, bool] = field(default_factory=dict)
    upstream: set[str] = field(default_factory=set)
    active: bool = False
    buffering: bool = False
    engine: EngineName = "stepwise"
    told: int | None = None
    told_at: int | None = None
    read: bool = False
    constituents: bool = False
    records: bool = False
    tell_gaps: bool = False
    parts: dict[str, bool] = field(default_factory=dict)
    streams: dict[str, Streams] = field(default_factory=dict)
    meter: DetectorMeter | None = None
    since: int = 0
    expected: Measured | None = None
    home: str = ""
    primary: bool = True
    copies: dict[str, str] = field(default_factory=dict)
    listed: bool = False
    near: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    idle_since: int | None = None
    early: list[tuple[str, str, Frame] | Heartbeat | str] = field(default_factory=list)

    @property
    def publishes(self) -> str:
        """The type of its composite events; empty where they have no name."""
        return self.detector.compiled.publishes.name

    def takes(self, type_name: str) -> bool:
        """Whether it reads primitive events of a type."""
        return self.reads is None or type_name in self.reads


@dataclass(slots=True)
class Route:
    """What a topic of events leads to.

    Attributes:
        type_name: the type that events on it have to have.
        source: who publishes on it, as the topic says.
        kind: "e" for primitive events, "c" for composite ones.
        type: the type itself; None where events on this topic cannot be used, and `problem` says why.
        fits: the quick test of their attributes.
        hosted: the detectors that read them.
    """

    type_name: str
    source: str
    kind: str
    type: EventType | None
    problem: str
    fits: Fits
    hosted: list[Hosted]


class Detecting:
    """The detectors of a node at work.

    Attributes:
        hosted: the detectors, by id.
        moving: those on their way here, or from here.
        counts: what was done so far.
        meter: what they do of late.
        dead_letters: what could not be used.
        routes: what topics lead to; to be forgotten when detectors or types change.
    """

    def __init__(self, name: str, root: str, directory: Directory) -> None:
        self.root = root
        self.directory = directory
        self.hosted: dict[str, Hosted] = {}
        self.moving: dict[str, Hosted] = {}
        self.counts = {"frames": 0, "events": 0, "composite events": 0, "late": 0, "duplicates": 0}
        self.meter = Meter()
        self.dead_letters = DeadLetters(name, root)
        self.routes: dict[str, Route] = {}

    def find(self, topic: str, area: Area, levels: tuple[str, ...]) -> Route:
        """What a topic leads to, remembered from now on."""
        made = self._primitive(*levels) if area is Area.EVENTS else self._composite(*levels)
        # Any text may stand on a topic; only those that lead somewhere are worth remembering.
        if made.type is not None and len(self.routes) < ROUTES:
            self.routes[topic] = made
        return made

    def receive(self, route: Route, topic: str, payload: bytes, now: int, home: str = "") -> list[Effect]:
        """A frame has arrived from a home, or an event in JSON."""
        self.counts["frames"] += 1
        try:
            frame = decode_any(payload, where=topic, type=route.type_name, source=route.source, now=now)
        except DistcedError as error:
            return [self.dead_letters.message("malformed", str(error), topic, payload)]
        effects: list[Effect] = [self.dead_letters.row(each, topic) for each in frame.rejected]
        events = frame.events
        if frame.type != route.type_name or frame.kind != route.kind:
            carried = "composite" if frame.kind == "c" else "primitive"
            problem = f"a frame of {carried} events {frame.type!r} on the topic of {route.type_name!r}"
            return [*effects, self.dead_letters.message("malformed", problem, topic, payload)]
        if route.type is None:
            return effects + [self.dead_letters.event("unknown-type", route.problem, each, topic) for each in events]
        fits = route.fits
        usable = [event for event in events if fits(event.attributes)]
        if len(usable) < len(events):
            for event in events:
                if not fits(event.attributes):
                    problem = what_is_wrong(event, route.type, topic)
                    effects.append(self.dead_letters.event("mistyped", problem, event, topic))
            events = usable
        self.counts["events"] += len(events)
        source = frame.source if route.kind == "e" else route.source
        if len(events) < len(frame.events):
            frame = replace(frame, events=events)
        for hosted in route.hosted:
            if hosted.active:
                if hosted.meter is not None:
                    hosted.meter.came(source, len(payload) + len(topic), len(frame.events))
                effects += self._hear(hosted, source, home, frame, now)
            elif hosted.buffering or source in hosted.parts:
                hosted.early.append((source, home, frame))
        return effects

    def _hear(self, hosted: Hosted, source: str, home: str, frame: Frame, now: int) -> list[Effect]:
        watermark = frame.watermark
        if frame.kind == "c":
            if frame.open and watermark is not None:
                hosted.detector.hear_open(source, frame.open, watermark)
            streams = hosted.streams.get(source)
            if streams is not None:
                watermark = streams.hear(home, watermark)
        return self.detected(hosted, hosted.detector.receive(source, frame.events, watermark, now), now)

    def begin(self, hosted: Hosted, now: int) -> list[Effect]:
        """A detector is at work from now on: what its parts have told meanwhile comes first."""
        effects: list[Effect] = []
        hosted.since = now
        hosted.meter = self.meter.begin(hosted.detector.id, now, hosted.detector.touched)
        early, hosted.early = hosted.early, []
        for told in early:
            match told:
                case Heartbeat(sources=sources, watermark=watermark):
                    effects += self.detected(hosted, hosted.detector.heartbeat(sources, watermark, now), now)
                case str():
                    effects += self.detected(hosted, hosted.detector.fence(told, now), now)
                case (source, home, frame):
                    effects += self._hear(hosted, source, home, frame, now)
        return effects

    def everybody(self) -> Iterator[Hosted]:
        """The detectors here, on their way here, and on their way from here."""
        yield from self.hosted.values()
        yield from self.moving.values()

    def heartbeat(self, beat: Heartbeat, now: int) -> list[Effect]:
        """Sources have come beyond a watermark."""
        effects: list[Effect] = []
        for hosted in self.everybody():
            if hosted.active:
                effects += self.detected(hosted, hosted.detector.heartbeat(beat.sources, beat.watermark, now), now)
            elif hosted.buffering:
                hosted.early.append(beat)
        return effects

    def fence(self, source: str, now: int) -> list[Effect]:
        """A source is not waited for any more."""
        effects: list[Effect] = [Note("warning", "source fenced off", {"source": source})]
        for hosted in self.everybody():
            if hosted.active:
                effects += self.detected(hosted, hosted.detector.fence(source, now), now)
            elif hosted.buffering:
                hosted.early.append(source)
        return effects

    def leave(self, source: str, hosted: Hosted, now: int) -> list[Effect]:
        """A source, or a detector that is one, is done."""
        return self.detected(hosted, hosted.detector.leave(source, now), now)

    def tick(self, now: int, *, tell_again: bool) -> list[Effect]:
        """Time has passed. Watermarks are told again from time to time, for readers that came after they were told."""
        effects: list[Effect] = []
        for hosted in self.hosted.values():
            if hosted.active:
                if tell_again and (hosted.publishes or hosted.records):
                    hosted.told = None
                    hosted.tell_gaps = True
                effects += self.detected(hosted, hosted.detector.tick(now), now)
                if hosted.engine != hosted.detector.at_work:
                    hosted.engine = hosted.detector.at_work
                    fields: dict[str, object] = {"detector": hosted.detector.id, "engine": hosted.engine}
                    effects.append(Note("info", "another engine runs the detector", fields))
        return effects

    def detected(self, hosted: Hosted, detected: Detected, now: int) -> list[Effect]:
        """What came of something a detector was told, on its way out."""
        effects: list[Effect] = []
        counts, where = self.counts, hosted.detector.id
        if detected.late:
            problem = f"late for detector {where}, which is beyond it"
            effects += [self.dead_letters.event("late", problem, each, where) for each in detected.late]
        for source in detected.fenced:
            fields: dict[str, object] = {"source": source, "detector": where, "reason": "its lease has run out"}
            effects.append(Note("warning", "source fenced off", fields))
        counts["late"] += len(detected.late) + detected.disordered
        counts["duplicates"] += detected.duplicates
        found, watermark = detected.events, detected.watermark
        news = watermark is not None and watermark != hosted.told
        if news and not found and not (hosted.records or hosted.read) and hosted.told_at is not None:
            # Detectors wait for it; to people it is only to say that all is well.
            news = now - hosted.told_at >= UNREAD_EVERY
        if found or news:
            counts["composite events"] += len(found)
            hosted.told, hosted.told_at = watermark, now
            frame = self._frame(hosted, found, watermark)
            effects.append(frame)
            if hosted.meter is not None:
                hosted.meter.went(len(frame.payload) + len(frame.topic), found, now)
        return effects

    def rest(self, hosted: Hosted) -> None:
        """A detector is not at work any more, or not for now."""
        hosted.active = False
        hosted.meter = None
        self.meter.end(hosted.detector.id)
        self.routes.clear()

    def measured(self, now: int, latencies: Mapping[str, int]) -> LoadEntry | None:
        """What this node has to do, where that is news."""
        if not self.meter.tick(now, lambda identity: self.hosted[identity].detector.touched):
            return None
        for identity, meter in self.meter.detectors.items():
            detector = self.hosted[identity].detector
            meter.state, meter.engine = detector.size, detector.at_work
        return self.meter.news(now, latencies)

    def _frame(self, hosted: Hosted, found: list[CompositeEvent], watermark: int | None) -> Publish:
        if not hosted.constituents:
            found = [replace(each, events=()) if each.events else each for each in found]
        canonical = hosted.detector.compiled.automaton.canonical_id
        opens: list[OpenGap] = []
        if hosted.records and hosted.tell_gaps and watermark is not None:
            hosted.tell_gaps = False
            opens = hosted.detector.open_gaps()
        payload = encode_frame(
            found,
            type=hosted.publishes or canonical,
            source=canonical,
            watermark=watermark,
            kind="c",
            check=False,
            open=opens,
        )
        return Publish(composite_topic(hosted.detector.id, root=self.root), payload, home=hosted.home)

    def _primitive(self, type_name: str, source: str) -> Route:
        event_type = self.directory.types.get(type_name)
        if event_type is None:
            return _unusable(type_name, source, "e", f"no event type {type_name!r} is registered")
        if event_type.derived is not None:
            base = event_type.derived.base
            problem = f"the type {type_name!r} is derived: events of {base!r} are published"
            return _unusable(type_name, source, "e", problem)
        hosted = [each for each in self.everybody() if each.takes(type_name)]
        return Route(type_name, source, "e", event_type, "", fitting(event_type), hosted)

    def _composite(self, detector: str) -> Route:
        entry = self.directory.detectors.get(detector)
        if entry is None:
            return _unusable(detector, detector, "c", f"no detector {detector!r} is known")
        name = entry.publishes or detector
        hosted = [each for each in self.everybody() if detector in each.upstream or detector in each.parts]
        return Route(name, detector, "c", EventType(name, {}), "", _anything, hosted)


def _unusable(type_name: str, source: str, kind: str, problem: str) -> Route:
    return Route(type_name, source, kind, None, problem, _anything, [])


def _anything(attributes: object) -> bool:
    return True
