"""Draining of a node, before it is stopped: its detectors move away with their state, and none come.

A node that is stopped without it leaves its detectors to others, which begin with the last checkpoint, where they reach
the store, and wait for what came since. A draining node says so in its entry of the directory: it is no coordinator any
more, and policies choose it for nothing (`policies.distribution.choose.hints`). A detector with a replica elsewhere is
handed over to it, any other one moves where its policy ranks best; what hints tie to this node stays, and is logged.
The mark is not retained beyond a restart: a node that starts takes its share again.

Rejected: to drain whenever a node is stopped, as a signal to end has to end a process within seconds.
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Effect, info, warning
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.migration import Migration
from distced.brokers.node.placement import Placement
from distced.brokers.node.shared import NodePart
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import MoveRequest

AT_ONCE: Final = 20
"""Detectors in motion at a time at most."""

AGAIN: Final = 5 * SECOND
"""Time until the next attempt with a detector that has not moved, ns."""


class Draining(NodePart):
    """Draining of this node.

    Attributes:
        active: whether its detectors move away.
    """

    def __init__(self, migration: Migration, placement: Placement) -> None:
        super().__init__(migration.shared)
        self.active = False
        self.migration = migration
        self.placement = placement
        # When each detector was tried last, ns; those that stay, as logged.
        self._tried: dict[str, int] = {}
        self._stay: set[str] = set()

    def asked(self, *, active: bool) -> list[Effect]:
        """Begin, or end before it is complete. The entry of the node is to be published."""
        if active and not any(name != self.name for name in self.directory.common_nodes):
            return [warning("node not drained", reason="there is no other node for its detectors")]
        if active == self.active:
            return []
        self.active = active
        self._tried.clear()
        self._stay.clear()
        return [info("node draining" if active else "node drained no longer", detectors=len(self.event_path.hosted))]

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: moves of some more detectors."""
        if not self.active:
            return []
        effects: list[Effect] = []
        for identity, hosted in list(self.event_path.hosted.items()):
            if len(self.migration.moving) >= AT_ONCE:
                break
            if not hosted.primary or not hosted.movable or identity in self.migration.moving:
                continue
            if now - self._tried.get(identity, now - AGAIN) >= AGAIN:
                self._tried[identity] = now
                effects += self._move(hosted, now)
        return effects

    def _move(self, hosted: HostedDetector, now: int) -> list[Effect]:
        heirs = [node for node in sorted(hosted.replicas) if node in self.directory.common_nodes]
        if heirs:
            return self.migration.asked(hosted.id, MoveRequest(heirs[0]), now)
        change = self.placement.reconsider(hosted, now)
        if change is not None and change.kind == "move":
            note = info("move begun", detector=hosted.id, node=change.node, reason=change.reason)
            return [note, *self.migration.asked(hosted.id, MoveRequest(change.node), now)]
        if hosted.id in self._stay:
            return []
        self._stay.add(hosted.id)
        return [warning("detector not drained", detector=hosted.id, reason="no other node may host it now")]
