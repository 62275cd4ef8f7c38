"""Membership of nodes: the claim of a node to its name; arrival and loss of other nodes.

Of two nodes of one name the later one continues and the earlier one ends. Ray may restart a node elsewhere while the
first still runs, cut off from Ray but not from MQTT; a server admits one client of a name, so the two would disconnect
each other forever. Therefore a retained message with the time of start claims the name, and a node that receives a
later claim ends. The directory cannot hold the claim: the last will of each clears the entry of the other. A starting
node is later than any claim received, also where its clock is behind.

The last will of a node announces its loss. Its replicas elsewhere continue at once (`brokers.node.replication`); the
rest is taken over after a delay, since a restarting server publishes the wills of all its clients, which then
reconnect. A node back with another time of start has lost its memory.
"""

from __future__ import annotations

from typing import Final

import msgspec

from distced.brokers.core.directory import Change
from distced.brokers.core.effects import Effect, Publish, warning
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.exclusion import Exclusion
from distced.brokers.node.migration import Migration
from distced.brokers.node.shared import NodePart
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import cleared_counters
from distced.middleware.wire.codec import declare, decode, encode
from distced.middleware.wire.topics import administration_topic

TAKE_OVER_AFTER: Final = SECOND
"""Absence of a node after which others host its detectors, ns: a server that ends sends the wills of all nodes."""

COMING_BACK: Final = 10 * SECOND
"""Additional absence where this node has lost its connection, too, ns."""


class Claimed(msgspec.Struct, frozen=True):
    """Claim of a node to a name since a time, ns."""

    since: int


declare(Claimed)


class NameClaim:
    """Claim of this node to its name.

    Attributes:
        since: start of the node, ns; postponed behind earlier claims until made.
        made: whether it was made.
        lost: whether a later node has made one; the node is then inactive.
    """

    def __init__(self, name: str, root: str, since: int) -> None:
        self.topic = administration_topic("node", name, "since", root=root)
        self.since = since
        self.made = False
        self.lost = False
        # What the server has retained, as far as is known.
        self._found: int | None = None

    def connected(self) -> None:
        """A connection is established, perhaps again: retained claims follow."""
        self._found = None

    def found(self, payload: bytes) -> list[Effect]:
        """Take a claim to this name: retained, or just made by another node."""
        self._found = decode(payload, Claimed, where=self.topic).since if payload else None
        if self._found is None:
            return []
        if not self.made:
            self.since = max(self.since, self._found + 1)
            return []
        if self._found == self.since:
            return []
        if self._found > self.since:
            self.lost = True
            return [warning("node superseded", since=self.since, later=self._found)]
        return self.make()

    def make(self) -> list[Effect]:
        """Make the claim, unless it is in force, once all retained claims have arrived."""
        self.made = True
        if self._found == self.since:
            return []
        self._found = self.since
        return [Publish(self.topic, encode(Claimed(self.since)), retain=True)]

    def give_up(self) -> Publish:
        """Withdraw the claim as the node ends."""
        return Publish(self.topic, b"", retain=True)


class Membership(NodePart):
    """Takeover of detectors and subscriptions of lost nodes."""

    def __init__(self, migration: Migration, exclusion: Exclusion) -> None:
        super().__init__(migration.shared)
        self.migration = migration
        self.admission = migration.admission
        self.replication = migration.replication
        self.exclusion = exclusion
        # Detectors that may have taken down a node, of those that may come back.
        self._suspects: dict[str, list[str]] = {}
        # Start of each node, as of its last entry, ns.
        self._lives: dict[str, int] = {}

    def connected(self, now: int) -> None:
        """Extend the time for missing nodes after a lost connection of this one."""
        self.directory.missing = dict.fromkeys(self.directory.missing, now + COMING_BACK)

    def changed(self, change: Change, now: int) -> list[Effect]:
        """The entry of a node was added, changed or removed."""
        entry, before = change.entry, change.before
        if entry is None:
            return self._gone(change.name, 0 if before is None else before.since, now)
        life = self._lives.get(change.name, entry.since if before is None else before.since)
        self._lives[change.name] = entry.since
        self.directory.missing.pop(change.name, None)
        effects: list[Effect] = []
        suspects = self._suspects.pop(change.name, None)
        if life == entry.since:
            effects += self.exclusion.back(change.name) if before is None else []
        else:
            # It has lost its memory.
            effects += self.exclusion.lost(change.name, suspects or (), now)
            self.admission.hosting.upstream.node_lost(change.name, now)
            effects += [*self.replication.lost(change.name), *self.migration.node_lost(change.name, now)]
            self.admission.node_lost(change.name)
        if life == entry.since and before is not None and before.common == entry.common:
            return []
        # Coordinators change with the nodes.
        return [*effects, *self.admission.take_up()]

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: take over from nodes that have not come back."""
        gone = [name for name, at in self.directory.missing.items() if now - at >= TAKE_OVER_AFTER]
        if not gone:
            return []
        effects: list[Effect] = []
        for name in gone:
            del self.directory.missing[name]
            # Before any of its detectors is taken over.
            effects += self.exclusion.lost(name, self._suspects.pop(name, ()), now)
            self.admission.node_lost(name)
        return [*effects, *self.admission.take_up()]

    def _gone(self, node: str, since: int, now: int) -> list[Effect]:
        self._suspects[node] = self.exclusion.suspects(node, since, now)
        self.admission.hosting.upstream.node_lost(node, now)
        effects = [*self._clear_load(node), *self.replication.lost(node), *self.migration.node_lost(node, now)]
        if any(each.node == node for each in self.directory.detectors.values()):
            self.directory.missing[node] = now
            return effects
        del self._suspects[node]
        self.admission.node_lost(node)
        return [*effects, *self.admission.take_up()]

    def _clear_load(self, node: str) -> list[Effect]:
        """Clear the entries of the load and the values of a node with its own."""
        if node not in self.directory.loads or chosen(node, self.directory.common_nodes) != self.name:
            return []
        cleared = [self.clear(kind, node) for kind in ("load", "sample")]
        return [*cleared, cleared_counters(node, root=self.root)]
