"""Path of events through a node: frames in, detectors, composite events out.

Frames are decoded, events checked against their type and passed to the detectors that read them; composite events leave
in frames, unusable events as dead letters. `brokers.node.hosting` decides on the detectors of a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from distced.brokers.core.dead_letters import DeadLetters
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Publish, info, warning
from distced.brokers.core.topic_routes import TopicRoute, TopicRoutes
from distced.brokers.node.hosted import HostedDetector, Phase
from distced.brokers.node.metering import Meter
from distced.brokers.node.story import Stories
from distced.detectors.runtime.detector import Detected
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, OpenGap
from distced.middleware.wire.administration import Heartbeat
from distced.middleware.wire.directory_entries import LoadEntry
from distced.middleware.wire.frames import Frame, decode_any
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import composite_topic

_RUNNING = Phase.RUNNING


class EventPath:
    """Running detectors of a node.

    Attributes:
        hosted, moving: detectors by id; those arriving or leaving.
        counts: counters since the start.
        routes: topics of events to detectors; cleared when detectors or types change.
    """

    def __init__(self, name: str, root: str, directory: Directory, stories: Stories) -> None:
        self.root = root
        self.stories = stories
        self.directory = directory
        self.hosted: dict[str, HostedDetector] = {}
        self.moving: dict[str, HostedDetector] = {}
        self.counts = {"frames": 0, "events": 0, "composite events": 0, "late": 0, "duplicates": 0}
        self.meter = Meter()
        self.dead_letters = DeadLetters(name, root)
        self.routes = TopicRoutes(
            directory,
            self._published,
            readers_of_type=lambda name: [each for each in self.all_hosted() if each.takes(name)],
            readers_of_detector=lambda detector: [
                each for each in self.all_hosted() if detector in each.upstream or detector in each.parts
            ],
        )

    def receive(self, route: TopicRoute, topic: str, payload: bytes, now: int, home: str = "") -> list[Effect]:
        """Take a frame from a home, or an event in JSON."""
        self.counts["frames"] += 1
        try:
            frame = decode_any(payload, where=topic, type=route.type_name, source=route.source, now=now)
        except DistcedError as error:
            self.stories.happened("source", route.source, f"frame malformed: {error}")
            return [self.dead_letters.message("malformed", str(error), topic, payload)]
        events, effects = route.usable(frame, topic, payload, self.dead_letters)
        if events is None:
            if route.problem:
                self.stories.happened("source", route.source, route.problem)
            return effects
        if len(events) < len(frame.events):
            self.stories.happened("source", route.source, f"events that are none of type {route.type_name}")
            frame = replace(frame, events=events)
        self.counts["events"] += len(events)
        source = frame.source if route.kind == "e" else route.source
        for hosted in route.readers:
            if hosted.phase is _RUNNING:
                if hosted.meter is not None:
                    hosted.meter.received(source, len(payload) + len(topic), len(frame.events))
                effects += self._hear(hosted, source, home, frame, now)
            elif hosted.moving or source in hosted.parts:
                hosted.keep((source, home, frame))
        return effects

    def _hear(self, hosted: HostedDetector, source: str, home: str, frame: Frame, now: int) -> list[Effect]:
        watermark = frame.watermark
        if frame.kind == "c":
            if frame.open and watermark is not None:
                hosted.detector.hear_open(source, frame.open, watermark)
            streams = hosted.streams.get(source)
            if streams is not None:
                watermark = streams.hear(home, watermark)
        return self.detected(hosted, hosted.detector.receive(source, frame.events, watermark, now), now)

    def begin(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Run a detector from now on; buffered inputs come first."""
        effects: list[Effect] = []
        meter = self.meter.begin(hosted.id, now, hosted.detector.touched)
        for kept in hosted.begin(now, meter):
            match kept:
                case Heartbeat(sources=sources, watermark=watermark):
                    effects += self.detected(hosted, hosted.detector.heartbeat(sources, watermark, now), now)
                case str():
                    effects += self.detected(hosted, hosted.detector.fence(kept, now), now)
                case (source, home, frame):
                    effects += self._hear(hosted, source, home, frame, now)
        return effects

    def all_hosted(self) -> Iterator[HostedDetector]:
        """Detectors here, on their way here, and on their way from here."""
        yield from self.hosted.values()
        yield from self.moving.values()

    def heartbeat(self, beat: Heartbeat, now: int) -> list[Effect]:
        """Advance sources beyond a watermark."""
        effects: list[Effect] = []
        for hosted in self.all_hosted():
            if hosted.running:
                effects += self.detected(hosted, hosted.detector.heartbeat(beat.sources, beat.watermark, now), now)
            elif hosted.moving:
                hosted.keep(beat)
        return effects

    def fence(self, source: str, now: int) -> list[Effect]:
        """Fence off a source: detectors wait no longer for it."""
        effects: list[Effect] = [warning("source fenced off", source=source)]
        for hosted in self.all_hosted():
            if hosted.running:
                self.stories.happened("detector", hosted.id, f"source {source} fenced off")
                effects += self.detected(hosted, hosted.detector.fence(source, now), now)
            elif hosted.moving:
                hosted.keep(source)
        return effects

    def leave(self, source: str, hosted: HostedDetector, now: int) -> list[Effect]:
        """End a source, or a detector that is one."""
        self.stories.happened("source", source, f"no longer read by {hosted.id}")
        return self.detected(hosted, hosted.detector.leave(source, now), now)

    def tick(self, now: int, *, publish_again: bool) -> list[Effect]:
        """Effects of the time. Watermarks are published again from time to time, for later readers."""
        effects: list[Effect] = []
        for hosted in self.hosted.values():
            if hosted.running:
                if publish_again:
                    hosted.publish_again()
                effects += self.detected(hosted, hosted.detector.tick(now), now)
                if hosted.engine_changed():
                    effects.append(info("engine switched", detector=hosted.id, engine=hosted.engine))
        return effects

    def detected(self, hosted: HostedDetector, detected: Detected, now: int) -> list[Effect]:
        """Publish the results of an input of a detector."""
        effects: list[Effect] = []
        counts, where = self.counts, hosted.detector.id
        if detected.late:
            problem = f"late for detector {where}, which is beyond it"
            for source in sorted({each.source for each in detected.late}):
                self.stories.happened("source", source, f"late for {where}")
                self.stories.happened("detector", where, f"events of {source} late")
            effects += [self.dead_letters.event("late", problem, each, where) for each in detected.late]
        for source in detected.fenced:
            effects.append(warning("source fenced off", source=source, detector=where, reason="its lease has run out"))
        counts["late"] += len(detected.late) + detected.disordered
        counts["duplicates"] += detected.duplicates
        found, watermark = detected.events, detected.watermark
        if hosted.news(bool(found), watermark, now):
            counts["composite events"] += len(found)
            frame = self._frame(hosted, found, watermark)
            effects.append(frame)
            if hosted.meter is not None:
                hosted.meter.sent(len(frame.payload) + len(frame.topic), found, now)
        return effects

    def rest(self, hosted: HostedDetector) -> None:
        """Stop a detector here, for good or for now."""
        self.meter.end(hosted.id)
        self.routes.forget()

    def measured(self, now: int, latencies: Mapping[str, int]) -> LoadEntry | None:
        """Load of this node, where it has changed."""
        if not self.meter.tick(now, lambda identity: self.hosted[identity].detector.touched):
            return None
        for identity, meter in self.meter.detectors.items():
            detector = self.hosted[identity].detector
            meter.state, meter.engine = detector.size, detector.at_work
        return self.meter.news(now, latencies)

    def _frame(self, hosted: HostedDetector, found: list[CompositeEvent], watermark: int | None) -> Publish:
        if not hosted.constituents:
            found = [replace(each, events=()) if each.events else each for each in found]
        canonical = hosted.detector.compiled.canonical_id
        opens: list[OpenGap] = []
        if hosted.derivations and hosted.gaps_due and watermark is not None:
            hosted.gaps_sent()
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

    def _published(self, detector: str) -> str:
        entry = self.directory.detectors.get(detector)
        return "" if entry is None else entry.publishes or detector
