"""Other broker nodes, as they come and go.

A node that is lost shows by its last will. What it hosts in copies goes on elsewhere at once (`brokers.node.replicas`);
the rest is taken over after a moment, for it may be back: a server that ends tells the wills of all its clients, and
they come back when it does. One that comes back under its name with another beginning has lost its memory.
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect, Publish
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.admission import Routing
from distced.brokers.node.hosting import Serving
from distced.brokers.node.migration import Migrating
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.topics import directory_topic

TAKE_OVER_AFTER: Final = SECOND
"""How long a node is missed before others host what it did, ns: a server that ends tells the wills of all nodes."""

COMING_BACK: Final = 10 * SECOND
"""How much longer where this node has lost its connection, too, ns."""


class Peers:
    """What becomes of detectors and subscriptions when nodes come and go."""

    def __init__(
        self,
        name: str,
        root: str,
        directory: Directory,
        serving: Serving,
        migrating: Migrating,
        routing: Routing,
    ) -> None:
        self.name = name
        self.root = root
        self.directory = directory
        self.serving = serving
        self.migrating = migrating
        self.routing = routing
        # When each came up, as of its last entry, ns.
        self._lives: dict[str, int] = {}

    def connected(self, now: int) -> None:
        """This node has lost its connection, and is back."""
        self.directory.missing = dict.fromkeys(self.directory.missing, now + COMING_BACK)

    def changed(self, change: Change, now: int) -> list[Effect]:
        """A node has come or gone, or says something else of itself."""
        entry, before = change.entry, change.before
        if entry is None:
            return self._gone(change.name, now)
        life = self._lives.get(change.name, entry.since if before is None else before.since)
        self._lives[change.name] = entry.since
        self.directory.missing.pop(change.name, None)
        effects: list[Effect] = []
        if life != entry.since:
            # It does not know what it has hosted.
            effects += [*self.serving.copies.lost(change.name), *self.migrating.node_lost(change.name, now)]
            effects += self.routing.node_lost(change.name, now)
        elif before is not None:
            return []
        # Of what this node keeps the door for, some may be a new one's from now on, and the other way round.
        return [*effects, *self.routing.take_up(now)]

    def tick(self, now: int) -> list[Effect]:
        """Time has passed: what nodes hosted that have not come back is taken over."""
        gone = [name for name, at in self.directory.missing.items() if now - at >= TAKE_OVER_AFTER]
        if not gone:
            return []
        effects: list[Effect] = []
        for name in gone:
            del self.directory.missing[name]
            effects += self.routing.node_lost(name, now)
        return [*effects, *self.routing.take_up(now)]

    def _gone(self, node: str, now: int) -> list[Effect]:
        effects = [*self._clear_load(node), *self.serving.copies.lost(node), *self.migrating.node_lost(node, now)]
        if any(each.node == node for each in self.directory.detectors.values()):
            self.directory.missing[node] = now
            return effects
        # It has given up what it hosted, or hosted nothing.
        return [*effects, *self.routing.node_lost(node, now), *self.routing.take_up(now)]

    def _clear_load(self, node: str) -> list[Effect]:
        """What a node had to do is forgotten with it."""
        if node not in self.directory.loads or chosen(node, self.directory.common_nodes) != self.name:
            return []
        return [Publish(directory_topic("load", node, root=self.root), b"", retain=True)]
