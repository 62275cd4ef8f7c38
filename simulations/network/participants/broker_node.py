"""A broker node in the simulation: the driver of `brokers.node.node.Node`, as `brokers.live.node` is on MQTT.

Nothing is decided here; the node does not know which driver it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from distced.brokers.core.effects import Publish
from distced.brokers.node.node import Node
from distced.middleware.model.timestamps import MILLISECOND
from distced.policies.topology.model import Place
from distced.simulations.network.participants.participant import Participant

if TYPE_CHECKING:
    from distced.simulations.network.network import Network

TICK: Final = 100 * MILLISECOND
"""How often a node is told the time, ns; as live."""


class SimulatedNode(Participant):
    """A broker node.

    Attributes:
        node: the node itself.
        received: how many messages it was given.
    """

    def __init__(self, network: Network, place: Place, capacity: float) -> None:
        super().__init__(network, place)
        self.node = Node(self.name, network.engine.now(), home=self.home, capacity=capacity)
        self.received = 0

    def begin(self) -> None:
        super().begin()
        # Nodes do not all look at the clock at the same instant.
        self.network.engine.after(self.network.engine.random.randrange(TICK), self._tick)

    def stop(self) -> None:
        """The node ends, properly."""
        self.do(self.node.stop())
        self.end()

    def will_for(self, home: str) -> Publish | None:
        return None if home else self.node.will()

    def connected(self, home: str) -> None:
        now = self.network.engine.instant
        self.do(self.node.linked(home, now) if home else self.node.start(now))

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        self.received += 1
        self.do(self.node.receive(topic, payload, self.network.engine.instant, home))

    def _tick(self) -> None:
        if self.alive:
            engine = self.network.engine
            self.do(self.node.tick(engine.instant))
            engine.after(self.network.tick, self._tick)
