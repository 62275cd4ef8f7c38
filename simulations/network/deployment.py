"""A deployment on the simulated network: broker nodes, publishers and subscribers of a topology, and their
administrator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from distced.brokers.core.effects import Publish
from distced.brokers.node.policy_settings import EVERYBODY
from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.administration import MoveRequest, SetPolicy
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import DetectorEntry, HintEntry, TopologyEntry
from distced.middleware.wire.topics import administration_topic
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import topology_as_toml
from distced.simulations.network.participants.broker_node import TICK, SimulatedNode
from distced.simulations.network.participants.client import SimulatedClient
from distced.simulations.network.participants.publisher import SimulatedPublisher
from distced.simulations.network.participants.subscriber import SimulatedSubscriber
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.virtual_outbox import VirtualOutbox
from distced.simulations.network.transport.virtual_store import VirtualDisk


@dataclass(eq=False)
class Deployment:
    """Running nodes, publishers and subscribers, by name; nodes tick every `tick` ns, and write checkpoints to a disk
    where there is one. Their clocks are wrong by `clock_error` ns at most, by another error after each start. With
    `outboxes` those of publishers outlive these; with `filters` publishers leave out events that nobody reads. The
    links of subscribers in `metered` are. Nodes validate their invariants unless `validates` is false."""

    network: Fabric
    tick: int = TICK
    engine: EngineName = "auto"
    disk: VirtualDisk | None = None
    clock_error: int = 0
    outboxes: dict[str, VirtualOutbox] | None = None
    filters: bool = False
    metered: Collection[str] = ()
    validates: bool = True
    nodes: dict[str, SimulatedNode] = field(default_factory=dict)
    publishers: dict[str, SimulatedPublisher] = field(default_factory=dict)
    subscribers: dict[str, SimulatedSubscriber] = field(default_factory=dict)

    @property
    def topology(self) -> Topology:
        """The topology of the network."""
        return self.network.topology

    def start_node(self, name: str) -> SimulatedNode:
        """Start a node of the topology."""
        described = self.topology.nodes[name]
        capacity = described.capacity or 0.0
        node = self.nodes[name] = SimulatedNode(
            self.network,
            described.place,
            capacity,
            self.tick,
            self.engine,
            self.disk,
            self._skew(),
            validates=self.validates,
        )
        node.begin()
        return node

    def _skew(self) -> int:
        """Random error of the clock of a node, ns."""
        most = self.clock_error
        return self.network.engine.random.randint(-most, most) if most else 0

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
        folder = None if self.outboxes is None else self.outboxes.setdefault(name, VirtualOutbox())
        publisher = self.publishers[name] = SimulatedPublisher(
            self.network, described.place, described.loss, folder, filters=self.filters
        )
        publisher.begin()
        return publisher

    def restart_publisher(self, name: str, *, silent: bool) -> Callable[[], None]:
        """Crash a publisher; the call starts it again, behind the messages that it has sent."""
        lost = self.publishers[name]
        lost.crash(silent=silent)

        def start() -> None:
            made = self.connect_publisher(name)
            made.published, made.late, made.lost = lost.published, lost.late, lost.lost
            for each in lost.sources.values():
                made.source(each.stream, each.start, each.sent)

        return start

    def kill_subscriber(self, name: str, *, silent: bool = True) -> SimulatedSubscriber:
        """Kill a subscriber; see `SimulatedConnection.crash`."""
        subscriber = self.subscribers.pop(name)
        subscriber.crash(silent=silent)
        return subscriber

    def connect_subscriber(self, name: str) -> SimulatedSubscriber:
        """Connect a subscriber of the topology."""
        subscriber = self.subscribers[name] = SimulatedSubscriber(
            self.network, self.topology.subscribers[name].place, metered=name in self.metered
        )
        subscriber.begin()
        return subscriber


class Administrator(SimulatedClient):
    """Client at the directory's server that registers types and the topology, sets policies, and requests moves."""

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

    def begin(self) -> None:
        super().begin()
        self.do(self.session.read_detectors(lambda error: None))

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
