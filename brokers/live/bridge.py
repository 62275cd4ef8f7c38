"""A bridge live: the MQTT bus brings messages and time to it, and does what it says. Nothing is decided here."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Final, Self

import structlog

from distced.brokers.bridge import LATENESS, LEASE, Bridge
from distced.brokers.core.effects import Effect, Note, Publish, Subscribe, Unsubscribe
from distced.middleware.bus import Bus, BusState, Message, parse_address
from distced.middleware.bus.routes import Handler
from distced.middleware.mapping import Mapping
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError
from distced.middleware.wire.topics import ROOT

BEAT: Final = 0.25
"""Seconds between promises; they add to the delay of guaranteed detection."""

_log = structlog.get_logger("distced.bridge")


class LiveBridge:
    """A bridge with its connection; a context manager, or `start` and `stop`.

    Attributes:
        bridge: the bridge; it belongs to the thread of the bus.
        bus: its connection.
    """

    def __init__(
        self,
        url: str,
        name: str,
        mappings: Sequence[Mapping],
        *,
        lateness: int = LATENESS,
        lease: int = LEASE,
        retained: bool = False,
        clock: Clock | None = None,
        root: str = ROOT,
    ) -> None:
        """Describe a bridge; nothing happens before `start`. See `Bridge` for the arguments."""
        self.clock = clock or SystemClock()
        self.bridge = Bridge(
            name,
            mappings,
            self.clock.now(),
            lateness=lateness,
            lease=lease,
            retained=retained,
            home=str(parse_address(url)),
            root=root,
        )
        will = self.bridge.will()
        # No session: what the server kept for an absent bridge would come as if it had happened just now.
        self.bus = Bus(
            url,
            client_id=f"distced-bridge-{name}",
            clock=self.clock,
            will=Message(will.topic, will.payload, will.qos, will.retain),
            on_state=self._state_changed,
            max_queued=100_000,
        )
        self._filters: set[str] = set()
        self._begun = threading.Event()
        self._stopped = False

    def start(self, timeout: float = 10.0) -> Self:
        """Connect and begin.

        Raises:
            BusError: where that does not come about in so many seconds.
            TypeRegistryError: where an event type is registered already, with other attributes.
        """
        self.bus.start()
        try:
            self.bus.wait_connected(timeout)
            if not self._begun.wait(timeout):
                raise BusError(
                    "the directory could not be read", given=f"after {timeout} s", where=str(self.bus.address)
                )
            if self.bridge.problem is not None:
                raise self.bridge.problem
        except Exception:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Take the sources out of the directory and disconnect."""
        if self._stopped:
            return
        self._stopped = True
        if self.bus.connected:
            done = threading.Event()
            self.bus.call_soon(lambda: self._end(done))
            done.wait(2.0)
        self.bus.stop()

    def statistics(self) -> dict[str, int]:
        """The bridge's counters, and how many sources it speaks for."""
        return {"sources": len(self.bridge.sources) - 1, **self.bridge.counts}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # On the thread of the bus.

    def _state_changed(self, state: BusState, error: BusError | None) -> None:
        if state is BusState.CONNECTED:
            self._do(self.bridge.start())
        elif state is BusState.WAITING:
            _log.warning("connection lost, and what devices send meanwhile", bridge=self.bridge.name, reason=str(error))

    def _handler(self, topic_filter: str) -> Handler:
        def received(topic: str, payload: bytes, retained: bool) -> None:
            self._do(self.bridge.receive(topic_filter, topic, payload, retained, self.clock.now()))
            if not self._begun.is_set() and (self.bridge.ready or self.bridge.problem is not None):
                self._begun.set()
                self.bus.every(BEAT, self._tick)

        return received

    def _end(self, done: threading.Event) -> None:
        self._do(self.bridge.stop())
        done.set()

    def _tick(self) -> None:
        # Promises must not pile up while there is no connection.
        if self.bus.connected:
            self._do(self.bridge.tick(self.clock.now()))

    def _do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Publish(topic=topic, payload=payload, qos=qos, retain=retain):
                    self.bus.publish(topic, payload, qos=qos, retain=retain)
                case Subscribe(topic_filter=topic_filter, qos=qos):
                    # The bus subscribes again by itself after a loss.
                    if topic_filter not in self._filters:
                        self._filters.add(topic_filter)
                        self.bus.subscribe(topic_filter, self._handler(topic_filter), qos=qos)
                case Unsubscribe(topic_filter=topic_filter):
                    self._filters.discard(topic_filter)
                    self.bus.unsubscribe(topic_filter)
                case Note(level=level, event=event, fields=fields):
                    getattr(_log, level)(event, bridge=self.bridge.name, **fields)
