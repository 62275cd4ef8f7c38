"""A broker node live: MQTT buses bring messages and time to a node, and do what the node says.

Nothing is decided here. A message is handled on the thread of the bus that it came over, so an event goes from the
socket through the detectors, and back to the socket where its composite events are published there, without changing
threads. There may be several buses, one for each server the node speaks to (`middleware.bus.pool`); they take turns
with the node. What the node wants done at a server is done by the thread of that bus, in the order in which the node
said it: it may send a message behind a subscription and take the answer to the one for an answer to both. A server that
is slow or away holds up what is meant for it and nothing else.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Self, TypeAlias

import structlog

from distced.brokers.core.effects import Effect, Isolate, Note, Publish, Release, Subscribe, Unsubscribe
from distced.brokers.node.node import Node
from distced.detectors.readiness import in_background
from distced.detectors.runtime.engine_switch import engines
from distced.detectors.runtime.engines import EngineName
from distced.middleware.bus import Bus, BusState, Message
from distced.middleware.bus.pool import Connections, Pointer, home_name, server_name
from distced.middleware.bus.routes import Handler
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError
from distced.middleware.wire.directory_entries import encode
from distced.middleware.wire.topics import ROOT, pointer_topic

TICK: Final = 0.1

MAX_QUEUED: Final = 100_000
"""Messages that wait for one server at most; what comes on top is given up, and counted."""

Done: TypeAlias = Publish | Subscribe | Unsubscribe
"""What is done at a server."""

_log = structlog.get_logger("distced.node")


class Outlet:
    """What a node wants done at one server, in order.

    Attributes:
        bus: the connection to it.
        waiting: what is not done yet; appended to by whoever has the node's lock.
        unsent: how many messages were given up because too many waited.
    """

    def __init__(self, home: str, bus: Bus, handler: Handler) -> None:
        self.bus = bus
        self.waiting: deque[Done] = deque()
        self.unsent = 0
        self._home = home
        self._handler = handler
        self._filters: set[str] = set()

    def drain(self) -> None:
        """Do what waits; on the thread of the bus, where it is done one after the other."""
        while self.waiting:
            match self.waiting.popleft():
                case Publish(topic=topic, payload=payload, qos=qos, retain=retain):
                    try:
                        self.bus.publish(topic, payload, qos=qos, retain=retain)
                    except BusError as error:
                        self._give_up(error)
                case Subscribe(topic_filter=topic_filter, qos=qos):
                    # The bus subscribes again by itself after a loss.
                    if topic_filter not in self._filters:
                        self._filters.add(topic_filter)
                        self.bus.subscribe(topic_filter, self._handler, qos=qos)
                case Unsubscribe(topic_filter=topic_filter):
                    self._filters.discard(topic_filter)
                    self.bus.unsubscribe(topic_filter, self._handler)

    def _give_up(self, error: BusError) -> None:
        self.unsent += 1
        # One of a flood is enough to be read; all are counted.
        if self.unsent.bit_count() == 1:
            _log.warning("a message was given up", home=self._home, reason=str(error), so_far=self.unsent)


class LiveNode:
    """A node with its connections; a context manager, or `start` and `stop`.

    Attributes:
        node: the node; whoever uses it beside the buses does so at a moment when nothing comes.
        bus: the connection to the server of the directory.
        connections: all of them.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        home: str = "",
        capacity: float = 0.0,
        clock: Clock | None = None,
        root: str = ROOT,
        inspects: bool = True,
        reserved: str = "",
        isolate: Callable[[str, str], object] | None = None,
        release: Callable[[str], object] | None = None,
        engine: EngineName = "auto",
    ) -> None:
        """Describe a node; nothing happens before `start`.

        Args:
            url: the MQTT server of the directory.
            home: the MQTT server of the node's site; empty where that is the same.
            capacity: how many instances the node can touch a second; 0 where nobody knows.
            inspects: whether the node may be the one that looks at all events of its site.
            reserved: the detector it is started for, and the only one it hosts; empty for any.
            isolate: has a node of this name started at the same site, in a process of its own, for this detector; it
                must not take time, for it is called on the thread of a bus. None where that cannot be had.
            release: has a node ended that `isolate` has started, in the same way.
            engine: which one runs the detectors; `auto` for the one that costs less.

        Raises:
            DistcedError: where that engine cannot be had.
        """
        self.clock = clock or SystemClock()
        self._isolate = isolate
        self._release = release
        self.node = Node(
            name,
            self.clock.now(),
            root=root,
            inspects=inspects,
            home=home_name(home, url),
            capacity=capacity,
            isolates=isolate is not None and release is not None,
            reserved=reserved,
            engines=engines(engine, in_background()),
        )
        will = self.node.will()
        self.connections = Connections(
            url,
            home,
            client_id=f"distced-node-{name}",
            clock=self.clock,
            will=Message(will.topic, will.payload, will.qos, will.retain),
            on_state=self._state_changed,
            max_queued=MAX_QUEUED,
        )
        self.bus = self.connections.main
        self._pointer = encode(Pointer(server_name(url)))
        # The buses take turns with the node.
        self._turn = threading.Lock()
        self._outlets: dict[str, Outlet] = {}
        # Homes that are none, each told of once; and those whose loss was told of.
        self._unusable: set[str] = set()
        self._lost: set[str] = set()
        self._stopped = threading.Event()

    def start(self, timeout: float = 10.0) -> None:
        """Connect and begin; raise `BusError` where that does not come about in so many seconds.

        The server of the directory has to be there. That of the node's site is connected to when it is.
        """
        self.bus.start()
        try:
            self.bus.wait_connected(timeout)
        except BusError:
            self.connections.stop(0.0)
            raise
        self.connections.to(self.node.home)
        self.bus.every(TICK, self._tick)

    def stop(self) -> None:
        """Take the node's entries out of the directory and disconnect."""
        if not self._stopped.is_set():
            self._stopped.set()
            if self.bus.connected:
                done = threading.Event()
                self.bus.call_soon(lambda: (self._decide("", self.node.stop), done.set()))
                done.wait(2.0)
            for outlet in list(self._outlets.values()):
                # Behind what waits there.
                done = threading.Event()
                outlet.bus.call_soon(done.set)
                done.wait(1.0)
            self.connections.stop()

    def statistics(self) -> dict[str, int]:
        """The node's counters, how many detectors it hosts, and how many messages were given up."""
        dead = {f"dead letters, {name}": count for name, count in self.node.dead_letters.counts.items()}
        unsent = sum(outlet.unsent for outlet in list(self._outlets.values()))
        return {"detectors": len(self.node.hosted), **self.node.counts, **dead, "unsent": unsent}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # On the threads of the buses.

    def _state_changed(self, home: str, state: BusState, error: BusError | None) -> None:
        where = {"home": home} if home else {}
        if state is BusState.CONNECTED:
            if home in self._lost:
                self._lost.discard(home)
                _log.info("connected again", node=self.node.name, **where)
            self._point(home)
            if home:
                self._decide(home, lambda: self.node.linked(home, self.clock.now()))
            else:
                self._decide("", lambda: self.node.start(self.clock.now()))
        elif state is BusState.WAITING and home not in self._lost:
            self._lost.add(home)
            _log.warning("connection lost", node=self.node.name, reason=str(error), **where)

    def _point(self, home: str) -> None:
        """Leave word of where the directory is, for those who know the server of their own site alone."""
        if home in ("", self.node.home):
            bus, said = self.connections.to(home), self._pointer if home else b""
            bus.publish(pointer_topic(root=self.node.root), said, qos=1, retain=True)

    def _receive(self, home: str, topic: str, payload: bytes, retain: bool) -> None:
        self._decide(home, lambda: self.node.receive(topic, payload, self.clock.now(), home))

    def _tick(self) -> None:
        self._decide("", lambda: self.node.tick(self.clock.now()))

    def _decide(self, here: str, decide: Callable[[], Iterable[Effect]]) -> None:
        """Let the node decide, on the thread of the bus to `here`, and have done what it says."""
        with self._turn:
            outlets = self._hand_out(decide())
        if self.node.claim.lost:
            self._retire()
        for home, outlet in outlets.items():
            if home == here:
                outlet.drain()
            else:
                outlet.bus.call_soon(outlet.drain)

    def _retire(self) -> None:
        """Leave without a word, and without a last will: what the directory has under this name is another's."""
        if not self._stopped.is_set():
            self._stopped.set()
            # A bus cannot be stopped from its own thread.
            threading.Thread(target=self.connections.stop, name="retiring", daemon=True).start()

    def _hand_out(self, effects: Iterable[Effect]) -> dict[str, Outlet]:
        outlets: dict[str, Outlet] = {}
        for effect in effects:
            match effect:
                case Note():
                    # Where a note speaks of a node, that is another one.
                    fields = {"other_node" if name == "node" else name: each for name, each in effect.fields.items()}
                    getattr(_log, effect.level)(effect.event, node=self.node.name, **fields)
                case Isolate(node=node, detector=detector):
                    if self._isolate is not None:
                        self._isolate(node, detector)
                case Release(node=node):
                    if self._release is not None:
                        self._release(node)
                case _:
                    outlet = self._outlets.get(effect.home) or self._open(effect.home)
                    if outlet is not None:
                        outlet.waiting.append(effect)
                        outlets[effect.home] = outlet
        return outlets

    def _open(self, home: str) -> Outlet | None:
        """The outlet to a home that nothing was done at so far; None for one that is none."""
        try:
            bus = self.connections.to(home)
        except BusError as error:
            if home not in self._unusable:
                self._unusable.add(home)
                _log.warning("no server to speak to", node=self.node.name, home=home, reason=str(error))
            return None
        outlet = self._outlets[home] = Outlet(home, bus, partial(self._receive, home))
        return outlet
