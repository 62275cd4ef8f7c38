"""A detector moves from one node to another, cut in event time: nothing is lost, nothing is consumed twice.

composite-event-framework-2004, "Mobile Composite Event Detectors" (migrate); design, section 4, "Migration". In steps:

1. The origin tells the target what the detector is. The target subscribes to everything it reads and keeps what comes.
2. The target says that it listens, when every server has taken its subscriptions (`brokers.core.barriers`). What is
   published from then on both nodes will hear.
3. The origin hears from every server what was published before; then it stops, takes the whole state, which is that of
   some watermark with what waits behind it, and sends it when all it has published is at the home of its topic. It
   keeps what comes, in case the target does not take it.
4. The target goes on from the state, with what it has kept: ids tell what both had heard. It says in the directory that
   the detector is there. Who subscribes notices nothing, for the topic stays.
5. The origin reads that in the directory, and forgets the detector.

A copy is made in the same steps, but the origin goes on, and the target tells it in step 4 that the copy is at work.

If the target refuses, is lost, or says nothing for too long, the origin goes on where it stopped. If the origin is lost
before the state is sent, the target forgets what it has kept, and the detector is taken over as any lost one.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect, Note, Publish
from distced.brokers.node.admission import Routing
from distced.brokers.node.event_path import Detecting, Hosted
from distced.brokers.node.hosting import Serving
from distced.brokers.node.hosting_messages import cut_of, delegated_of
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Arrival, DetectorEntry, Move, Refusal, State, decode, encode
from distced.middleware.wire.topics import administration_topic

PATIENCE: Final = 10 * SECOND
"""How long a step of a move may take, ns."""


@dataclass(slots=True)
class _Moving:
    """A detector on its way.

    Attributes:
        other: the node at the other end.
        arrives: whether it comes here.
        copy: whether it is at the origin, too, from then on.
        heard: whether the other end has said that it listens.
        sent: whether its state is on its way.
        since: when the last step was taken, ns.
    """

    other: str
    arrives: bool
    since: int
    copy: bool = False
    heard: bool = False
    sent: bool = False


class Migrating:
    """The detectors of a node that move.

    Attributes:
        moving: by id.
    """

    def __init__(
        self, name: str, root: str, directory: Directory, detecting: Detecting, serving: Serving, routing: Routing
    ) -> None:
        self.name = name
        self.root = root
        self.directory = directory
        self.detecting = detecting
        self.serving = serving
        self.routing = routing
        self.homes = serving.homes
        self.moving: dict[str, _Moving] = {}
        # The last motion to here of each detector: from where, and its number.
        self._prepared: dict[str, tuple[str, int]] = {}

    # At the origin.

    def asked(self, detector: str, move: Move, now: int) -> list[Effect]:
        """A detector is to be moved; it is for its host to do."""
        hosted = self.detecting.hosted.get(detector)
        if hosted is None or not hosted.primary or move.node == self.name:
            return []
        if hosted.planned.asked.hints.isolated:
            fields: dict[str, object] = {"detector": detector, "node": move.node}
            return [Note("warning", "a detector with a process of its own is not moved", fields)]
        if detector in self.moving:
            fields = {"detector": detector, "node": move.node}
            return [Note("warning", "a detector that is in motion is not moved elsewhere meanwhile", fields)]
        if move.node in hosted.copies:
            # Nothing else is begun until the directory says so.
            self.moving[detector] = _Moving(move.node, arrives=False, since=now, copy=True)
            return self.serving.copies.hand_over(hosted, move.node)
        return self._begin(hosted, move.node, now, copy=False)

    def copy(self, detector: str, node: str, now: int) -> list[Effect]:
        """Have a copy of a detector on another node, too."""
        hosted = self.detecting.hosted[detector]
        return [] if node in hosted.copies else self._begin(hosted, node, now, copy=True)

    def _begin(self, hosted: Hosted, node: str, now: int, *, copy: bool) -> list[Effect]:
        detector = hosted.detector.id
        if detector in self.moving:
            return []
        fields: dict[str, object] = {"detector": detector, "node": node}
        if node not in self.directory.nodes:
            return [Note("warning", "a detector cannot be moved to a node that is not there", fields)]
        if not hosted.active:
            return [Note("warning", "a detector that is not at work yet is not moved", fields)]
        planned = hosted.planned
        cuts = tuple(cut_of(place, each) for place, each in planned.places)
        self.moving[detector] = _Moving(node, arrives=False, since=now, copy=copy)
        reads = {each: tuple(sorted(streams.trusted)) for each, streams in hosted.streams.items()}
        arrival = Arrival(self.name, planned.asked, cuts, planned.parts, hosted.home, copy, now, reads)
        return [self._tell(node, "prepare", detector, encode(arrival))]

    def told(self, kind: str, detector: str, payload: bytes, now: int, where: str) -> list[Effect]:
        """The other end has taken a step."""
        moving = self.moving.get(detector)
        match kind:
            case "prepare":
                return self._prepare(detector, decode(payload, Arrival, where=where), now)
            case "listening" if moving is not None and not moving.arrives and not moving.sent:
                return self._listen_up(detector, moving, now)
            case "state" if moving is not None and moving.arrives:
                return self._take(detector, moving, decode(payload, State, where=where), now)
            case "copied" if moving is not None and not moving.arrives and moving.copy:
                del self.moving[detector]
                note = Note("info", "detector copied", {"detector": detector, "node": moving.other})
                return [note, *self.serving.copies.copied(detector, moving.other), *self.routing.settled(detector, now)]
            case "called-off" if moving is not None and moving.arrives:
                return self._given_up(detector, moving, "it is called off", now)
            case "refused" if moving is not None and not moving.arrives:
                reason = decode(payload, Refusal, where=where).message
                return self._roll_back(detector, moving, reason, now)
        return []

    def _listen_up(self, detector: str, moving: _Moving, now: int) -> list[Effect]:
        """Hear what was published before the target listened, from every server; then stop."""
        hosted = self.detecting.hosted.get(detector)
        if hosted is None:
            return self._call_off(detector, moving, now)
        if moving.heard:
            return []
        moving.heard, moving.since = True, now

        def heard(now: int) -> list[Effect]:
            return self._stop(detector, moving, now) if self.moving.get(detector) is moving else []

        return self.homes.flush(self.serving.listening.homes_read(hosted), heard, now)

    def _stop(self, detector: str, moving: _Moving, now: int) -> list[Effect]:
        hosted = self.detecting.hosted.get(detector)
        if hosted is None:
            return self._call_off(detector, moving, now)
        # A few times smaller in a millisecond, which is worth it on any link.
        snapshot = zlib.compress(hosted.detector.snapshot(), 1)
        moving.sent, moving.since = True, now
        wanted = (hosted.constituents, hosted.records)
        if moving.copy:
            return [self._tell(moving.other, "state", detector, encode(State(snapshot, {}, {}, {}, *wanted)))]
        subscriptions = self.serving.leaving(detector)
        state = State(snapshot, subscriptions, hosted.copies, hosted.near, *wanted)

        def published(now: int) -> list[Effect]:
            if self.moving.get(detector) is not moving:
                return []
            return [self._tell(moving.other, "state", detector, encode(state))]

        # What it has published comes before what the target will publish, at the home of the topic, too.
        return self.homes.flush({hosted.home}, published, now)

    def _call_off(self, detector: str, moving: _Moving, now: int) -> list[Effect]:
        """Nobody needs it any more."""
        del self.moving[detector]
        return [self._tell(moving.other, "called-off", detector, b""), *self.routing.settled(detector, now)]

    def _roll_back(self, detector: str, moving: _Moving, reason: str, now: int) -> list[Effect]:
        del self.moving[detector]
        fields: dict[str, object] = {"detector": detector, "node": moving.other, "reason": reason}
        problem = "a detector is not copied" if moving.copy else "a detector stays where it is"
        effects: list[Effect] = [Note("warning", problem, fields)]
        if moving.copy:
            effects += self.serving.copies.not_copied(detector, moving.other)
        elif moving.sent:
            effects += self.serving.stays(detector, now)
        return [*effects, *self.routing.settled(detector, now)]

    # At the target.

    def _prepare(self, detector: str, arrival: Arrival, now: int) -> list[Effect]:
        if self._prepared.get(detector) == (arrival.origin, arrival.number):
            # The same message twice.
            return []
        if detector in self.detecting.hosted or detector in self.moving:
            return [self._refuse(arrival.origin, detector, "the detector is here, or on its way")]
        places = dict(map(delegated_of, arrival.cuts))
        try:
            planned = self.serving.delegating.plan_again(
                arrival.asked, self.directory.registry(), places, arrival.parts
            )
        except (DistcedError, LookupError) as error:
            return [self._refuse(arrival.origin, detector, str(error))]
        if planned.id != detector:
            return [self._refuse(arrival.origin, detector, f"the pattern is that of {planned.id}")]
        self._prepared[detector] = (arrival.origin, arrival.number)
        hosted, effects = self.serving.arriving(
            planned, self.serving.home if arrival.copy else arrival.home, arrival.reads
        )
        moving = self.moving[detector] = _Moving(arrival.origin, arrives=True, since=now, copy=arrival.copy)

        def listening(now: int) -> list[Effect]:
            if self.moving.get(detector) is not moving:
                return []
            moving.since = now
            return [self._tell(arrival.origin, "listening", detector, b"")]

        return [*effects, *self.homes.flush(self.serving.listening.homes_read(hosted), listening, now)]

    def _take(self, detector: str, moving: _Moving, state: State, now: int) -> list[Effect]:
        hosted = self.detecting.moving[detector]
        del self.moving[detector]
        try:
            hosted.detector.resume(zlib.decompress(state.snapshot))
        except (DistcedError, zlib.error) as error:
            effects = [*self.serving.gone(detector), self._refuse(moving.other, detector, str(error))]
            return [*effects, *self.routing.settled(detector, now)]
        arrived = self.serving.arrived(hosted, state, now, copy=moving.copy)
        if moving.copy:
            arrived.append(self._tell(moving.other, "copied", detector, b""))
        what = "copy of a detector arrived" if moving.copy else "detector arrived"
        note = Note("info", what, {"detector": detector, "origin": moving.other})
        return [note, *arrived, *self.routing.settled(detector, now)]

    # At either end.

    def detector_changed(self, change: Change, now: int) -> list[Effect] | None:
        """What the directory says of a detector in motion; None where it is in none."""
        moving = self.moving.get(change.name)
        if moving is not None and moving.copy and not moving.arrives and _names(change.entry, moving.other):
            # Handed over.
            del self.moving[change.name]
            return None
        if moving is None or moving.arrives or moving.copy or not moving.sent:
            return None
        if change.entry is not None and change.entry.node == moving.other:
            del self.moving[change.name]
            note = Note("info", "detector moved", {"detector": change.name, "node": moving.other})
            return [note, *self.serving.gone(change.name), *self.routing.settled(change.name, now)]
        return []

    def node_lost(self, node: str, now: int) -> list[Effect]:
        """A node is gone: what was on its way to it stays, what was on its way from it does not come."""
        effects: list[Effect] = []
        for detector, moving in list(self.moving.items()):
            if moving.other == node:
                effects += self._given_up(detector, moving, "the other node is lost", now)
        return effects

    def tick(self, now: int) -> list[Effect]:
        """Time has passed: nobody waits for ever."""
        effects: list[Effect] = []
        for detector, moving in list(self.moving.items()):
            if now - moving.since > PATIENCE:
                effects += self._given_up(detector, moving, "the other node says nothing", now)
        return effects

    def _given_up(self, detector: str, moving: _Moving, reason: str, now: int) -> list[Effect]:
        if not moving.arrives:
            return self._roll_back(detector, moving, reason, now)
        del self.moving[detector]
        return [*self.serving.gone(detector), *self.routing.settled(detector, now)]

    def _refuse(self, origin: str, detector: str, message: str) -> Publish:
        return self._tell(origin, "refused", detector, encode(Refusal(message)))

    def _tell(self, node: str, kind: str, detector: str, payload: bytes) -> Publish:
        return Publish(administration_topic("node", node, kind, detector, root=self.root), payload)


def _names(entry: DetectorEntry | None, node: str) -> bool:
    """Whether a detector's entry says that it is at a node."""
    return entry is not None and entry.node == node
