"""Simulated administrator at the server of the directory: registers types, publishes the topology, moves detectors,
sets policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from distced.brokers.core.effects import Publish
from distced.brokers.node.policy_settings import EVERYBODY
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.administration import MoveRequest, SetPolicy
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import DetectorEntry, HintEntry, TopologyEntry
from distced.middleware.wire.topics import administration_topic
from distced.policies.topology.model import Place
from distced.policies.topology.topology_writer import topology_as_toml
from distced.simulations.network.participants.client import SimulatedClient
from distced.simulations.network.transport.fabric import Fabric


class Administrator(SimulatedClient):
    """The administrator of a deployment."""

    def __init__(self, network: Fabric) -> None:
        super().__init__(network, Place("site", network.directory))

    def describe(self) -> None:
        """Publish the topology of the network."""
        self._put("topology", "network", TopologyEntry(topology_as_toml(self.network.topology)))

    def register(self, types: Iterable[EventType]) -> None:
        """Register types, in order."""
        left = iter(types)

        def following(error: DistcedError | None = None) -> None:
            if error is not None:
                raise error
            event_type = next(left, None)
            if event_type is not None:
                self.do(self.session.register(event_type, self.home, following))

        following()

    def hint(self, hints: Mapping[str, HintEntry]) -> None:
        """Publish the results of a placement analysis."""
        for name, each in hints.items():
            self._put("hint", name, each)

    def move(self, detector: str, node: str) -> None:
        """Request the move of a detector."""
        self.do([Publish(administration_topic("move", detector), encode(MoveRequest(node)))])

    def set_policy(self, detector: str, policy: str) -> None:
        """Set the policy of a detector, or without an id of all detectors; an empty policy clears it."""
        topic = administration_topic("policy", detector or EVERYBODY)
        self.do([Publish(topic, encode(SetPolicy(policy)) if policy else b"", retain=True)])

    @property
    def detectors(self) -> dict[str, DetectorEntry]:
        """The detectors of the directory, by id."""
        return self.session.entries.detectors

    def _put(self, kind: str, name: str, entry: msgspec.Struct) -> None:
        self.do([self.session.directory.put(kind, name, entry)])
