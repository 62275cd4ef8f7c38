"""Path of events through a node: frames in, detectors, composite events out.

Frames are decoded, events checked against their type and passed to the detectors that read them; composite events leave
in frames, unusable events as dead letters. `brokers.node.hosting` decides on the detectors of a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from distced.brokers.core.dead_letters import DeadLetters
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Publish, info, warning
from distced.brokers.core.topic_routes import TopicRoute, TopicRoutes
from distced.brokers.node.hosted import HostedDetector, Phase
from distced.brokers.node.inputs import HostedInput, Inputs
from distced.brokers.node.inventory import Inventory
from distced.brokers.node.metering import Meter
from distced.brokers.node.story import Stories
from distced.detectors.runtime.detection_policy import Arrival
from distced.detectors.runtime.detector import Detected
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.shared_input import Passed
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import CompositeEvent, OpenGap
from distced.middleware.wire.administration import Heartbeat, Progress
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import LoadEntry, SourceEntry
from distced.middleware.wire.frames import Frame, decode_any
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import administration_topic, composite_topic

_RUNNING = Phase.RUNNING


class EventPath:
    """Running detectors of a node.

    Attributes:
        inventory: detectors, with `hosted` and `moving`, its tables by id, the latter of those arriving or leaving.
        inputs: inputs of the running detectors.
        counts: counters since the start.
        routes: topics of events to inputs; cleared when inputs or types change.
    """

    def __init__(
        self,
        name: str,
        root: str,
        directory: Directory,
        stories: Stories,
        engines: Engines | None = None,
        events_over: str = "",
    ) -> None:
        """
        Args:
            engines: choice of engines; None for the stepwise engine.
            events_over: connection of events at the server of the directory, where it is not that of the directory.
        """
        self.root = root
        self._events_over = events_over
        self.stories = stories
        self.directory = directory
        self.inventory = Inventory()
        self.hosted, self.moving = self.inventory.hosted, self.inventory.moving
        self.inputs = Inputs(self.inventory.hosted, engines)
        self.counts = {"frames": 0, "events": 0, "composite events": 0, "late": 0, "duplicates": 0}
        self.meter = Meter()
        self.dead_letters = DeadLetters(name, root)
        self.routes = TopicRoutes(
            directory,
            self._published,
            readers_of_type=lambda name: [
                each for each in (*self.inputs.readers(), *self.moving.values()) if each.takes(name)
            ],
            readers_of_detector=lambda detector: [
                each for each in self.inventory.streaming() if detector in each.upstream or detector in each.parts
            ],
        )
        # Inputs with frames to be consumed, in the order of arrival.
        self._arrived: list[HostedInput | HostedDetector] = []

    def collect(self, route: TopicRoute, topic: str, payload: bytes, now: int, home: str = "") -> list[Effect]:
        """Take a frame from a home, or an event in JSON, for `consume_arrived`."""
        self.counts["frames"] += 1
        try:
            frame = decode_any(payload, where=topic, type=route.type_name, source=route.source, now=now)
        except DistcedError as error:
            self.stories.happened("source", route.source, f"frame malformed: {error}")
            return [self.dead_letters.message("malformed", str(error), topic, payload)]
        if route.type is None and route.kind == "c" and not self._published(route.source):
            # The last ones of a detector that has ended, and that no detector here reads any more.
            return []
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
        for reader in route.readers:
            if reader.__class__ is HostedInput:
                reader.meter.received(source, len(payload) + len(topic), len(events))
                self._arrive(reader, (source, events, frame.watermark))
            elif reader.phase is _RUNNING:
                if reader.meter is not None:
                    reader.meter.received(source, len(payload) + len(topic), len(events))
                self._hear(reader, source, home, frame)
            elif reader.moving or source in reader.parts:
                reader.keep((source, home, frame))
        return effects

    def _hear(self, hosted: HostedDetector, source: str, home: str, frame: Frame) -> None:
        watermark = frame.watermark
        if frame.kind == "c":
            if frame.open and watermark is not None:
                hosted.detector.hear_open(source, frame.open, watermark)
            streams = hosted.streams.get(source)
            if streams is not None:
                watermark = streams.hear(home, watermark)
        self._arrive(hosted, (source, frame.events, watermark))

    def _arrive(self, reader: HostedInput | HostedDetector, arrival: Arrival) -> None:
        arrivals = reader.arrivals
        if arrivals:
            arrivals.append(arrival)  # type: ignore[attr-defined]
        else:
            self._arrived.append(reader)
            reader.arrivals = [arrival]

    def consume_arrived(self, now: int) -> list[Effect]:
        """Consume what was collected, each input in one go."""
        effects: list[Effect] = []
        arrived, self._arrived = self._arrived, []
        for reader in arrived:
            arrivals, reader.arrivals = reader.arrivals, ()
            if isinstance(reader, HostedInput):
                effects += self._passed(reader, reader.shared.receive(arrivals, now), now)
            elif len(arrivals) == 1:
                effects += self._detected(reader, reader.detector.receive(*arrivals[0], now), now)
            else:
                effects += self._detected(reader, reader.detector.receive_all(arrivals, now), now)
        return effects

    # Detectors.

    def share(self, hosted: HostedDetector) -> bool:
        """Let a new detector share an input that is there; False where there is none for it."""
        return self.inputs.join(hosted)

    def separate(self, hosted: HostedDetector) -> None:
        """Give a detector an input of its own."""
        self.inputs.separate(hosted)
        self.routes.forget()

    def begin(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Run a detector from now on; buffered inputs come first."""
        effects: list[Effect] = []
        self.inputs.begin(hosted)
        meter = self.meter.begin(hosted.id, now, hosted.detector.touched)
        there = self.inputs.of(hosted)
        meter.input = None if there is None else there.meter
        for kept in hosted.begin(now, meter):
            match kept:
                case Heartbeat(sources=sources, watermark=watermark):
                    effects += self._detected(hosted, hosted.detector.heartbeat(sources, watermark, now), now)
                case str():
                    effects += self._detected(hosted, hosted.detector.fence(kept, now), now)
                case (source, home, frame):
                    self._hear(hosted, source, home, frame)
                    effects += self.consume_arrived(now)
        if there is None:
            # Detectors that begin next join it.
            self.inputs.merge_one(hosted, now)
        self.routes.forget()
        return effects

    def heartbeat(self, beat: Heartbeat, now: int) -> list[Effect]:
        """Advance sources beyond a watermark."""
        effects: list[Effect] = []
        for reader in self.inputs.readers():
            if isinstance(reader, HostedInput):
                effects += self._passed(reader, reader.shared.heartbeat(beat.sources, beat.watermark, now), now)
            else:
                effects += self._detected(reader, reader.detector.heartbeat(beat.sources, beat.watermark, now), now)
        for hosted in self.moving.values():
            hosted.keep(beat)
        return effects

    def fence(self, source: str, now: int) -> list[Effect]:
        """Fence off a source: detectors wait no longer for it."""
        effects: list[Effect] = [warning("source fenced off", source=source)]
        for reader in self.inputs.readers():
            for hosted in reader.members if isinstance(reader, HostedInput) else (reader,):
                self.stories.happened("detector", hosted.id, f"source {source} fenced off")
            if isinstance(reader, HostedInput):
                effects += self._passed(reader, reader.shared.fence(source, now), now)
            else:
                effects += self._detected(reader, reader.detector.fence(source, now), now)
        for hosted in self.moving.values():
            hosted.keep(source)
        return effects

    def join(self, source: str, entry: SourceEntry, now: int) -> tuple[int, bool]:
        """Wait for a source where its types are read; the watermark beyond which it has to stay, and whether it is
        read."""
        watermark, read = entry.watermark, False
        for reader in self.inputs.readers():
            if any(map(reader.takes, entry.types)):
                target = reader.shared if isinstance(reader, HostedInput) else reader.detector
                watermark, read = max(watermark, target.join(source, entry.watermark, now, entry.lease)), True
                self.stories.happened("source", source, f"read by {reader.name}")
        return watermark, read

    def leave(self, source: str, reader: HostedInput | HostedDetector, now: int) -> list[Effect]:
        """End a source, or a detector that is one, for an input."""
        self.stories.happened("source", source, f"no longer read by {reader.name}")
        if isinstance(reader, HostedInput):
            return self._passed(reader, reader.shared.leave(source, now), now)
        return self._detected(reader, reader.detector.leave(source, now), now)

    def tick(self, now: int, *, publish_again: bool) -> list[Effect]:
        """Effects of the time. Watermarks are published again from time to time, for later readers."""
        effects: list[Effect] = []
        for reader in self.inputs.readers():
            if isinstance(reader, HostedInput):
                for hosted in reader.read.values() if publish_again else ():
                    hosted.publish_again()
                effects += self._passed(reader, reader.shared.tick(now), now)
                for detector in reader.shared.take_touched():
                    effects += _engine_news(self.hosted[detector.id])
                reader.shared.rest(now)
            else:
                if publish_again:
                    reader.publish_again()
                effects += self._detected(reader, reader.detector.tick(now), now)
                effects += _engine_news(reader)
        if self.inputs.merge(now):
            self.routes.forget()
        return effects

    def readers_known(self, hosted: HostedDetector, has_readers: bool) -> None:
        """Note whether detectors read the composite events of one by their type."""
        hosted.readers_known(has_readers)
        there = self.inputs.of(hosted)
        if there is not None:
            there.readers_known(hosted)

    # Results.

    def _passed(self, there: HostedInput, passed: Passed, now: int) -> list[Effect]:
        """Publish the results of a shared input."""
        effects: list[Effect] = []
        watermark = passed.watermark
        if passed.late or passed.fenced:
            effects += self._problems(there.name, passed)
        self.counts["late"] += len(passed.late) + passed.disordered
        self.counts["duplicates"] += passed.duplicates
        for detector, found in passed.found:
            self._publish(self.hosted[detector.id], found, watermark, now, effects)
        if watermark is not None and there.is_turn(watermark, now):
            for hosted in there.watermarks_due(watermark, now):
                self._publish(hosted, [], watermark, now, effects)
            self._publish_turn(there.turn(watermark, now), watermark, now, effects)
        return effects

    def _publish_turn(self, members: list[HostedDetector], watermark: int, now: int, effects: list[Effect]) -> None:
        """Publish the watermark of members of a large input: to each client one message for all its subscriptions."""
        together: dict[tuple[str, str], list[str]] = {}
        for hosted in members:
            if not hosted.published_together:
                self._publish(hosted, [], watermark, now, effects)
            elif hosted.news(False, watermark, now):
                for name, served in hosted.subscriptions.items():
                    together.setdefault((served.client, hosted.home), []).append(name)
        for (client, home), names in together.items():
            progress = encode(Progress.of(client, names, watermark))
            topic = administration_topic("progress", client, root=self.root)
            effects.append(Publish(topic, progress, home=home or self._events_over))

    def _detected(self, hosted: HostedDetector, detected: Detected, now: int) -> list[Effect]:
        """Publish the results of a detector with an input of its own."""
        effects: list[Effect] = []
        if detected.late or detected.fenced:
            effects += self._problems(hosted.id, detected)
        self.counts["late"] += len(detected.late) + detected.disordered
        self.counts["duplicates"] += detected.duplicates
        self._publish(hosted, detected.events, detected.watermark, now, effects)
        return effects

    def _problems(self, where: str, result: Passed | Detected) -> list[Effect]:
        problem = f"late for detector {where}, which is beyond it"
        for source in sorted({each.source for each in result.late}):
            self.stories.happened("source", source, f"late for {where}")
            self.stories.happened("detector", where, f"events of {source} late")
        reason = "its lease has run out"
        return [
            *(self.dead_letters.event("late", problem, each, where) for each in result.late),
            *(warning("source fenced off", source=each, detector=where, reason=reason) for each in result.fenced),
        ]

    def _publish(
        self,
        hosted: HostedDetector,
        found: list[CompositeEvent],
        watermark: int | None,
        now: int,
        effects: list[Effect],
    ) -> None:
        """Publish composite events, or the watermark where it is due."""
        if hosted.news(bool(found), watermark, now):
            self.counts["composite events"] += len(found)
            frame = self._frame(hosted, found, watermark)
            effects.append(frame)
            if hosted.json is not None:
                effects += hosted.json.found(found, now)
            if hosted.meter is not None:
                hosted.meter.sent(len(frame.payload) + len(frame.topic), found, now)

    def json_heard(self, home: str, topic: str, payload: bytes) -> None:
        """Take a message on a topic where composite events leave as JSON."""
        for hosted in self.inventory.keeping_json():
            if hosted.json is not None:
                hosted.json.heard((home, topic), payload)

    def rest(self, hosted: HostedDetector) -> None:
        """Stop a detector here, for good or for now."""
        self.inputs.end(hosted)
        self.meter.end(hosted.id)
        self.routes.forget()

    def measured(self, now: int, latencies: Mapping[str, int]) -> LoadEntry | None:
        """Load of this node, where it has changed."""
        inputs = [each.meter for each in self.inputs.shared.values()]
        if not self.meter.tick(now, lambda identity: self.hosted[identity].detector.touched, inputs):
            return None
        if not self.meter.is_due(now):
            return None
        for identity in self.meter.named():
            detector, meter = self.hosted[identity].detector, self.meter.detectors[identity]
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
        home = hosted.home or self._events_over
        return Publish(composite_topic(hosted.detector.id, root=self.root), payload, home=home)

    def _published(self, detector: str) -> str:
        """Type of the composite events of a detector; empty for an unknown one."""
        entry = self.directory.detectors.get(detector)
        if entry is not None:
            return entry.publishes or detector
        # Its last events may come behind its end, over another server.
        readers = (each for each in self.inventory.streaming() if detector in each.streams)
        return next((each.upstream.get(detector, detector) for each in readers), "")


def _engine_news(hosted: HostedDetector) -> list[Effect]:
    if hosted.engine_changed():
        return [info("engine switched", detector=hosted.id, engine=hosted.engine)]
    return []
