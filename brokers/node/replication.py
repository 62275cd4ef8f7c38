"""Copies of detectors: who needs one, and who does not any more.

composite-event-framework-2004, "Distribution Policies": several detectors of one pattern for reliability, and detectors
near their subscribers for latency. A copy has the state of the detector it is a copy of (`brokers.node.migration`), so
it finds the same, and ids make it harmless that both publish it. One node, the primary, serves the subscriptions and
says who has copies; when it is lost the first of these takes its place (`brokers.node.hosting`). Detectors of one
pattern that begin afresh and know nothing of one another were rejected: what they find differs by when they began.
"""

from __future__ import annotations

from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Note
from distced.brokers.node.event_path import Hosted
from distced.brokers.node.hosting import Serving
from distced.brokers.node.migration import Migrating
from distced.brokers.node.placement import Deciding


class Copying:
    """Sees to it that the detectors of a node have the copies they are to have."""

    def __init__(self, directory: Directory, serving: Serving, deciding: Deciding, migrating: Migrating) -> None:
        self.directory = directory
        self.serving = serving
        self.deciding = deciding
        self.migrating = migrating
        # Of which it was said that no node is left for a copy.
        self._lacking: set[str] = set()

    def tick(self, now: int) -> list[Effect]:
        """Time has passed; call it every few seconds, and when a subscription has come."""
        effects: list[Effect] = []
        for identity, hosted in list(self.serving.detecting.hosted.items()):
            if hosted.primary and hosted.active and identity not in self.migrating.moving:
                effects += self._see_to(identity, hosted, now)
        return effects

    def _see_to(self, identity: str, hosted: Hosted, now: int) -> list[Effect]:
        known = self.directory.subscriptions
        wanted = max(
            (self.serving.policies.replicas(known.get(each), identity) for each in hosted.subscriptions), default=1
        )
        awaited = sorted(set(hosted.waiting.values()))
        if awaited:
            node = awaited[0]
            if node in self.directory.nodes and node not in hosted.copies:
                return self.migrating.copy(identity, node, now)
            return self.serving.copies.not_copied(identity, node)
        if 1 + len(hosted.copies) < wanted:
            missing = self.deciding.reconsider(hosted, now, copies_only=True)
            if missing is not None and missing.kind == "copy":
                self._lacking.discard(identity)
                fields: dict[str, object] = {"detector": identity, "node": missing.node, "reason": missing.reason}
                note = Note("info", "a copy is to be made", fields)
                return [note, *self.migrating.copy(identity, missing.node, now)]
            if identity not in self._lacking:
                self._lacking.add(identity)
                fields = {"detector": identity, "wanted": wanted, "there": 1 + len(hosted.copies)}
                return [Note("warning", "no node is left for a copy", fields)]
            return []
        needed = set(hosted.near.values())
        idle = sorted(node for node in hosted.copies if node not in needed)
        # One that is listened to for its nearness counts as well.
        superfluous = idle[: max(0, 1 + len(hosted.copies) - max(wanted, 1 + len(needed)))]
        return self.serving.copies.without_copies(hosted, superfluous)
