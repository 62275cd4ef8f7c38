"""Rebalancing, the control phase: running detectors are reconsidered periodically, and moved where that pays.

composite-event-framework-2004, "Mobile Composite Event Detectors": in the control phase a detector checks compliance
with its policy, and adapts. `policies.distribution.choose.reconsider` decides, from measurements of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from distced.brokers.core.effects import Effect, info
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.migration import Migration
from distced.brokers.node.placement import Placement
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.middleware.wire.codec import encode
from distced.policies.distribution.choose.reconsider import DWELL

CONTROL_EVERY: Final = 10 * SECOND
"""Least interval between reconsiderations of a detector, ns."""

AT_ONCE: Final = 50
"""Number of detectors reconsidered in one go, those first that have waited longest: with a hundred thousand detectors a
node would do nothing else.
"""

REQUESTS_EVERY: Final = DWELL
"""Least interval between requests to other nodes to move detectors, ns: some are not followed."""

MOST_BESIDE: Final = 1_000
"""Most detectors of a node that are looked through for those that would move together."""


@dataclass(frozen=True, slots=True)
class _Awaited:
    """Requested moves of detectors of other nodes, and the moves here that follow, until an instant, ns."""

    elsewhere: Mapping[str, str]
    here: Mapping[str, str]
    reason: str
    until: int


class Rebalancing:
    """Periodic reconsideration of the places of a node's detectors."""

    def __init__(self, hosting: DetectorHosting, placement: Placement, migration: Migration) -> None:
        self.hosting = hosting
        self.placement = placement
        self.migration = migration
        # When each was looked at last, in that order; empty while there is no other node.
        self._seen: dict[str, int] = {}
        # Moves of detectors of other nodes that were requested, and those of this node that follow; None for none.
        self._awaited: _Awaited | None = None
        # When another node was last requested to move a detector, ns.
        self._requested = -REQUESTS_EVERY

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time; call it every few seconds."""
        hosted = self.hosting.event_path.hosted
        if len(self.hosting.directory.common_nodes) < 2:
            self._seen.clear()
            return []
        if self._awaited is not None:
            return self._follow(self._awaited, now)
        for identity in hosted if len(self._seen) != len(hosted) else ():
            self._seen.setdefault(identity, now)
        due: list[str] = []
        for identity, at in self._seen.items():
            if len(due) == AT_ONCE or now - at < CONTROL_EVERY:
                break
            due.append(identity)
        effects: list[Effect] = []
        for identity in due:
            del self._seen[identity]
            each = hosted.get(identity)
            if each is None:
                continue
            self._seen[identity] = now
            if self._may_move(each) and identity not in self.migration.moving:
                effects += self._reconsider(identity, each, now)
        return effects

    def reconsider_soon(self, detector: str | None, now: int) -> None:
        """Reconsider a detector, or all (None), soon, as its policy has changed, however short it was here."""
        hosted = self.hosting.event_path.hosted
        soon = list(hosted) if detector is None else [detector] if detector in hosted else []
        for identity in soon:
            hosted[identity].set_back(now - DWELL)
            self._seen.pop(identity, None)
        self._seen = dict.fromkeys(soon, now - CONTROL_EVERY) | self._seen

    def _reconsider(self, identity: str, hosted: HostedDetector, now: int) -> list[Effect]:
        move = self.placement.reconsider(hosted, now, beside=self._beside())
        if move is None or move.kind != "move":
            # `brokers.node.replication` maintains replicas.
            return []
        if any(each.other == move.node for each in self.migration.moving.values()):
            # Decided without what is between the two nodes now: two detectors would move to one idle node, and back.
            self._seen[identity] = now - CONTROL_EVERY
            return []
        hosted_here = self.hosting.event_path.hosted
        elsewhere = {name: node for name, node in move.together if name not in hosted_here}
        if elsewhere:
            # What makes room goes first: where it stays, this move would not pay.
            here = {name: node for name, node in move.together if name in hosted_here}
            return self._request(elsewhere, {identity: move.node, **here}, move.reason, now)
        return self._begin({identity: move.node, **dict(move.together)}, move.reason, now)

    def _begin(self, moves: Mapping[str, str], reason: str, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for name, node in moves.items():
            effects.append(info("move begun", detector=name, node=node, reason=reason))
            effects += self.migration.asked(name, MoveRequest(node), now)
        return effects

    def _request(self, elsewhere: Mapping[str, str], here: Mapping[str, str], reason: str, now: int) -> list[Effect]:
        """Requests to the hosts of detectors to move each to a node; those here follow."""
        detectors = self.hosting.directory.detectors
        if now - self._requested < REQUESTS_EVERY or not elsewhere.keys() <= detectors.keys():
            return []
        self._requested = now
        self._awaited = _Awaited(elsewhere, here, reason, now + CONTROL_EVERY)
        effects: list[Effect] = []
        for name, node in elsewhere.items():
            host = detectors[name].node
            effects.append(info("move requested", detector=name, node=node, host=host, reason=reason))
            effects.append(self.hosting.send(host, "relieve", name, encode(MoveRequest(node))))
        return effects

    def _follow(self, awaited: _Awaited, now: int) -> list[Effect]:
        """Begin the moves that follow, once the others have moved; give them up where they do not."""
        if now >= awaited.until:
            self._awaited = None
            return []
        detectors = self.hosting.directory.detectors
        if any(name not in detectors or detectors[name].node != node for name, node in awaited.elsewhere.items()):
            return []
        self._awaited = None
        hosted = self.hosting.event_path.hosted
        here = [name for name in awaited.here if name in hosted and self._may_move(hosted[name])]
        return self._begin({name: awaited.here[name] for name in here}, awaited.reason, now)

    def requested(self, detector: str, move: MoveRequest, now: int) -> list[Effect]:
        """Take the request of another node to move a detector, where its policy and its hints allow that."""
        hosted = self.hosting.event_path.hosted.get(detector)
        if hosted is None or not self._may_move(hosted) or detector in self.migration.moving:
            return []
        if not self.placement.may_give_way(hosted, move.node, now):
            reason = "its policy, its hints or a recent move keep it here"
            return [info("move refused", detector=detector, node=move.node, reason=reason)]
        reason = "requested by a node that it relieves"
        begun = info("move begun", detector=detector, node=move.node, reason=reason)
        return [begun, *self.migration.asked(detector, move, now)]

    def _beside(self) -> Iterator[HostedDetector]:
        """Detectors here that may move; none where they are too many to be looked through."""
        hosted = self.hosting.event_path.hosted
        if len(hosted) <= MOST_BESIDE:
            moving = self.migration.moving
            yield from (each for each in hosted.values() if self._may_move(each) and each.detector.id not in moving)

    def _may_move(self, hosted: HostedDetector) -> bool:
        return hosted.primary and hosted.movable and not hosted.planned.asked.hints.isolated
