"""Rebalancing, the control phase: running detectors are reconsidered periodically, and moved where that pays.

composite-event-framework-2004, "Mobile Composite Event Detectors": in the control phase a detector checks compliance
with its policy, and adapts. `policies.distribution.choose.reconsider` decides, from measurements of nodes.
"""

from __future__ import annotations

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
"""Interval of reconsiderations of a detector, ns."""


class Rebalancing:
    """Periodic reconsideration of the places of a node's detectors."""

    def __init__(self, hosting: DetectorHosting, placement: Placement, migration: Migration) -> None:
        self.hosting = hosting
        self.placement = placement
        self.migration = migration
        # When each was looked at last.
        self._seen: dict[str, int] = {}

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time; call it every few seconds."""
        hosted = self.hosting.event_path.hosted
        self._seen = {identity: self._seen.get(identity, now) for identity in hosted}
        effects: list[Effect] = []
        for identity, each in list(hosted.items()):
            still = each.primary and each.running and identity not in self.migration.moving
            still = still and not each.planned.asked.hints.isolated
            if still and now - self._seen[identity] >= CONTROL_EVERY:
                self._seen[identity] = now
                effects += self._reconsider(identity, each, now)
        return effects

    def reconsider_soon(self, detector: str | None, now: int) -> None:
        """Reconsider a detector, or all (None), soon, as its policy has changed, however short it was here."""
        for identity, hosted in self.hosting.event_path.hosted.items():
            if detector is None or identity == detector:
                hosted.set_back(now - DWELL)
                self._seen[identity] = now - CONTROL_EVERY

    def _reconsider(self, identity: str, hosted: HostedDetector, now: int) -> list[Effect]:
        move = self.placement.reconsider(hosted, now)
        if move is None or move.kind != "move":
            # `brokers.node.replication` maintains replicas.
            return []
        note = info("move begun", detector=identity, node=move.node, reason=move.reason)
        return [note, *self.migration.asked(identity, MoveRequest(move.node), now)]
