"""A deployment on the simulated network: broker nodes, publishers and subscribers of a topology."""

from __future__ import annotations

from distced.policies.topology.topology import Topology
from distced.simulations.network.participants.broker_node import TICK, SimulatedNode
from distced.simulations.network.participants.publisher import SimulatedPublisher
from distced.simulations.network.participants.subscriber import SimulatedSubscriber
from distced.simulations.network.transport.fabric import Fabric


class Deployment:
    """Running nodes, publishers and subscribers, by name, on a network."""

    def __init__(self, network: Fabric, *, tick: int = TICK) -> None:
        """`tick`: interval between ticks of a node, ns."""
        self.network = network
        self.nodes: dict[str, SimulatedNode] = {}
        self.publishers: dict[str, SimulatedPublisher] = {}
        self.subscribers: dict[str, SimulatedSubscriber] = {}
        self._tick = tick

    @property
    def topology(self) -> Topology:
        """The topology of the network."""
        return self.network.topology

    def start_node(self, name: str) -> SimulatedNode:
        """Start a node of the topology."""
        described = self.topology.nodes[name]
        node = self.nodes[name] = SimulatedNode(self.network, described.place, described.capacity or 0.0, self._tick)
        node.begin()
        return node

    def stop_node(self, name: str) -> SimulatedNode:
        """Stop a node with a farewell."""
        node = self.nodes.pop(name)
        node.stop()
        return node

    def crash_node(self, name: str, *, silent: bool = True) -> SimulatedNode:
        """Crash a node, with the loss of its state; see `SimulatedConnection.crash`."""
        node = self.nodes.pop(name)
        node.crash(silent=silent)
        return node

    def connect_publisher(self, name: str) -> SimulatedPublisher:
        """Connect a publisher of the topology."""
        described = self.topology.publishers[name]
        publisher = self.publishers[name] = SimulatedPublisher(self.network, described.place, described.loss)
        publisher.begin()
        return publisher

    def connect_subscriber(self, name: str) -> SimulatedSubscriber:
        """Connect a subscriber of the topology."""
        subscriber = self.subscribers[name] = SimulatedSubscriber(self.network, self.topology.subscribers[name].place)
        subscriber.begin()
        return subscriber
