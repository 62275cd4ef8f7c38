"""Absent clients: the subscriptions of a client that stays away are cleared, and its detectors end with them.

A client that is back publishes what was cleared meanwhile (`middleware.client.directory_session`). A node that is cut
off does not receive that a client is back, and what it publishes meanwhile arrives later. So it decides only as one of
its own renewals has come back (`brokers.node.renewals`), and an absence begins again with each connection. Durable
subscriptions stay (`brokers.node.durable`).
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Effect, warning
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.planning import is_there
from distced.brokers.node.renewals import Renewals
from distced.brokers.node.shared import NodePart
from distced.middleware.model.timestamps import SECOND

ABSENCE: Final = 60 * SECOND
"""Absence of a client after which its subscriptions are cleared, ns: one whose connection is lost for a shorter time
finds its detectors as they were."""

_GONE: Final = "client gone"


class AbsentClients(NodePart):
    """Clients that have subscriptions and are not there."""

    def __init__(self, hosting: DetectorHosting, renewals: Renewals) -> None:
        super().__init__(hosting.shared)
        self._hosting = hosting
        self._renewals = renewals
        # Since when each is absent, ns; number of renewals as of the last decision.
        self._since: dict[str, int] = {}
        self._round = 0

    def connected(self) -> None:
        """A connection is established, perhaps again: they may be back."""
        self._since = {}

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time, every few seconds."""
        absent = [client for client in self.directory.by_client if not is_there(client, self.directory)]
        self._since = {client: self._since.get(client, now) for client in absent}
        if self._renewals.round == self._round:
            return []
        self._round = self._renewals.round
        effects: list[Effect] = []
        for client, since in self._since.items():
            gone = self._cleared_here(client) if now - since > ABSENCE else []
            if len(gone) == 1:
                effects.append(warning("subscription cleared", subscription=gone[0], client=client, reason=_GONE))
            elif gone:
                effects.append(warning("subscriptions cleared", number=len(gone), client=client, reason=_GONE))
            effects += [self.clear("subscription", name) for name in gone]
        return effects

    def _cleared_here(self, client: str) -> list[str]:
        """Subscriptions of a client that this node clears: those that it serves, or coordinates."""
        nodes, directory = self.directory.common_nodes, self.directory
        return [
            name
            for name in directory.by_client[client]
            if name in self._hosting.by_subscription or chosen(name, nodes) == self.name
            if name not in directory.durable_names
        ]
