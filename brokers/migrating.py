"""A detector moves from one node to another, cut in event time: nothing is lost, nothing is consumed twice.

composite-event-framework-2004, "Mobile Composite Event Detectors" (migrate); design, section 4, "Migration". In steps:

1. The origin tells the target what the detector is. The target subscribes to everything it reads and keeps what comes.
2. The target says that it listens, when every server has taken its subscriptions (`brokers.homes`). What is published
   from then on both nodes will hear.
3. The origin hears from every server what was published before; then it stops, takes the whole state, which is that of
   some watermark with what waits behind it, and sends it when all it has published is at the home of its topic. It
   keeps what comes, in case the target does not take it.
4. The target goes on from the state, with what it has kept: ids tell what both had heard. It says in the directory that
   the detector is there. Who subscribes notices nothing, for the topic stays.
5. The origin reads that in the directory, and forgets the detector.

If the target refuses, is lost, or says nothing for too long, the origin goes on where it stopped. If the origin is lost
before the state is sent, the target forgets what it has kept, and the detector is taken over as any lost one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from brokers.detecting import Detecting
from brokers.directory import Change, Directory
from brokers.effects import Effect, Note, Publish
from brokers.serving import Serving
from detectors.cutting.graph import Place
from detectors.language.tree import Atom, Delegated
from middleware.errors import DistcedError
from middleware.protocol import Arrival, Cut, Move, Refusal, State, decode, encode
from middleware.sets.describable import Union
from middleware.timestamps import SECOND
from middleware.topics import administration_topic

PATIENCE: Final = 10 * SECOND
"""How long a step of a move may take, ns."""

_UNKNOWN: Final = Atom(Union(()))


@dataclass(slots=True)
class _Moving:
    """A detector on its way.

    Attributes:
        other: the node at the other end.
        arrives: whether it comes here.
        sent: whether its state is on its way.
        since: when the last step was taken, ns.
    """

    other: str
    arrives: bool
    since: int
    sent: bool = False


class Migrating:
    """The detectors of a node that move.

    Attributes:
        moving: by id.
    """

    def __init__(self, name: str, root: str, directory: Directory, detecting: Detecting, serving: Serving) -> None:
        self.name = name
        self.root = root
        self.directory = directory
        self.detecting = detecting
        self.serving = serving
        self.homes = serving.homes
        self.moving: dict[str, _Moving] = {}

    # At the origin.

    def asked(self, detector: str, move: Move, now: int) -> list[Effect]:
        """A detector is to be moved; it is for its host to do."""
        hosted = self.detecting.hosted.get(detector)
        if hosted is None or move.node == self.name or detector in self.moving:
            return []
        fields: dict[str, object] = {"detector": detector, "node": move.node}
        if move.node not in self.directory.nodes:
            return [Note("warning", "a detector cannot be moved to a node that is not there", fields)]
        if not hosted.active:
            return [Note("warning", "a detector that is not at work yet is not moved", fields)]
        planned = hosted.planned
        cuts = tuple(_cut(place, each) for place, each in planned.places)
        self.moving[detector] = _Moving(move.node, arrives=False, since=now)
        return [
            self._tell(
                move.node,
                "prepare",
                detector,
                encode(Arrival(self.name, planned.asked, cuts, planned.parts, hosted.home)),
            )
        ]

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
            case "refused" if moving is not None and not moving.arrives:
                reason = decode(payload, Refusal, where=where).message
                return self._roll_back(detector, moving, reason, now)
        return []

    def _listen_up(self, detector: str, moving: _Moving, now: int) -> list[Effect]:
        """Hear what was published before the target listened, from every server; then stop."""
        hosted = self.detecting.hosted.get(detector)
        if hosted is None:
            # Nobody needs it any more.
            del self.moving[detector]
            return []
        moving.since = now

        def heard(now: int) -> list[Effect]:
            return self._stop(detector, moving, now) if self.moving.get(detector) is moving else []

        return self.homes.flush(self.serving.homes_read(hosted), heard, now)

    def _stop(self, detector: str, moving: _Moving, now: int) -> list[Effect]:
        hosted = self.detecting.hosted.get(detector)
        if hosted is None:
            del self.moving[detector]
            return []
        snapshot = hosted.detector.snapshot()
        subscriptions = self.serving.leaving(detector)
        moving.sent, moving.since = True, now

        def published(now: int) -> list[Effect]:
            if self.moving.get(detector) is not moving:
                return []
            return [self._tell(moving.other, "state", detector, encode(State(snapshot, subscriptions)))]

        # What it has published comes before what the target will publish, at the home of the topic, too.
        return self.homes.flush({hosted.home}, published, now)

    def _roll_back(self, detector: str, moving: _Moving, reason: str, now: int) -> list[Effect]:
        del self.moving[detector]
        fields: dict[str, object] = {"detector": detector, "node": moving.other, "reason": reason}
        effects: list[Effect] = [Note("warning", "a detector stays where it is", fields)]
        return [*effects, *self.serving.stays(detector, now)] if moving.sent else effects

    # At the target.

    def _prepare(self, detector: str, arrival: Arrival, now: int) -> list[Effect]:
        if detector in self.detecting.hosted or detector in self.moving:
            return [self._refuse(arrival.origin, detector, "the detector is here, or on its way")]
        places: dict[Place, Delegated] = {(each.path, each.run): _delegated(each) for each in arrival.cuts}
        try:
            planned = self.serving.delegating.plan_again(
                arrival.asked, self.directory.registry(), places, arrival.parts
            )
        except (DistcedError, LookupError) as error:
            return [self._refuse(arrival.origin, detector, str(error))]
        if planned.id != detector:
            return [self._refuse(arrival.origin, detector, f"the pattern is that of {planned.id}")]
        hosted, effects = self.serving.arriving(planned, arrival.home)
        moving = self.moving[detector] = _Moving(arrival.origin, arrives=True, since=now)

        def listening(now: int) -> list[Effect]:
            if self.moving.get(detector) is not moving:
                return []
            moving.since = now
            return [self._tell(arrival.origin, "listening", detector, b"")]

        return [*effects, *self.homes.flush(self.serving.homes_read(hosted), listening, now)]

    def _take(self, detector: str, moving: _Moving, state: State, now: int) -> list[Effect]:
        hosted = self.detecting.moving[detector]
        del self.moving[detector]
        try:
            hosted.detector.resume(state.snapshot)
        except DistcedError as error:
            return [*self.serving.gone(detector), self._refuse(moving.other, detector, str(error))]
        note = Note("info", "detector arrived", {"detector": detector, "origin": moving.other})
        return [note, *self.serving.arrived(hosted, state.subscriptions, now)]

    # At either end.

    def detector_changed(self, change: Change, now: int) -> list[Effect] | None:
        """What the directory says of a detector in motion; None where it is in none."""
        moving = self.moving.get(change.name)
        if moving is None or moving.arrives or not moving.sent:
            return None
        if change.entry is not None and change.entry.node == moving.other:
            del self.moving[change.name]
            note = Note("info", "detector moved", {"detector": change.name, "node": moving.other})
            return [note, *self.serving.gone(change.name)]
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
        return self.serving.gone(detector)

    def _refuse(self, origin: str, detector: str, message: str) -> Publish:
        return self._tell(origin, "refused", detector, encode(Refusal(message)))

    def _tell(self, node: str, kind: str, detector: str, payload: bytes) -> Publish:
        return Publish(administration_topic("node", node, kind, detector, root=self.root), payload)


def _cut(place: Place, delegated: Delegated) -> Cut:
    path, run = place
    return Cut(
        path,
        run,
        delegated.detector,
        delegated.source,
        delegated.key,
        delegated.bound,
        delegated.counted,
        delegated.repeats,
    )


def _delegated(cut: Cut) -> Delegated:
    """What is delegated; the sub-pattern itself is looked up where it stands."""
    return Delegated(_UNKNOWN, cut.detector, cut.source, cut.key, cut.bound, cut.counted, cut.repeats)
