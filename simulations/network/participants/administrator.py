"""Whoever looks after a deployment, in the simulation: registers the types, describes the network, has detectors moved.

It sits at the server of the directory, so what it does costs no link anything beyond what the server passes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from distced.brokers.core.effects import Publish
from distced.brokers.node.policy_settings import EVERYBODY
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.directory_entries import (
    DetectorEntry,
    HintEntry,
    Move,
    SetPolicy,
    TopologyEntry,
    decode,
    encode,
)
from distced.middleware.wire.topics import administration_topic
from distced.policies.topology.model import Place
from distced.policies.topology.topology_writer import topology_as_toml
from distced.simulations.network.participants.client import SimulatedClient

if TYPE_CHECKING:
    from distced.simulations.network.network import Network


class Administrator(SimulatedClient):
    """Looks after a deployment."""

    def __init__(self, network: Network) -> None:
        super().__init__(network, Place("site", network.directory))

    def describe(self) -> None:
        """Say what the network is."""
        self.put("topology", "network", TopologyEntry(topology_as_toml(self.network.topology)))

    def register(self, types: Iterable[EventType]) -> None:
        """Make types known."""
        for each in types:
            self.put("type", each.name, each)

    def hint(self, hints: Mapping[str, HintEntry]) -> None:
        """Say what placement analysis has found out about detectors."""
        for name, each in hints.items():
            self.put("hint", name, each)

    def move(self, detector: str, node: str) -> None:
        """Have a detector moved."""
        self.do([Publish(administration_topic("move", detector), encode(Move(node)))])

    def set_policy(self, detector: str, policy: str) -> None:
        """Set a distribution policy, of a detector or, without an id, of everybody; an empty one takes it back."""
        topic = administration_topic("policy", detector or EVERYBODY)
        self.do([Publish(topic, encode(SetPolicy(policy)) if policy else b"", retain=True)])

    @property
    def detectors(self) -> dict[str, DetectorEntry]:
        """The detectors of the directory, by id."""
        return {name: decode(payload, DetectorEntry, where=name) for name, payload in self.entries["detector"].items()}
