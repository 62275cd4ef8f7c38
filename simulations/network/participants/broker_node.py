"""Simulated broker node: driver of `brokers.node.node.Node` in virtual time, as `brokers.live.node` is on MQTT.

It chooses engines as live; the columnar engine is ready at a fixed virtual instant instead of after an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from distced.brokers.core.effects import Publish
from distced.brokers.node.node import Node
from distced.detectors.runtime.engine_switch import engines
from distced.detectors.runtime.engines import EngineName, has_columnar
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.model import Place
from distced.simulations.network.transport.connections import Participant
from distced.simulations.network.transport.fabric import Fabric

TICK: Final = 100 * MILLISECOND
"""Interval between ticks of a node, ns; as live."""

PREPARATION: Final = SECOND
"""From the first query until the columnar engine is ready, ns of virtual time; as live, loaded from disk."""


class VirtualReadiness:
    """Readiness of the columnar engine: a fixed time after the first query.

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
    """Driver of a `Node`, with the number of messages received."""

    def __init__(
        self, network: Fabric, place: Place, capacity: float, tick: int = TICK, engine: EngineName = "auto"
    ) -> None:
        super().__init__(network, place)
        self.node = Node(
            self.name,
            network.engine.now(),
            home=self.home,
            capacity=capacity,
            engines=engines(engine, VirtualReadiness(network.engine.now)),
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
        self._serve()

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        self.received += 1
        self.do(self.node.receive(topic, payload, self.network.engine.instant, home))
        self._serve()

    def _serve(self) -> None:
        """Serve all requests at once: deciding takes no virtual time."""
        while self.node.waiting:
            self.do(self.node.serve(self.network.engine.instant))

    def _tick(self) -> None:
        if self.alive:
            engine = self.network.engine
            self.do(self.node.tick(engine.instant))
            self._serve()
            engine.after(self._interval, self._tick)
