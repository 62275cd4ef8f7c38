"""Migration of a detector from one node to another, cut in event time: nothing is lost, nothing is consumed twice.

composite-event-framework-2004, "Mobile Composite Event Detectors" (migrate); design, section 4, "Migration". In steps:

1. The origin sends the target the detector's description. The target subscribes to all its inputs and buffers them.
2. The target reports readiness when every server has taken its subscriptions (`brokers.core.barriers`).
3. The origin receives from every server what was published before; then it stops, and sends the state, that of a
   watermark with the events waiting behind it, when its composite events have arrived at home. It buffers inputs.
4. The target continues from the state with its buffered inputs; ids identify duplicates. It publishes its entry in the
   directory, and its composite events at its own server. Where that is another one, readers follow: it offers the
   detector to its subscriptions again, and what it has published before they listen there they request
   (`middleware.wire.replica_streams`), as of a host that has replaced a lost one.
5. The origin reads the entry and removes the detector.

A replica is made in the same steps, but the origin continues, and step 4 reports a running replica. If the target
refuses, is lost or stays silent, the origin continues where it stopped. If the origin is lost before the state is sent,
the target drops its buffer, and the detector is taken over like any lost one.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from distced.brokers.core.directory import Change
from distced.brokers.core.effects import Effect, Note, Publish, info, warning
from distced.brokers.core.metrics import MIGRATIONS_BEGUN, MIGRATIONS_ENDED
from distced.brokers.node.admission import Admission
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.planning import cut_of, delegated_of
from distced.brokers.node.replication import Replication
from distced.brokers.node.shared import NodePart
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.node_messages import Arrival, DetectorState, Lacking, Refusal, Step

PATIENCE: Final = 10 * SECOND
"""Time for a step of a move, ns."""

MOST_MOVED: Final = 16 * 1024 * 1024
"""Bytes of frames kept for durable subscriptions with which a detector moves: they go in one message."""


@dataclass(slots=True)
class _Moving:
    """Detector on its way.

    Attributes:
        number: of the motion; steps of others are ignored.
        other: node at the other end.
        arrives: whether it comes here.
        since: time of the last step, ns.
        replica: whether a replica is made.
        heard: whether the target has subscribed to the inputs.
        sent: whether the state is on its way.
        hands_over: whether a replica becomes the primary.
        home: home server of its topic at the origin, of what arrives.
    """

    number: int
    other: str
    arrives: bool
    since: int
    replica: bool = False
    heard: bool = False
    sent: bool = False
    hands_over: bool = False
    home: str = ""

    @property
    def kind(self) -> str:
        """Kind in metrics."""
        return "replica" if self.replica and not self.hands_over else "move"


_STEPS: Final[dict[str, type[Step | DetectorState | Refusal]]] = {
    "listening": Step,
    "replicated": Step,
    "called-off": Step,
    "state": DetectorState,
    "refused": Refusal,
}
"""Messages of the other end during a motion."""


class Migration(NodePart):
    """Moves of a node's detectors; `moving`, by id."""

    def __init__(self, hosting: DetectorHosting, admission: Admission, replication: Replication) -> None:
        super().__init__(hosting.shared)
        self.hosting = hosting
        self.admission = admission
        self.replication = replication
        self.moving: dict[str, _Moving] = {}
        # The last motion to here of each detector: from where, and its number.
        self._prepared: dict[str, tuple[str, int]] = {}

    # At the origin.

    def asked(self, detector: str, move: MoveRequest, now: int) -> list[Effect]:
        """Take the request to move a detector, as its host."""
        hosted = self.event_path.hosted.get(detector)
        if hosted is None or not hosted.primary or move.node == self.name:
            return []
        if hosted.planned.asked.hints.isolated:
            return [_refused(detector, move.node, "the detector has a process of its own")]
        if detector in self.moving:
            return [_refused(detector, move.node, "the detector is in motion")]
        if hosted.json_due:
            # A new primary: what it has kept is published here, as the next one may not have it.
            def published(now: int) -> list[Effect]:
                return [*self.hosting.publish_json(hosted, now), *self.asked(detector, move, now)]

            return self.homes.flush(hosted.json_homes, published, now)
        if move.node in hosted.replicas:
            # Nothing else is begun until the directory says so.
            self._add(detector, _Moving(now, move.node, arrives=False, since=now, replica=True, hands_over=True))
            return self.replication.hand_over(hosted, move.node, now)
        return self._begin(hosted, move.node, now, replica=False)

    def replicate(self, detector: str, node: str, now: int) -> list[Effect]:
        """Create a replica of a detector on another node."""
        hosted = self.event_path.hosted[detector]
        return [] if node in hosted.replicas else self._begin(hosted, node, now, replica=True)

    def _begin(self, hosted: HostedDetector, node: str, now: int, *, replica: bool) -> list[Effect]:
        detector = hosted.detector.id
        if detector in self.moving:
            return []
        if node not in self.directory.nodes:
            return [_refused(detector, node, "no such node")]
        if not hosted.running:
            return [_refused(detector, node, "the detector does not run yet")]
        if not hosted.movable:
            return [_refused(detector, node, "the detector consumes recorded events")]
        kept = self.event_path.output.durable.get(detector)
        if kept is not None and kept.size > MOST_MOVED:
            return [_refused(detector, node, "too much is kept for its durable subscriptions")]
        planned = hosted.planned
        cuts = tuple(cut_of(place, each) for place, each in planned.places)
        self._add(detector, _Moving(now, node, arrives=False, since=now, replica=replica))
        reads = {each: tuple(sorted(streams.trusted)) for each, streams in hosted.streams.items()}
        json = hosted.json.topics if hosted.json is not None else ()
        arrival = Arrival(self.name, planned.asked, cuts, planned.parts, hosted.home, replica, now, reads, json)
        return [self.send(node, "prepare", detector, encode(arrival))]

    def message(self, kind: str, detector: str, payload: bytes, now: int, where: str) -> list[Effect]:
        """Effects of a step of the other end."""
        if kind == "prepare":
            return self._prepare(detector, decode(payload, Arrival, where=where), now)
        if kind == "lacking":
            hosted = self.event_path.hosted.get(detector)
            lacking = decode(payload, Lacking, where=where).node
            return [] if hosted is None else self.hosting.without_replicas(hosted, [lacking])
        moving = self.moving.get(detector)
        if moving is None or kind not in _STEPS:
            return []
        step = decode(payload, _STEPS[kind], where=where)
        if step.number != moving.number:
            return []
        match kind, step:
            case "listening", _ if not moving.arrives and not moving.sent:
                return self._listen_up(detector, moving, now)
            case "state", DetectorState() if moving.arrives:
                return self._take(detector, moving, step, now)
            case "replicated", _ if not moving.arrives and moving.replica:
                self._ended(detector, "completed")
                self.admission.settled(detector)
                note = info("replica added", detector=detector, node=moving.other)
                return [note, *self.replication.replicated(detector, moving.other)]
            case "called-off", _ if moving.arrives:
                return self._given_up(detector, moving, "it is called off", now)
            case "refused", Refusal() if not moving.arrives:
                return self._roll_back(detector, moving, step.message, now)
        return []

    def _listen_up(self, detector: str, moving: _Moving, now: int) -> list[Effect]:
        """Receive all that was published before the target subscribed, from every server; then stop."""
        hosted = self.event_path.hosted.get(detector)
        if hosted is None:
            return self._call_off(detector, moving, now)
        if moving.heard:
            return []
        moving.heard, moving.since = True, now

        def heard(now: int) -> list[Effect]:
            return self._stop(detector, moving, now) if self.moving.get(detector) is moving else []

        return self.homes.flush(self.hosting.topic_filters.homes_read(hosted), heard, now)

    def _stop(self, detector: str, moving: _Moving, now: int) -> list[Effect]:
        hosted = self.event_path.hosted.get(detector)
        if hosted is None:
            return self._call_off(detector, moving, now)
        # A few times smaller in a millisecond.
        snapshot = zlib.compress(hosted.detector.snapshot(), 1)
        moving.sent, moving.since = True, now
        wanted, generation = (hosted.constituents, hosted.derivations), hosted.generation
        reads = {each: read for each, streams in hosted.streams.items() if (read := streams.state())}
        output = self.event_path.output
        watermark = hosted.detector.watermark
        last = self.event_path.report_late(hosted, now)
        if moving.replica:
            # With the last frames, for readers that come to its home and lack some.
            so_far = output.hand_on(hosted, watermark)
            state = DetectorState(moving.number, snapshot, {}, {}, {}, *wanted, generation, so_far, reads)
            return [*last, self.send(moving.other, "state", detector, encode(state))]
        last += self.event_path.last_word(hosted, now)
        handed_on = output.hand_on(hosted, watermark)
        self.hosting.leaving(detector)
        ready = {name: each.terms.ready for name, each in hosted.subscriptions.items()}
        near = {name: each.terms.near for name, each in hosted.subscriptions.items() if each.terms.near}
        replicas = dict(hosted.replicas)
        state = DetectorState(moving.number, snapshot, ready, replicas, near, *wanted, generation, handed_on, reads)

        def published(now: int) -> list[Effect]:
            message = self.send(moving.other, "state", detector, encode(state))
            return [message] if self.moving.get(detector) is moving else []

        # Its composite events precede those of the target, at the home of the topic, too.
        return [*last, *self.homes.flush({hosted.home}, published, now)]

    def _call_off(self, detector: str, moving: _Moving, now: int) -> list[Effect]:
        """Cancel the move, as the detector is not needed any more."""
        self._ended(detector, "called_off")
        self.admission.settled(detector)
        return [self.send(moving.other, "called-off", detector, encode(Step(moving.number)))]

    def _roll_back(self, detector: str, moving: _Moving, reason: str, now: int) -> list[Effect]:
        self._ended(detector, "failed")
        problem = "replica refused" if moving.replica else "move refused"
        effects: list[Effect] = [warning(problem, detector=detector, node=moving.other, reason=reason)]
        if moving.replica:
            effects += self.replication.not_replicated(detector, moving.other)
        elif moving.sent:
            effects += self.hosting.stays(detector, now)
        self.admission.settled(detector)
        return effects

    # At the target.

    def _prepare(self, detector: str, arrival: Arrival, now: int) -> list[Effect]:
        if self._prepared.get(detector) == (arrival.origin, arrival.number):
            return []  # The same message twice.
        effects: list[Effect] = []
        before = self.moving.get(detector)
        if before is not None and before.arrives and before.other == arrival.origin and before.number < arrival.number:
            # Its steps have taken so long that the origin has begun again.
            effects = self._given_up(detector, before, "the origin has begun again", now)
        if detector in self.event_path.hosted or detector in self.moving:
            return [self._refuse(arrival, detector, "the detector is here, or on its way")]
        places = dict(map(delegated_of, arrival.cuts))
        try:
            planned = self.hosting.planner.plan_again(arrival.asked, self.directory.registry(), places, arrival.parts)
        except (DistcedError, LookupError) as error:
            return [*effects, self._refuse(arrival, detector, str(error))]
        if planned.id != detector:
            return [*effects, self._refuse(arrival, detector, f"the pattern is that of {planned.id}")]
        self._prepared[detector] = (arrival.origin, arrival.number)
        hosted, arriving = self.hosting.arriving(planned, arrival.reads, arrival.json)
        moving = _Moving(
            arrival.number, arrival.origin, arrives=True, since=now, replica=arrival.replica, home=arrival.home
        )
        self.moving[detector] = moving

        def listening(now: int) -> list[Effect]:
            moving.since = now
            message = self.send(arrival.origin, "listening", detector, encode(Step(arrival.number)))
            return [message] if self.moving.get(detector) is moving else []

        homes = self.hosting.topic_filters.homes_read(hosted) | hosted.json_homes
        return [*effects, *arriving, *self.homes.flush(homes, listening, now)]

    def _take(self, detector: str, moving: _Moving, state: DetectorState, now: int) -> list[Effect]:
        hosted = self.event_path.moving[detector]
        del self.moving[detector]
        try:
            hosted.detector.resume(zlib.decompress(state.snapshot))
        except (DistcedError, zlib.error) as error:
            effects = [*self.hosting.gone(detector), self._refuse(moving, detector, str(error))]
            self.admission.settled(detector)
            return effects
        arrived = self.hosting.arrived(hosted, state, now, replica=moving.replica)
        if not moving.replica and hosted.home != moving.home:
            arrived += self.hosting.call_readers(hosted)
        if moving.replica:
            arrived.append(self.send(moving.other, "replicated", detector, encode(Step(moving.number))))
        note = info("replica arrived" if moving.replica else "detector arrived", detector=detector, origin=moving.other)
        self.admission.settled(detector)
        return [note, *arrived]

    # At either end.

    def _add(self, detector: str, moving: _Moving) -> None:
        """Note a motion that begins here, as its origin."""
        self.moving[detector] = moving
        self.event_path.tallies[MIGRATIONS_BEGUN, moving.kind] += 1

    def _ended(self, detector: str, outcome: str) -> None:
        """Note the end of a motion that began here."""
        moving = self.moving.pop(detector)
        self.event_path.tallies[MIGRATIONS_ENDED, moving.kind, outcome] += 1

    def detector_changed(self, change: Change, now: int) -> list[Effect] | None:
        """Effects of a changed entry of a detector; None where it is not in motion."""
        moving = self.moving.get(change.name)
        if moving is not None and moving.replica and not moving.arrives and _names(change.entry, moving.other):
            # Handed over.
            self._ended(change.name, "completed")
            return None
        if moving is None or moving.arrives or moving.replica or not moving.sent:
            return None
        if change.entry is not None and change.entry.node == moving.other:
            self._ended(change.name, "completed")
            note = info("detector moved", detector=change.name, node=moving.other)
            effects = [note, *self.hosting.gone(change.name)]
            self.admission.settled(change.name)
            return effects
        return []

    def node_lost(self, node: str, now: int) -> list[Effect]:
        """A node is lost: detectors on their way to it stay, those on their way from it are given up."""
        effects: list[Effect] = []
        for detector, moving in list(self.moving.items()):
            if moving.other == node:
                effects += self._given_up(detector, moving, "the other node is lost", now)
        return effects

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: give up steps that take too long."""
        effects: list[Effect] = []
        for detector, moving in list(self.moving.items()):
            if now - moving.since > PATIENCE:
                effects += self._given_up(detector, moving, "the other node says nothing", now)
        return effects

    def _given_up(self, detector: str, moving: _Moving, reason: str, now: int) -> list[Effect]:
        if not moving.arrives:
            return self._roll_back(detector, moving, reason, now)
        del self.moving[detector]
        effects = self.hosting.gone(detector)
        self.admission.settled(detector)
        return effects

    def _refuse(self, motion: Arrival | _Moving, detector: str, message: str) -> Publish:
        origin = motion.origin if isinstance(motion, Arrival) else motion.other
        return self.send(origin, "refused", detector, encode(Refusal(motion.number, message)))


def _refused(detector: str, node: str, reason: str) -> Note:
    return warning("move refused", detector=detector, node=node, reason=reason)


def _names(entry: DetectorEntry | None, node: str) -> bool:
    """Whether a detector's entry names a node."""
    return entry is not None and entry.node == node
