"""The control phase: detectors that are at work are looked at from time to time, and moved where that pays.

composite-event-framework-2004, "Mobile Composite Event Detectors": in the control phase a detector makes sure that it
still complies with its policy, and adapts. What is better, by how much, and whether it pays for the move is for
`policies.distribution.choose.reconsider` to say, from what nodes have measured; here it is asked, and done.
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Effect, Note
from distced.brokers.node.event_path import Hosted
from distced.brokers.node.hosting import Serving
from distced.brokers.node.migration import Migrating
from distced.brokers.node.placement import Deciding
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Move
from distced.policies.distribution.choose.reconsider import DWELL

CONTROL_EVERY: Final = 10 * SECOND
"""How often each detector is looked at, ns."""


class Adapting:
    """Looks after the places of a node's detectors."""

    def __init__(self, serving: Serving, deciding: Deciding, migrating: Migrating) -> None:
        self.serving = serving
        self.deciding = deciding
        self.migrating = migrating
        # When each was looked at last.
        self._seen: dict[str, int] = {}

    def tick(self, now: int) -> list[Effect]:
        """Time has passed; call it every few seconds."""
        hosted = self.serving.detecting.hosted
        self._seen = {identity: self._seen.get(identity, now) for identity in hosted}
        effects: list[Effect] = []
        for identity, each in list(hosted.items()):
            still = each.primary and each.active and identity not in self.migrating.moving
            still = still and not each.planned.asked.hints.isolated
            if still and now - self._seen[identity] >= CONTROL_EVERY:
                self._seen[identity] = now
                effects += self._look_at(identity, each, now)
        return effects

    def look_again(self, detector: str | None, now: int) -> None:
        """The policy of a detector has changed, or of all (None): soon it is looked at, however short it was here."""
        for identity, hosted in self.serving.detecting.hosted.items():
            if detector is None or identity == detector:
                hosted.since = min(hosted.since, now - DWELL)
                self._seen[identity] = now - CONTROL_EVERY

    def _look_at(self, identity: str, hosted: Hosted, now: int) -> list[Effect]:
        move = self.deciding.reconsider(hosted, now)
        if move is None or move.kind != "move":
            # Copies are looked after in `brokers.node.replication`.
            return []
        fields: dict[str, object] = {"detector": identity, "node": move.node, "reason": move.reason}
        note = Note("info", "a detector is to be moved", fields)
        return [note, *self.migrating.asked(identity, Move(move.node), now)]
