"""A broker node live: the MQTT bus brings messages and time to a node, and does what the node says.

Nothing is decided here. Messages are handled on the thread of the bus, so an event goes from the socket through the
detectors and back to the socket without changing threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final, Self

import structlog

from brokers.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from brokers.node import Node
from middleware.bus import Bus, BusState, Message
from middleware.clock import Clock, SystemClock
from middleware.errors import BusError
from middleware.topics import ROOT

TICK: Final = 0.1

_log = structlog.get_logger("distced.node")


class LiveNode:
    """A node with its connection; a context manager, or `start` and `stop`.

    Attributes:
        node: the node; it belongs to the thread of the bus.
        bus: its connection.
    """

    def __init__(
        self, url: str, name: str, *, clock: Clock | None = None, root: str = ROOT, inspects: bool = True
    ) -> None:
        self.clock = clock or SystemClock()
        self.node = Node(name, self.clock.now(), root=root, inspects=inspects)
        will = self.node.will()
        self.bus = Bus(
            url,
            client_id=f"distced-node-{name}",
            clock=self.clock,
            will=Message(will.topic, will.payload, will.qos, will.retain),
            on_state=self._state_changed,
            max_queued=100_000,
        )
        self._filters: set[str] = set()
        self._stopped = threading.Event()

    def start(self, timeout: float = 10.0) -> None:
        """Connect and begin; raise `BusError` where that does not come about in so many seconds."""
        self.bus.start()
        try:
            self.bus.wait_connected(timeout)
        except BusError:
            self.bus.stop(0.0)
            raise
        self.bus.every(TICK, self._tick)

    def stop(self) -> None:
        """Take the node's entries out of the directory and disconnect."""
        if not self._stopped.is_set():
            self._stopped.set()
            if self.bus.connected:
                done = threading.Event()
                self.bus.call_soon(lambda: (self._do(self.node.stop()), done.set()))
                done.wait(2.0)
            self.bus.stop()

    def statistics(self) -> dict[str, int]:
        """The node's counters, and how many detectors it hosts."""
        dead = {f"dead letters, {name}": count for name, count in self.node.dead_letters.counts.items()}
        return {"detectors": len(self.node.hosted), **self.node.counts, **dead}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # On the thread of the bus.

    def _state_changed(self, state: BusState, error: BusError | None) -> None:
        if state is BusState.CONNECTED:
            self._do(self.node.start(self.clock.now()))
        elif state is BusState.WAITING:
            _log.warning("connection lost", node=self.node.name, reason=str(error))

    def _receive(self, topic: str, payload: bytes, retain: bool) -> None:
        self._do(self.node.receive(topic, payload, self.clock.now()))

    def _tick(self) -> None:
        self._do(self.node.tick(self.clock.now()))

    def _do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Publish(topic=topic, payload=payload, qos=qos, retain=retain):
                    self.bus.publish(topic, payload, qos=qos, retain=retain)
                case Subscribe(topic_filter=topic_filter, qos=qos):
                    # The bus subscribes again by itself after a loss.
                    if topic_filter not in self._filters:
                        self._filters.add(topic_filter)
                        self.bus.subscribe(topic_filter, self._receive, qos=qos)
                case Unsubscribe(topic_filter=topic_filter):
                    self._filters.discard(topic_filter)
                    self.bus.unsubscribe(topic_filter, self._receive)
                case Note(level=level, event=event, fields=fields):
                    getattr(_log, level)(event, node=self.node.name, **fields)
