"""Simulated broker node: driver of `brokers.node.node.Node` in virtual time, as `brokers.live.node` is on MQTT.

It chooses engines as live; the columnar engine is ready at a fixed virtual instant instead of after an effect. Deciding
takes no virtual time, unless some messages about the directory are to be delayed, as live where they come in crowds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from distced.brokers.core.effects import Compile, Effect, Load, Publish, Save
from distced.brokers.node.compiling import compiled_beside
from distced.brokers.node.node import Node
from distced.detectors.limits import LIMITS, Limits
from distced.detectors.runtime.engine_switch import engines
from distced.detectors.runtime.engines import EngineName, has_columnar
from distced.middleware.model.clock import SteadyClock
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.policies.topology.model import Place
from distced.simulations.network.transport.connections import Participant
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.virtual_store import VirtualDisk

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


LATEST: Final = SECOND
"""Longest delay of messages over the connection of events, ns of virtual time; a move of a detector takes less."""

SLOWEST_COMPILED: Final = 2 * SECOND
"""Longest time to compile a large pattern, ns of virtual time."""

EVENTS: Final = "events"
"""Connection of events to the server of the directory."""

LONGEST_DELAY: Final = 50 * MILLISECOND
"""Longest delay of messages about the directory, ns of virtual time."""


class SimulatedNode(Participant):
    """Driver of a `Node`, with the number of messages received.

    `delayed`: share of the messages about the directory that wait, with all behind them, for up to `LONGEST_DELAY`,
    while events pass. `late`: share of the messages over the connection of events that come late by up to `LATEST`,
    with all behind them there, while others pass. `quarantines`: share of the ticks with which one of `quarantined` is.
    `limits`: of its detectors. `turns_late`: longest time between the turns of detectors that are put off, ns; 0 for
    turns at once.
    """

    delayed: ClassVar[float] = 0.0
    late: ClassVar[float] = 0.0
    quarantines: ClassVar[float] = 0.0
    quarantined: ClassVar[tuple[str, ...]] = ()
    limits: ClassVar[Limits] = LIMITS
    turns_late: ClassVar[int] = 0

    def __init__(
        self,
        network: Fabric,
        place: Place,
        capacity: float,
        tick: int = TICK,
        engine: EngineName = "auto",
        disk: VirtualDisk | None = None,
        skew: int = 0,
        *,
        validates: bool = True,
    ) -> None:
        """Args: skew: by which its clock is fast, ns. validates: as of `Scenario`."""
        super().__init__(network, place)
        self._skew = skew
        self._clock = SteadyClock(network.engine.now, lambda: network.engine.instant + self._skew)
        self._store = None if disk is None else disk.open(self.name, self.now)
        self.node = Node(
            self.name,
            self.now,
            home=self.home,
            events_over=EVENTS,
            capacity=capacity,
            engines=engines(engine, VirtualReadiness(network.engine.now)),
            detector_limits=self.limits,
            checkpoints=disk is not None,
            validate=validates,
        )
        if self._store is not None:
            self.node.checkpoints.stored(self._store.stored, self.now)
        self.received = 0
        self._interval = tick
        self._waits = self._turn_due = False
        self._late: list[tuple[str, bytes]] = []

    @property
    def now(self) -> int:
        """Instant by its clock, ns."""
        return self._clock.now()

    def set_clock(self, by: int) -> None:
        """Set the wall clock forward, or with a negative step back, ns."""
        self._skew += by

    def begin(self) -> None:
        super().begin()
        # Nodes do not all tick at the same instant.
        self.network.engine.after(self.network.engine.random.randrange(TICK), self._tick)

    def stop(self) -> None:
        """Stop the node with a farewell."""
        self.do(self.node.stop())
        self.end()

    def crash(self, *, silent: bool) -> None:
        super().crash(silent=silent)
        if self._store is not None:
            self._store.crash()

    def act(self, effect: Effect) -> None:
        """Compile a pattern, or carry out an effect on the store."""
        if isinstance(effect, Compile):
            engine = self.network.engine
            engine.after(engine.random.randrange(SLOWEST_COMPILED), self._compile, effect)
        if self._store is None:
            return
        match effect:
            case Save(number=number, entries=entries):
                self._store.save(entries, lambda problem: self._answered("saved", number, problem))
            case Load(detector=detector):
                self._store.load(detector, lambda found, problem: self._answered("loaded", detector, found, problem))

    def _compile(self, order: Compile) -> None:
        self._answered("compiled", order, compiled_beside(order))

    def _answered(self, how: str, *answer: object) -> None:
        """The store or the compiler has answered, perhaps to a node that is gone by now."""
        if self.alive:
            self.do(getattr(self.node, how)(*answer, self.now))
            self._serve()

    def server_of(self, connection: str) -> str:
        return "" if connection == EVENTS else connection

    def client_at(self, connection: str) -> str:
        return f"{self.client_id}-{EVENTS}" if connection == EVENTS else self.client_id

    def will_for(self, home: str) -> Publish | None:
        return None if home else self.node.will()

    def connected(self, home: str) -> None:
        now = self.now
        self.do(self.node.linked(home, now) if home else self.node.start(now))
        self._serve()

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        self.received += 1
        engine = self.network.engine
        if home == EVENTS and (self._late or (self.late and engine.random.random() < self.late)):
            if not self._late:
                engine.after(engine.random.randrange(LATEST), self._come_late)
            self._late.append((topic, payload))
        else:
            self._take(topic, payload, home)

    def _come_late(self) -> None:
        late, self._late = self._late, []
        for topic, payload in late if self.alive else ():
            self._take(topic, payload, EVENTS)

    def _take(self, topic: str, payload: bytes, home: str) -> None:
        engine = self.network.engine
        if self.delayed and not self._waits and engine.random.random() < self.delayed:
            self._waits = True
            engine.after(engine.random.randrange(LONGEST_DELAY), self._go_on)
        if self._waits:
            self.do(self.node.receive_all(((topic, payload),), self.now, home, at_once=0))
        else:
            self.do(self.node.receive(topic, payload, self.now, home))
            self._serve()

    def _go_on(self) -> None:
        self._waits = False
        if self.alive:
            self._serve()

    def _serve(self) -> None:
        """Serve all requests at once, unless they wait, and turns in time."""
        while (self.node.waiting if self.turns_late else self.node.unfinished) and not self._waits:
            self.do(self.node.serve(self.now))
        if self.node.unfinished and self.turns_late and not self._turn_due:
            self._turn_due = True
            engine = self.network.engine
            engine.after(engine.random.randrange(self.turns_late), self._take_turn)

    def _take_turn(self) -> None:
        self._turn_due = False
        if self.alive and not self._waits:
            self.do(self.node.serve(self.now, lambda: False))
            self._serve()

    def _tick(self) -> None:
        if self.alive:
            engine = self.network.engine
            self.do(self.node.tick(self.now))
            if self.quarantines and engine.random.random() < self.quarantines:
                self.do(self.node.quarantine_all([engine.random.choice(self.quarantined)], self.now))
            self._serve()
            engine.after(self._interval, self._tick)
