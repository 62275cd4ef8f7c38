"""Path of events through a node: frames in, detectors, composite events out.

Frames are decoded, events checked against their type and passed to the detectors that read them; composite events leave
in frames, unusable events as dead letters. `brokers.node.hosting` decides on the detectors of a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from distced.brokers.core.clock_bound import ClockBound
from distced.brokers.core.dead_letters import DeadLetters
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Publish, info, warning
from distced.brokers.core.message_limits import LARGER, LIMITS, OFTENER, MessageBound, MessageLimits
from distced.brokers.core.metrics import LOSSES, DelayHistogram
from distced.brokers.core.topic_routes import TopicRoute, TopicRoutes
from distced.brokers.node.backlog import Backlog
from distced.brokers.node.hosted import HostedDetector, Phase
from distced.brokers.node.inputs import HostedInput, Inputs
from distced.brokers.node.inventory import Inventory
from distced.brokers.node.metering import Meter
from distced.brokers.node.output_streams import OutputStreams
from distced.brokers.node.served import FEW
from distced.brokers.node.story import Stories
from distced.brokers.node.value_samples import ValueSamples
from distced.brokers.node.waiting_frames import WaitingFrame, WaitingFrames
from distced.detectors.limits import LIMITS as DETECTOR_LIMITS
from distced.detectors.limits import (
    Limits,
    too_many_bytes_wait,
    too_many_composites,
    too_many_put_off,
    too_many_wait,
)
from distced.detectors.runtime.detection_policy import Arrival, Begins, DetectionPolicy, Positions
from distced.detectors.runtime.detector import Detected, Detector
from distced.detectors.runtime.engine_switch import Engines
from distced.detectors.runtime.shared_input import Passed
from distced.detectors.runtime.work_shares import TURN, WorkShares
from distced.middleware.model.errors import DistcedError, LimitError
from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, SECOND
from distced.middleware.wire.administration import Heartbeat, Missing, MissingMessages, Progress, Unavailable
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import MAX_AHEAD, NODE_CLIENT, LoadEntry, SourceEntry
from distced.middleware.wire.frames import Frame, decode_any
from distced.middleware.wire.numbered_stream import SUBSCRIBED_WITHIN, Loss, StreamPosition
from distced.middleware.wire.topics import administration_topic
from distced.policies.detection.guaranteed import Guaranteed

_RUNNING = Phase.RUNNING

MOST_NAMED: Final = 3
"""Number of sources named in the reason of a loss."""

CONSTITUENTS: Final = 50_000
"""Composite events in a frame at most, with their constituents: some megabytes, as one event may complete many."""

BEHIND: Final = 10_000
"""Number of events that wait for the turn of a detector from which it is logged."""

LATE_EVERY: Final = SECOND
"""Least time between two reports of a detector about events that came late by best effort, ns."""


class EventPath:
    """Running detectors of a node.

    Attributes:
        inventory: detectors, with `hosted` and `moving`, its tables by id, the latter of those arriving or leaving.
        inputs: inputs of the running detectors.
        counts: counters since the start.
        tallies: further ones, by metric and labels (`brokers.core.metrics`).
        delays: of composite events; None where nobody reads them.
        routes: topics of events to inputs; cleared when inputs or types change.
        asks: whether a stream has begun whose position is to be requested, behind the subscription to it.
        excesses: why detectors cannot go on, by id, until they are excluded (`brokers.node.exclusion`).
        memory: bytes of the state of detectors where they are many, by id.
        waiting: messages of publishers that publish too much.
        values: samples of attribute values of primitive events.
        shares: shares of the work of the running detectors.
    """

    def __init__(
        self,
        name: str,
        root: str,
        directory: Directory,
        stories: Stories,
        engines: Engines | None = None,
        events_over: str = "",
        max_ahead: int = MAX_AHEAD,
        limits: MessageLimits = LIMITS,
        detector_limits: Limits = DETECTOR_LIMITS,
    ) -> None:
        """
        Args:
            engines: choice of engines; None for the stepwise engine.
            events_over: connection of events at the server of the directory, where it is not that of the directory.
            max_ahead: events and promises further beyond the clock are rejected, ns.
            limits: of messages; what is beyond them is rejected.
            detector_limits: of detectors, of which the work of each client.
        """
        self.root = root
        self._events_over = events_over
        self.output = OutputStreams(root, events_over)
        self.stories = stories
        self.directory = directory
        self.inventory = Inventory()
        self.hosted, self.moving = self.inventory.hosted, self.inventory.moving
        self.inputs = Inputs(self.inventory.hosted, engines)
        self.counts = {"frames": 0, "events": 0, "composite events": 0, "late": 0, "duplicates": 0}
        self.tallies: Counter[tuple[str, ...]] = Counter()
        self.delays: DelayHistogram | None = None
        self.asks = False
        self.meter = Meter()
        self.dead_letters = DeadLetters(name, root, limits.letters)
        self.bound = MessageBound(self.dead_letters, limits, root)
        self.clock_bound = ClockBound(self.dead_letters, max_ahead)
        self.excesses: dict[str, LimitError] = {}
        self.memory: dict[str, int] = {}
        self.waiting = WaitingFrames()
        self.values = ValueSamples(limits.sampled_types)
        self.shares = WorkShares(detector_limits)
        # Detectors reported to be behind, as their releases are put off.
        self._behind: dict[Detector, None] = {}
        # Members of shared inputs that were concerned since the last look at their memory.
        self._touched: dict[Detector, None] = {}
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
        # Sources without an entry whose events were read.
        self._unannounced: set[str] = set()
        # Inputs with frames to be consumed, in the order of arrival.
        self._arrived: list[HostedInput | HostedDetector] = []
        # Losses of detectors and sources that others read, for these.
        self._lost: list[tuple[HostedDetector, Sequence[Loss]]] = []
        # By best effort, of late events since the last report, with the instant of the first; a frame for each event
        # would be more than the composite events.
        self._late: dict[HostedDetector, tuple[Loss, int]] = {}

    def collect(self, route: TopicRoute, topic: str, payload: bytes, now: int, home: str = "") -> list[Effect]:
        """Take a frame from a home, or an event in JSON, for `consume_arrived`."""
        self.counts["frames"] += 1
        if route.kind == "e" and len(payload) > self.bound.limits.size:
            return self._too_large(route, topic, payload, now)
        try:
            frame = decode_any(payload, where=topic, type=route.type_name, source=route.source, now=now)
        except DistcedError as error:
            self.stories.happened("source", route.source, f"frame malformed: {error.problem}")
            return list(self.dead_letters.message("malformed", error, topic, payload))
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
        if route.kind == "e":
            bounded, rejected = self.clock_bound.bounded(frame, topic, payload, now)
            if rejected:
                self.stories.happened("source", route.source, "events or a promise far beyond the clock")
                frame, events, effects = bounded, bounded.events, effects + rejected
            bounded, letters = self.bound.bounded(frame, topic, payload, now)
            if bounded is not frame:
                self.stories.happened("source", route.source, "events beyond a limit of messages")
                frame, events, effects = bounded, bounded.events, [*effects, *letters]
        self.counts["events"] += len(events)
        source, position = route.source, None
        if route.kind == "e":
            source = frame.source
            if source not in self.directory.sources and route.readers and not self._knows(source):
                return effects + self._one_more(route, frame, topic, payload, now)
            if frame.number is not None:
                position = StreamPosition(frame.type, frame.number, self.clock_bound.top(frame.top, now))
            if events:
                self.values.take(events[0], now)
        for reader in route.readers:
            if reader.__class__ is HostedInput:
                reader.meter.received(source, len(payload) + len(topic), len(events))
                if frame.losses:
                    self._lost += [(hosted, frame.losses) for hosted in reader.members]
                self._arrive(reader, (source, events, frame.watermark, position))
            elif reader.phase is _RUNNING:
                if reader.meter is not None:
                    reader.meter.received(source, len(payload) + len(topic), len(events))
                self._hear(reader, source, home, frame, now)
            elif reader.moving or source in reader.parts:
                reader.keep((source, home, frame))
        return effects

    def _knows(self, source: str) -> bool:
        """Whether events of a source that nobody has announced are read, as there is room for it."""
        known = self._unannounced
        if source not in known:
            if len(known) >= self.bound.limits.unannounced:
                return False
            known.add(source)
        return True

    def _one_more(self, route: TopicRoute, frame: Frame, topic: str, payload: bytes, now: int) -> list[Effect]:
        """Reject events of a source that nobody has announced, and report their loss."""
        if not frame.events:
            return []
        losses, letters = self.bound.of_unannounced(frame.source, frame.events, topic, payload, now)
        for reader in route.readers if losses else ():
            if isinstance(reader, HostedInput):
                self._lost += [(hosted, losses) for hosted in reader.members]
            elif reader.phase is _RUNNING:
                self._lost.append((reader, losses))
        return list(letters)

    def waits(self, route: TopicRoute, topic: str, payload: bytes, now: int, home: str) -> list[Effect] | None:
        """Have a message of events wait where its publisher has published too much, or others of it wait; the effects,
        None for one to be consumed now."""
        if route.kind != "e" or len(payload) > self.bound.limits.size:
            return None
        entry = self.directory.sources.get(route.source)
        publisher = "" if entry is None else entry.publisher
        if publisher not in self.waiting and self.bound.take(publisher, payload, now):
            return None
        self.counts["events delayed"] = self.counts.get("events delayed", 0) + 1
        if self.waiting.put(publisher, WaitingFrame(topic, payload, home)):
            return []
        return self._too_many_wait(route, publisher, topic, payload, now)

    def _too_many_wait(self, route: TopicRoute, publisher: str, topic: str, payload: bytes, now: int) -> list[Effect]:
        """Reject a message of a publisher with too many that wait: behind them its promise and its number count."""
        self.stories.happened("source", route.source, "a message beyond the rate")
        effects: list[Effect] = list(self.bound.letter_of_rate(publisher, topic, payload))
        self._reject(route, topic, now, OFTENER)
        return effects

    def _too_large(self, route: TopicRoute, topic: str, payload: bytes, now: int) -> list[Effect]:
        """Reject a message of events without a look into it.

        Where its stream is numbered the next one shows that it is missing. Of another its detectors report a loss.
        """
        self.stories.happened("source", route.source, "a message beyond the limit of size")
        self._reject(route, topic, now, LARGER)
        return list(self.bound.letter_of_size(topic, payload))

    def _reject(self, route: TopicRoute, topic: str, now: int, reason: str) -> None:
        """Report the loss of a message without a number that was not read."""
        begin, readers = INSTANT_MAX, list[HostedDetector]()
        for reader in route.readers:
            shared = reader.__class__ is HostedInput
            unnumbered = (reader.shared.policy if shared else reader.detector.policy).unnumbered()
            if route.source in unnumbered and (shared or reader.phase is _RUNNING):
                since = unnumbered[route.source]
                begin = INSTANT_MIN if since is None else min(begin, since)
                readers += reader.members if shared else (reader,)
        losses = self.bound.losses(topic, begin, now, reason, now) if readers else ()
        self._lost += [(each, losses) for each in readers if losses]

    def _hear(self, hosted: HostedDetector, source: str, home: str, frame: Frame, now: int) -> None:
        if frame.kind == "e":
            number = frame.number
            top = self.clock_bound.top(frame.top, now)
            position = None if number is None else StreamPosition(frame.type, number, top)
            if frame.losses:
                self._lost.append((hosted, frame.losses))
            self._arrive(hosted, (source, frame.events, frame.watermark, position))
            return
        streams = hosted.streams.get(source)
        if streams is None:
            self._arrive(hosted, (source, frame.events, None, None))
        else:
            self._hear_all(hosted, source, *streams.take(home, frame, now))

    def _hear_all(self, hosted: HostedDetector, source: str, frames: list[Frame], watermark: int | None) -> None:
        """Take frames of a detector in order, and the watermark behind them."""
        streams = hosted.streams[source]
        losses = streams.take_losses() if streams.losses else []
        for frame in frames:
            if frame.open and frame.watermark is not None:
                hosted.detector.hear_open(source, frame.open, frame.watermark)
            if frame.losses:
                losses += frame.losses
        if losses:
            self._lost.append((hosted, losses))
        events = frames[0].events if len(frames) == 1 else [event for frame in frames for event in frame.events]
        policy = hosted.detector.policy
        if watermark is not None and policy.begins is not None and source not in policy.begins:
            since = streams.complete_from
            if since is not None:
                policy.read_from(source, since)
        if events or watermark is not None:
            self._arrive(hosted, (source, events, watermark, None))

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
        if self._lost:
            lost, self._lost = self._lost, []
            for hosted, losses in lost:
                self._lose(hosted, losses, now, effects)
        arrived, self._arrived = self._arrived, []
        for reader in arrived:
            arrivals, reader.arrivals = reader.arrivals, ()
            if isinstance(reader, HostedInput):
                effects += self._passed(reader, reader.shared.receive(arrivals, now), now)
            else:
                effects += self._detected(reader, reader.detector.receive_all(arrivals, now), now)
        return effects

    # Detectors.

    def share(self, hosted: HostedDetector) -> bool:
        """Let a new detector share an input that is there; False where there is none for it."""
        return self.inputs.join(hosted)

    def separate(self, hosted: HostedDetector) -> None:
        """Give a detector an input of its own."""
        self.settle_base(hosted)
        self.inputs.separate(hosted)
        self.routes.forget()

    def begin(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Run a detector from now on; buffered inputs come first."""
        effects: list[Effect] = []
        self.inputs.begin(hosted)
        self.assign(hosted)
        meter = self.meter.begin(hosted.id, now, hosted.detector.touched)
        there = self.inputs.of(hosted)
        meter.input = None if there is None else there.meter
        for kept in hosted.begin(now, meter):
            if hosted.id in self.excesses:
                break
            match kept:
                case Heartbeat(sources=sources, watermark=watermark):
                    positions = self._positions(kept, now)
                    found = hosted.detector.heartbeat(sources, watermark, now, positions)
                    effects += self._detected(hosted, found, now)
                case str():
                    effects += self._detected(hosted, hosted.detector.fence(kept, now), now)
                case (source, home, frame):
                    self._hear(hosted, source, home, frame, now)
                    effects += self.consume_arrived(now)
        if there is None:
            # Detectors that begin next join it.
            self.inputs.merge_one(hosted, now)
        self.routes.forget()
        return effects

    def assign(self, hosted: HostedDetector) -> None:
        """Count the work of a running detector for its client, by itself where it has several, or serves a pattern of
        which it is a part."""
        if not hosted.running:
            return
        served = hosted.subscriptions
        clients = {each.client for _, each in served.items()} if len(served) <= FEW else set()
        client = clients.pop() if len(clients) == 1 else ""
        alone = not client or client.startswith(NODE_CLIENT)
        self.shares.assign(hosted.detector, f"{NODE_CLIENT}{hosted.id}" if alone else client)

    def go_on(self, now: int) -> list[Effect]:
        """Consume some releases that were put off, of the detector whose turn it is."""
        hosted = self.hosted[self.shares.take().id]
        detector = hosted.detector
        there = self.inputs.of(hosted)
        if there is None:
            return self._detected(hosted, detector.continued(now, TURN), now)
        effects = self._detected(hosted, there.shared.go_on(detector, now, TURN), now)
        if not detector.put_off:
            # The last turn of its watermark has passed.
            there.due_again()
        return effects

    def _look_at_turns(self, limits: Limits, now: int) -> list[Effect]:
        """Log detectors that are behind, and exclude the one with most events that wait of each client for which too
        many do."""
        effects: list[Effect] = []
        for share in list(self.shares.turns):
            number, size = share.events, share.bytes
            if number > limits.waiting or size > limits.waiting_bytes:
                most = max(share.waiting, key=lambda each: each.put_off)
                self._give_up(self.hosted[most.id].detector, too_many_put_off(limits, share.client, number))
                continue
            for detector in (self.hosted[each.id].detector for each in share.waiting):
                if detector.put_off >= BEHIND and detector not in self._behind:
                    self._behind[detector] = None
                    reason = "its client's detectors take more than their share of the node"
                    effects.append(
                        warning("detector behind", detector=detector.id, events=detector.put_off, reason=reason)
                    )
        for detector in [each for each in self._behind if not each.put_off]:
            del self._behind[detector]
            effects.append(info("detector caught up", detector=detector.id))
        return effects

    def heard(self, beat: Heartbeat, topic: str, payload: bytes, now: int) -> list[Effect]:
        """Advance sources beyond a watermark, unless it is far beyond the clock."""
        problem = self.clock_bound.check_promise(beat.watermark, topic, payload, now)
        if problem is None:
            return self._heartbeat(beat, now)
        for source in beat.sources:
            self.stories.happened("source", source, "a promise far beyond the clock")
        return [*problem]

    def _heartbeat(self, beat: Heartbeat, now: int) -> list[Effect]:
        effects: list[Effect] = []
        positions = self._positions(beat, now)
        for reader in self.inputs.readers():
            if isinstance(reader, HostedInput):
                passed = reader.shared.heartbeat(beat.sources, beat.watermark, now, positions)
                effects += self._passed(reader, passed, now)
            else:
                detected = reader.detector.heartbeat(beat.sources, beat.watermark, now, positions)
                effects += self._detected(reader, detected, now)
        for hosted in self.moving.values():
            hosted.keep(beat)
        return effects

    def _positions(self, beat: Heartbeat, now: int) -> list[Positions]:
        """Positions of the sources of a heartbeat, by type."""
        found: list[Positions] = []
        for source, positions in zip(beat.sources, beat.positions, strict=False):
            entry = self.directory.sources.get(source)
            types = () if entry is None else entry.types
            bounded = [(number, self.clock_bound.top(top, now)) for number, top in positions]
            found.append([(name, *each) for name, each in zip(types, bounded, strict=False)])
        return found

    def missing(self, now: int) -> dict[tuple[str, str], list[MissingMessages]]:
        """Missing messages of sources to be requested now, by publisher and home, each once."""
        found: dict[tuple[str, str], dict[MissingMessages, None]] = {}
        for reader in self.inputs.readers():
            policy = reader.shared.policy if isinstance(reader, HostedInput) else reader.detector.policy
            for source, stream, begin, end in policy.missing(now):
                entry = self.directory.sources.get(source)
                if entry is not None:
                    messages = found.setdefault((entry.publisher, entry.home), {})
                    messages[MissingMessages("e", source, begin, end, stream)] = None
        return {publisher: list(messages) for publisher, messages in found.items()}

    def look_again(self, home: str) -> dict[str, list[MissingMessages]]:
        """Requests for the positions of what is read from a home, by publisher; of detectors under an empty one."""
        found: dict[str, dict[MissingMessages, None]] = {}
        for reader in self.inputs.readers():
            policy = reader.shared.policy if isinstance(reader, HostedInput) else reader.detector.policy
            for source, stream in policy.streams():
                entry = self.directory.sources.get(source)
                if entry is not None and entry.home == home:
                    found.setdefault(entry.publisher, {})[MissingMessages("e", source, 0, 0, stream)] = None
        for hosted in self.inventory.streaming():
            for detector, streams in hosted.streams.items():
                if home in streams.homes:
                    streams.sought.add(home)
                    found.setdefault("", {})[MissingMessages("c", detector, 0, 0)] = None
        return {publisher: list(messages) for publisher, messages in found.items()}

    def interrupted(self, home: str, now: int) -> list[Effect]:
        """Report losses over a new connection: messages without numbers that were published at a home without it are
        gone."""
        effects: list[Effect] = []
        for reader in self.inputs.readers():
            policy = reader.shared.policy if isinstance(reader, HostedInput) else reader.detector.policy
            for hosted in reader.members if isinstance(reader, HostedInput) else (reader,):
                effects += self.lose(hosted, self._unnumbered(hosted, policy, now, home), now)
        return effects

    def resumed(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Report losses of a detector that continues from a checkpoint: messages without numbers since are gone."""
        return self.lose(hosted, self._unnumbered(hosted, hosted.detector.policy, now), now)

    def _unnumbered(
        self, hosted: HostedDetector, policy: DetectionPolicy, now: int, home: str | None = None
    ) -> list[Loss]:
        """Loss of the sources without numbers that publish at a home, or at any, up to now; none without such."""
        found: dict[str, int] = {}
        for source, watermark in policy.unnumbered().items():
            entry = self.directory.sources.get(source)
            at = "" if entry is None else entry.home
            if home in (None, at) and source not in hosted.upstream and source not in hosted.parts:
                found[source] = INSTANT_MIN if watermark is None else watermark
        if not found:
            return []
        named = ", ".join(sorted(found)[:MOST_NAMED]) + (", and others" if len(found) > MOST_NAMED else "")
        reason = f"a node had no connection, and messages without numbers may be missing: {named}"
        return [Loss(min(found.values()), now + SUBSCRIBED_WITHIN, reason)]

    def unavailable(self, lost: Unavailable, now: int, home: str = "") -> list[Effect]:
        """Take the answer of a publisher, from a home, to a request for missing messages."""
        effects: list[Effect] = []
        if lost.kind == "c":
            for hosted in self.inventory.streaming():
                if hosted.running and lost.source in hosted.streams:
                    found = hosted.streams[lost.source].unavailable(home, lost, now)
                    self._hear_all(hosted, lost.source, *found)
            return self.consume_arrived(now)
        lost = self.clock_bound.bounded_answer(lost, now)
        for reader in self.inputs.readers():
            if not reader.takes(lost.type):
                continue
            if isinstance(reader, HostedInput):
                effects += self._passed(reader, reader.shared.unavailable(lost, now), now)
            else:
                effects += self._detected(reader, reader.detector.unavailable(lost, now), now)
        return effects

    def lost_home(self, hosted: HostedDetector, detector: str, home: str, now: int) -> list[Effect]:
        """Read a detector no longer at a home that is gone, behind its last messages."""
        found = hosted.streams[detector].lost(home)
        if not hosted.running:
            return []
        self._hear_all(hosted, detector, *found)
        return self.consume_arrived(now)

    def missing_of_detectors(self, now: int) -> dict[str, list[MissingMessages]]:
        """Missing messages of detectors to be requested now, by home, each once."""
        found: dict[str, dict[MissingMessages, None]] = {}
        for hosted in self.inventory.streaming():
            for detector, streams in hosted.streams.items() if hosted.running else ():
                for home, messages in streams.due(detector, now).items():
                    found.setdefault(home, {}).update(dict.fromkeys(messages))
        return {home: list(messages) for home, messages in found.items()}

    def answer(self, missing: Missing, home: str) -> list[Effect]:
        """Answer to a reader that lacks messages of detectors that publish at a home."""
        effects: list[Effect] = []
        for each in missing.messages:
            hosted = self.hosted.get(each.source)
            if hosted is not None and hosted.running and hosted.home == home:
                effects += self.output.answer(missing, home, hosted, each)
        return effects

    def last_word(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Last watermark of a detector that leaves, for those that follow it to its next host."""
        watermark = hosted.detector.watermark
        if hosted.detector.policy.name == "best-effort" or watermark is None:
            return []
        effects: list[Effect] = []
        hosted.due_again()
        self._publish(hosted, [], watermark, now, effects)
        return effects

    def repeat_losses(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Losses that concern composite events to come, for a reader that is new."""
        if not hosted.output.losses:
            return []
        frame = self.output.frame(hosted, [], self._promised(hosted), now, hosted.output.losses)
        return [frame]

    def _promised(self, hosted: HostedDetector) -> int | None:
        detector = hosted.detector
        return None if detector.policy.name == "best-effort" else detector.watermark

    def lose(self, hosted: HostedDetector, losses: Iterable[Loss], now: int) -> list[Effect]:
        """Note losses of a detector, for its readers."""
        effects: list[Effect] = []
        self._lose(hosted, losses, now, effects)
        return effects

    def _lose(self, hosted: HostedDetector, losses: Iterable[Loss], now: int, effects: list[Effect]) -> None:
        """Tell the readers of a detector that events were lost."""
        compiled = hosted.detector.compiled
        if compiled.throttlings or compiled.endless:
            losses = [replace(each, until=compiled.reach_of_loss(each.until)) for each in losses]
        new = hosted.output.lose(losses)
        if not new:
            return
        self.tallies[(LOSSES,)] += len(new)
        for each in new:
            self.stories.happened("detector", hosted.id, f"events lost: {each.reason}")
        effects.append(self.output.frame(hosted, [], hosted.published, now, new))

    def _note_late(self, hosted: HostedDetector, losses: Iterable[Loss], now: int) -> None:
        """Note intervals of late events of a detector, for the next report."""
        for each in losses:
            before = self._late.get(hosted)
            if before is None:
                self._late[hosted] = each, now
            else:
                self._late[hosted] = replace(before[0].union(each), reason="several events late"), before[1]

    def report_late(self, hosted: HostedDetector, now: int) -> list[Effect]:
        """Report the late events of a detector before its state is saved or leaves, and when they are due."""
        late = self._late.pop(hosted, None)
        return [] if late is None else self.lose(hosted, [late[0]], now)

    def fence(self, source: str, now: int) -> list[Effect]:
        """Fence off a source: detectors wait no longer for it."""
        effects: list[Effect] = [warning("source fenced off", source=source)]
        self._unannounced.discard(source)
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
        self._unannounced.discard(source)
        for reader in self.inputs.readers():
            if any(map(reader.takes, entry.types)):
                target = reader.shared if isinstance(reader, HostedInput) else reader.detector
                types = [each for each in entry.types if reader.takes(each)]
                begins = Begins(types, entry.first, running=entry.resumed > 0)
                self.asks = self.asks or entry.resumed > 0
                watermark = max(watermark, target.join(source, entry.watermark, now, entry.lease, begins))
                read = True
                self.stories.happened("source", source, f"read by {reader.name}")
        return watermark, read

    def leave(self, source: str, reader: HostedInput | HostedDetector, now: int) -> list[Effect]:
        """End a source, or a detector that is one, for an input."""
        self.stories.happened("source", source, f"no longer read by {reader.name}")
        if isinstance(reader, HostedInput):
            return self._passed(reader, reader.shared.leave(source, now), now)
        return self._detected(reader, reader.detector.leave(source, now), now)

    def relieve(self, limits: Limits, now: int) -> list[Effect]:
        """Fence off the slowest source of each input for which too many events wait, and report what that may lose.

        To wait without end would take the memory of all detectors of the node. Rejected: to drop events (guaranteed
        detection would be wrong for all sources), and to exclude the detector (a stranger's silence would end it).
        """
        effects = self._look_at_turns(limits, now) if self.shares.turns or self._behind else []
        for reader in self.inputs.readers():
            policy = reader.shared.policy if isinstance(reader, HostedInput) else reader.detector.policy
            if not isinstance(policy, Guaranteed):
                continue
            number, size = len(policy.waiting), policy.waiting_bytes
            if number <= limits.waiting and size <= limits.waiting_bytes:
                continue
            slowest = policy.slowest()
            if slowest is None or slowest[0] in self.directory.detectors:
                # Of a part its host fences off the source.
                continue
            source = slowest[0]
            many = number > limits.waiting
            self._unannounced.discard(source)
            error = too_many_wait(limits, source, number) if many else too_many_bytes_wait(limits, source, size)
            self.counts["sources fenced off"] = self.counts.get("sources fenced off", 0) + 1
            effects.append(warning("source fenced off", source=source, detector=reader.name, reason=str(error)))
            loss = Loss(policy.sources[source].watermark, now, error.problem)
            for hosted in reader.members if isinstance(reader, HostedInput) else (reader,):
                self.stories.happened("detector", hosted.id, f"source {source} fenced off: {error.problem}")
                # Before what is released by it.
                self._lose(hosted, [loss], now, effects)
            if isinstance(reader, HostedInput):
                effects += self._passed(reader, reader.shared.fence(source, now), now)
            else:
                effects += self._detected(reader, reader.detector.fence(source, now), now)
        return effects

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
                    self._touched[detector] = None
                reader.shared.rest(now)
            else:
                if publish_again:
                    reader.publish_again()
                effects += self._detected(reader, reader.detector.tick(now), now)
                effects += _engine_news(reader)
                if publish_again:
                    self._measure(reader.detector)
        if publish_again:
            for detector in self._touched:
                # It may have gone since.
                if detector.id in self.hosted:
                    self._measure(detector)
            self._touched = {}
        # Nor do they wait for a clock that was set back.
        for hosted in [each for each, (_, since) in self._late.items() if abs(now - since) >= LATE_EVERY]:
            effects += self.report_late(hosted, now)
        if self.inputs.merge(now):
            self.routes.forget()
        self.output.rest(now)
        return effects

    def _measure(self, detector: Detector) -> None:
        """Note a detector whose state takes too much memory."""
        excess = detector.measure()
        if excess is not None:
            self._give_up(detector, excess)
        elif detector.memory:
            self.memory[detector.id] = detector.memory

    def _give_up(self, detector: Detector, excess: LimitError) -> None:
        detector.give_up()
        self.excesses[detector.id] = excess

    def slowest_sources(self) -> Iterator[tuple[str, int, int]]:
        """Of each input the source that holds it back, its last message, ns, and the number of detectors."""
        for reader in self.inputs.readers():
            if isinstance(reader, HostedInput):
                found, detectors = reader.shared.policy.slowest(), len(reader.shared.members)
            else:
                found, detectors = reader.detector.policy.slowest(), 1
            # Of a part its host reports the source.
            if found is not None and found[0] not in self.directory.detectors:
                yield (*found, detectors)

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
        for detector, excess in passed.excesses.items():
            self.excesses[detector.id] = excess
        if passed.late or passed.fenced or passed.losses:
            effects += self._problems(there.name, passed)
        if passed.losses:
            for hosted in there.members:
                self._lose(hosted, passed.losses, now, effects)
        for detector, losses in passed.behind.items():
            self._note_late(self.hosted[detector.id], losses, now)
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
        together: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
        for hosted in members:
            if not hosted.published_together or hosted.detector.put_off:
                self._publish(hosted, [], watermark, now, effects, in_turn=True)
            elif hosted.news(False, watermark, now, in_turn=True):
                life, number = hosted.output.life, hosted.output.number
                for name, served in hosted.subscriptions.items():
                    together.setdefault((served.client, hosted.home), []).append((name, life, number))
        for (client, home), names in together.items():
            progress = encode(Progress.of(client, names, watermark))
            topic = administration_topic("progress", client, root=self.root)
            effects.append(Publish(topic, progress, home=home or self._events_over))

    def detected(self, hosted: HostedDetector, detected: Detected, now: int) -> list[Effect]:
        """Publish the results of a detector that has consumed recorded events."""
        return self._detected(hosted, detected, now)

    def _detected(self, hosted: HostedDetector, detected: Detected, now: int) -> list[Effect]:
        """Publish the results of a detector with an input of its own."""
        if detected.excess is not None:
            self.excesses[hosted.id] = detected.excess
            return []
        effects: list[Effect] = []
        if detected.late or detected.fenced or detected.losses:
            effects += self._problems(hosted.id, detected)
        if detected.losses:
            self._lose(hosted, detected.losses, now, effects)
        if detected.behind:
            self._note_late(hosted, detected.behind, now)
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
            *self.dead_letters.events("late", lambda _: problem, result.late, where),
            *(warning("source fenced off", source=each, detector=where, reason=reason) for each in result.fenced),
            *(
                warning("events lost", detector=where, since=each.since, until=each.until, reason=each.reason)
                for each in result.losses
            ),
        ]

    def _publish(
        self,
        hosted: HostedDetector,
        found: list[CompositeEvent],
        watermark: int | None,
        now: int,
        effects: list[Effect],
        *,
        in_turn: bool = False,
    ) -> None:
        """Publish composite events, or the watermark where it is due."""
        if self.excesses and hosted.id in self.excesses:
            # What it has found is incomplete.
            return
        detector = hosted.detector
        limits = detector.limits
        if watermark is not None and detector.put_off:
            # What waits for its turn is to come before it.
            watermark = detector.watermark
        if (
            len(found) > limits.composites
            and (most := max(Counter(each.hi for each in found).values())) > limits.composites
        ):
            self._give_up(detector, too_many_composites(limits, most))
            return
        if hosted.news(bool(found), watermark, now, in_turn=in_turn):
            self.counts["composite events"] += len(found)
            self.settle_base(hosted)
            if hosted.json is not None:
                effects += hosted.json.found(found, now)
            if found and self.delays is not None:
                self.delays.add(found, now)
            for some in _in_frames(found):
                last = len(some) == len(found) or some[-1] is found[-1]
                frame = self.output.frame(hosted, some, watermark if last else None, now)
                effects.append(frame)
                if hosted.meter is not None:
                    hosted.meter.sent(len(frame.payload) + len(frame.topic), some, now)

    def settle_base(self, hosted: HostedDetector) -> bool:
        """Settle the instant from which the composite events of a detector are complete; False where it is not known
        yet."""
        output, policy = hosted.output, hosted.detector.policy
        watermark = hosted.detector.watermark
        if output.base is None and watermark is not None and watermark > INSTANT_MIN:
            # What a source had published before the detector began may reach further. Without numbers, or of an input
            # that was there before, the watermark is known alone.
            begun = policy.base
            alone = self.inputs.of(hosted) is None
            known = alone and policy.unnumbered().keys() <= hosted.streams.keys()
            output.base = begun if begun is None or known else max(watermark, begun)
        return output.base is not None

    def json_heard(self, home: str, topic: str, payload: bytes) -> None:
        """Take a message on a topic where composite events leave as JSON."""
        for hosted in self.inventory.keeping_json():
            if hosted.json is not None:
                hosted.json.heard((home, topic), payload)

    def rest(self, hosted: HostedDetector) -> None:
        """Stop a detector here, for good or for now."""
        self._late.pop(hosted, None)
        self.shares.release(hosted.detector)
        self._behind.pop(hosted.detector, None)
        self.memory.pop(hosted.id, None)
        self.inputs.end(hosted)
        self.meter.end(hosted.id)
        self.routes.forget()

    def measured(
        self, now: int, latencies: Mapping[str, int], backlog: Backlog, silent: Mapping[str, int]
    ) -> LoadEntry | None:
        """Load of this node, where it has changed."""
        inputs = [each.meter for each in self.inputs.shared.values()]
        if not self.meter.tick(now, lambda identity: self.hosted[identity].detector.touched, inputs):
            return None
        if not self.meter.is_due(now):
            return None
        for identity in self.meter.named():
            detector, meter = self.hosted[identity].detector, self.meter.detectors[identity]
            meter.state, meter.engine = detector.size, detector.at_work
        return self.meter.news(now, latencies, backlog, silent)

    def _published(self, detector: str) -> str:
        """Type of the composite events of a detector; empty for an unknown one."""
        entry = self.directory.detectors.get(detector)
        if entry is not None:
            return entry.publishes or detector
        # Its last events may come behind its end, over another server.
        readers = (each for each in self.inventory.streaming() if detector in each.streams)
        return next((each.upstream.get(detector, detector) for each in readers), "")


def _in_frames(found: list[CompositeEvent]) -> Iterator[list[CompositeEvent]]:
    """Composite events in frames that servers take, by the number of their constituents."""
    if len(found) <= 1:
        yield found
        return
    begin = size = 0
    for place, each in enumerate(found):
        size += 1 + len(each.constituents)
        if size > CONSTITUENTS and place > begin:
            yield found[begin:place]
            begin, size = place, 1 + len(each.constituents)
    yield found[begin:]


def _engine_news(hosted: HostedDetector) -> list[Effect]:
    if hosted.engine_changed():
        return [info("engine switched", detector=hosted.id, engine=hosted.engine)]
    return []
