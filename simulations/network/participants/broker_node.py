"""A broker node in the simulation: the driver of `brokers.node.node.Node`, as `brokers.live.node` is on MQTT.

Nothing is decided here; the node does not know which driver it has. It has the same choice of engines as live; when the
columnar engine is ready, an effect of the machine there, is a fixed moment of virtual time here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from distced.brokers.core.effects import Publish
from distced.brokers.node.node import Node
from distced.detectors.runtime.engine_switch import engines
from distced.detectors.runtime.engines import has_columnar
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.model import Place
from distced.simulations.network.transport.connections import Participant
from distced.simulations.network.transport.fabric import Fabric

TICK: Final = 100 * MILLISECOND
"""Interval between ticks of a node, ns; as live."""


PREPARATION: Final = SECOND
"""Time from the first query until the columnar engine is ready, ns of virtual time; as live, loaded from disk."""


class VirtualReadiness:
    """Readiness of the columnar engine on a simulated node: a fixed time after the first query.

    Attributes:
        problem: why it is unavailable; empty where it is available.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.problem = "" if has_columnar() else "numba is not installed"
        self._now = now
        self._ready_at: int | None = None

    def ready(self) -> bool:
        if self._ready_at is None:
            self._ready_at = self._now() + PREPARATION
        return not self.problem and self._now() >= self._ready_at


class SimulatedNode(Participant):
    """A simulated broker node.

    Attributes:
        node: the node itself.
        received: number of messages received.
    """

    def __init__(self, network: Fabric, place: Place, capacity: float, tick: int = TICK) -> None:
        super().__init__(network, place)
        self.node = Node(
            self.name,
            network.engine.now(),
            home=self.home,
            capacity=capacity,
            engines=engines("auto", VirtualReadiness(network.engine.now)),
            validate=True,
        )
        self.received = 0
        self._interval = tick

    def begin(self) -> None:
        super().begin()
        # Nodes do not all tick at the same instant.
        self.network.engine.after(self.network.engine.random.randrange(TICK), self._tick)

    def stop(self) -> None:
        """Stop the node with a farewell."""
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
            engine.after(self._interval, self._tick)
