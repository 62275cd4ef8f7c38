"""Replication of a node's detectors: roles, and maintenance of the number of replicas.

composite-event-framework-2004, "Distribution Policies": several detectors of one pattern for reliability, and detectors
near their subscribers for latency. A replica begins with the state of its primary (`brokers.node.migration`), so it
detects the same; ids make double publication harmless. The primary serves the subscriptions and names the replicas in
the directory; a replica publishes at its own site. Roles change by one retained message, the entry of the detector,
also read by nodes that were away (`brokers.node.hosting`); the first replica replaces a lost primary. Independent
detectors of one pattern were rejected: their composite events depend on their begin.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final, TypeAlias

from msgspec.structs import replace

from distced.brokers.core.effects import Effect, info, warning
from distced.brokers.core.metrics import TAKEOVERS
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.placement import Placement
from distced.brokers.node.served import Terms
from distced.brokers.node.shared import NodePart
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.bounded_values import following

UNLISTED: Final = 20 * SECOND
"""Time for a replica here to be named by the directory, ns."""

Replicate: TypeAlias = Callable[[str, str, int], list[Effect]]
"""Creation of a replica of a detector on a node: detector, node, now."""


class Replication(NodePart):
    """Maintenance of the replicas of a node's detectors."""

    def __init__(self, hosting: DetectorHosting, placement: Placement) -> None:
        super().__init__(hosting.shared)
        self.hosting = hosting
        self.announcements = hosting.announcements
        self.placement = placement
        # Detectors for which the lack of a node for a replica was logged.
        self._lacking: set[str] = set()
        self.event_path.inventory.several = self._wants_several

    # Roles.

    def replicated(self, identity: str, node: str) -> list[Effect]:
        """A node has a replica: offer it to the subscriptions that wait for it, and to those that want several."""
        hosted = self.event_path.hosted.get(identity)
        if hosted is None or node not in self.directory.nodes:
            return []
        waiting = hosted.add_replica(node, self.directory.nodes[node].home)
        several = [
            name
            for name, each in hosted.subscriptions.items()
            if not each.terms.near and self._wanted(each.terms, identity) > 1
        ]
        return [self.announcements.publish(hosted), *self.hosting.offer_again(hosted, [*waiting, *several])]

    def not_replicated(self, identity: str, node: str) -> list[Effect]:
        """There is no replica: offer the present topic to the subscriptions that wait for one."""
        hosted = self.event_path.hosted.get(identity)
        if hosted is not None and hosted.json is not None and hosted.json.handing_over:
            hosted.keep_json()
        return [] if hosted is None else self.hosting.offer_again(hosted, hosted.stop_waiting(node))

    def hand_over(self, hosted: HostedDetector, node: str, now: int) -> list[Effect]:
        """Make the node of a replica the primary, once all JSON published here has arrived."""
        hosted.keep_json(handing_over=True)

        def published(now: int) -> list[Effect]:
            there = hosted.primary and node in hosted.replicas and self.event_path.hosted.get(hosted.id) is hosted
            return self._hand_over(hosted, node) if there else []

        return [
            *self.hosting.topic_filters.refilter(),
            *self.homes.flush(hosted.json_homes, published, now),
        ]

    def _hand_over(self, hosted: HostedDetector, node: str) -> list[Effect]:
        """The directory names the node of a replica as primary, and this one as replica."""
        home = hosted.replicas[node]
        replicas = {**hosted.replicas, self.name: hosted.home}
        del replicas[node]
        generation = following(hosted.generation)
        entry = replace(
            self.announcements.entry(hosted), node=node, home=home, replicas=replicas, generation=generation
        )
        note = info("detector handed over", detector=hosted.id, node=node)
        return [note, self.put("detector", hosted.id, entry)]

    def lost(self, node: str) -> list[Effect]:
        """A node is lost: its replicas are lost, and the first replica of each of its detectors becomes the primary."""
        effects: list[Effect] = []
        for identity, hosted in list(self.event_path.hosted.items()):
            if hosted.primary:
                effects += self.hosting.without_replicas(hosted, [node])
                continue
            entry = self.directory.detectors.get(identity)
            if entry is None or entry.node in self.directory.nodes:
                continue
            heirs = sorted(each for each in entry.replicas if each in self.directory.nodes)
            if heirs[:1] == [self.name]:
                replicas = {each: entry.replicas[each] for each in heirs[1:]}
                hosted.become_primary(replicas, following(entry.generation))
                self.event_path.tallies[TAKEOVERS, "replica"] += 1
                effects += [
                    warning("replica promoted", detector=identity, lost=node),
                    self.announcements.publish(hosted),
                ]
        return effects

    def leave(self) -> list[Effect]:
        """The node ends: detectors with replicas continue there, the others leave the directory."""
        effects: list[Effect] = []
        for identity, hosted in self.event_path.hosted.items():
            if hosted.primary:
                alive = sorted(node for node in hosted.replicas if node in self.directory.nodes)
                effects += (
                    self._hand_over(hosted, alive[0]) if alive else [self.clear_detector(identity, hosted.publishes)]
                )
        return effects

    # Their number.

    def tick(self, now: int, in_motion: Container[str], replicate: Replicate) -> list[Effect]:
        """Effects of the time, every few seconds, without detectors `in_motion`; `replicate` has a replica made."""
        effects: list[Effect] = []
        for hosted in self.event_path.inventory.unsettled():
            identity = hosted.id
            if not hosted.primary:
                if not hosted.listed and now - hosted.since > UNLISTED:
                    effects += self.hosting.drop(hosted, "its primary does not name this replica")
            elif hosted.movable and identity not in in_motion:
                effects += self._keep_number(identity, hosted, now, replicate)
        return effects

    def _keep_number(self, identity: str, hosted: HostedDetector, now: int, replicate: Replicate) -> list[Effect]:
        wanted = max((self._wanted(each, identity) for each in hosted.subscriptions.terms()), default=1)
        awaited = min(hosted.awaited_nodes(), default="")
        if awaited:
            if awaited in self.directory.nodes and awaited not in hosted.replicas:
                return replicate(identity, awaited, now)
            return self.not_replicated(identity, awaited)
        draining = [node for node in sorted(hosted.replicas) if self._is_draining(node)]
        if 1 + len(hosted.replicas) - len(draining) < wanted:
            missing = self.placement.reconsider(hosted, now, replicas_only=True)
            if missing is not None and missing.kind == "replicate":
                self._lacking.discard(identity)
                note = info("replica begun", detector=identity, node=missing.node, reason=missing.reason)
                return [note, *replicate(identity, missing.node, now)]
            if draining:
                return self.hosting.without_replicas(hosted, draining)
            if identity in self._lacking:
                return []
            self._lacking.add(identity)
            there = 1 + len(hosted.replicas)
            return [warning("replica deferred", detector=identity, wanted=wanted, there=there, reason="no node left")]
        if draining:
            return self.hosting.without_replicas(hosted, draining)
        needed = hosted.near_nodes()
        idle = sorted(node for node in hosted.replicas if node not in needed)
        # One that is listened to for its nearness counts as well.
        superfluous = idle[: max(0, 1 + len(hosted.replicas) - max(wanted, 1 + len(needed)))]
        return self.hosting.without_replicas(hosted, superfluous)

    def _is_draining(self, node: str) -> bool:
        entry = self.directory.nodes.get(node)
        return entry is not None and entry.draining

    def _wants_several(self, hosted: HostedDetector) -> bool:
        return any(self._wanted(each, hosted.id) > 1 for each in hosted.subscriptions.terms())

    def _wanted(self, terms: Terms, identity: str) -> int:
        """Number of nodes on which a subscription wants its detector."""
        return self.policies.replicas(terms, identity)
