"""Rebalancing, the control phase: running detectors are reconsidered periodically, and moved where that pays.

composite-event-framework-2004, "Mobile Composite Event Detectors": in the control phase a detector checks compliance
with its policy, and adapts. `policies.distribution.choose.reconsider` decides, from measurements of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distced.brokers.core.effects import Effect, info
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.migration import Migration
from distced.brokers.node.placement import Placement
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest
from distced.policies.distribution.choose.reconsider import DWELL

CONTROL_EVERY: Final = 10 * SECOND
"""Least interval between reconsiderations of a detector, ns."""

AT_ONCE: Final = 50
"""Number of detectors reconsidered in one go, those first that have waited longest: with a hundred thousand detectors a
node would do nothing else.
"""

MOST_BESIDE: Final = 1_000
"""Most detectors of a node that are looked through for those that would move together."""


class Rebalancing:
    """Periodic reconsideration of the places of a node's detectors."""

    def __init__(self, hosting: DetectorHosting, placement: Placement, migration: Migration) -> None:
        self.hosting = hosting
        self.placement = placement
        self.migration = migration
        # When each was looked at last, in that order; empty while there is no other node.
        self._seen: dict[str, int] = {}

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time; call it every few seconds."""
        hosted = self.hosting.event_path.hosted
        if len(self.hosting.directory.common_nodes) < 2:
            self._seen.clear()
            return []
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
        effects: list[Effect] = []
        for name in (identity, *move.together):
            effects.append(info("move begun", detector=name, node=move.node, reason=move.reason))
            effects += self.migration.asked(name, MoveRequest(move.node), now)
        return effects

    def _beside(self) -> Iterator[HostedDetector]:
        """Detectors here that may move; none where they are too many to be looked through."""
        hosted = self.hosting.event_path.hosted
        if len(hosted) <= MOST_BESIDE:
            moving = self.migration.moving
            yield from (each for each in hosted.values() if self._may_move(each) and each.detector.id not in moving)

    def _may_move(self, hosted: HostedDetector) -> bool:
        return hosted.primary and hosted.running and not hosted.planned.asked.hints.isolated
