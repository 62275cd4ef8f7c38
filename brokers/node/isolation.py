"""Isolation of detectors in processes of their own: a node is started for each, and ends with it.

Design, section 4. The actor of an isolated detector is a node that hosts nothing else and decides nothing; detectors,
moves and the directory need no knowledge of isolation. The node of the placement has it started, hands the detector on,
and has it ended when the detector is gone.
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Effect, Isolate, Release
from distced.brokers.node.shared import NodePart, Shared

_BETWEEN: Final = "+"
"""Separator of node and detector in the names of nodes started for one."""


class Isolation(NodePart):
    """Nodes started for detectors, on behalf of one node: `started`, by detector."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.started: dict[str, str] = {}
        # Messages to the nodes, by detector and subscription.
        self._asked: dict[str, dict[str, bytes]] = {}
        # Detectors that were seen on their nodes.
        self._arrived: set[str] = set()

    def hand_on(self, detector: str, subscription: str, hosting: bytes) -> list[Effect]:
        """Have a detector that was placed here hosted by a node of its own, by a `Hosting` message."""
        self._asked.setdefault(detector, {})[subscription] = hosting
        node = self.started.get(detector)
        if node is None:
            node = self.started[detector] = f"{self.name}{_BETWEEN}{detector}"
            return [Isolate(node, detector)]
        return [self.send(node, "host", subscription, hosting)] if node in self.directory.nodes else []

    def node_up(self, node: str) -> list[Effect]:
        """A node has come up, perhaps again, and then without its detectors."""
        asked = [self._asked[detector] for detector, each in self.started.items() if each == node]
        known = self.directory.subscriptions
        return [
            self.send(node, "host", name, hosting) for each in asked for name, hosting in each.items() if name in known
        ]

    def tidy(self) -> list[Effect]:
        """End the nodes that are no longer needed, as detectors or subscriptions were added or removed."""
        effects: list[Effect] = []
        for detector, node in list(self.started.items()):
            entry = self.directory.detectors.get(detector)
            if entry is not None and (entry.node == node or node in entry.replicas):
                self._arrived.add(detector)
            elif detector in self._arrived or not self._asked[detector].keys() & self.directory.subscriptions.keys():
                del self.started[detector], self._asked[detector]
                self._arrived.discard(detector)
                effects.append(Release(node))
        return effects
