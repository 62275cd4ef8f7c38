"""Live driver of a bridge."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from distced.brokers.bridge import LATENESS, LEASE, Bridge
from distced.brokers.core.dead_letters import REASONS
from distced.brokers.core.effects import Effect
from distced.brokers.core.metrics import DEAD_LETTERS, Delays, Values, by_reason, put
from distced.brokers.live.metrics_board import MetricsBoard
from distced.brokers.live.participant import Participant
from distced.middleware.bus import parse_address
from distced.middleware.bus.logger import get_logger
from distced.middleware.bus.subscriptions import Handler
from distced.middleware.mapping import Mapping
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError
from distced.middleware.wire.topics import ROOT

if TYPE_CHECKING:
    from distced.middleware.bus.traces import Traces


class LiveBridge(Participant):
    """Bridge with its connection; `bridge` belongs to the thread of the bus."""

    log = get_logger("distced.bridge")
    role = "bridge"
    # Interval of watermarks; it adds to the delay of guaranteed detection.
    tick_every = 0.25

    def __init__(
        self,
        url: str,
        name: str,
        mappings: Sequence[Mapping],
        *,
        lateness: int = LATENESS,
        lease: int = LEASE,
        retained: bool = False,
        filters: bool = False,
        clock: Clock | None = None,
        root: str = ROOT,
        board: MetricsBoard | None = None,
        traces: Traces | None = None,
    ) -> None:
        """Describe a bridge; nothing happens before `start`. See `Bridge` and `Participant` for the arguments."""
        clock = clock or SystemClock()
        self.bridge = Bridge(
            name,
            mappings,
            clock.now(),
            lateness=lateness,
            lease=lease,
            retained=retained,
            home=str(parse_address(url)),
            root=root,
            filters=filters,
        )
        self._begun = threading.Event()
        # No session: messages kept for an absent bridge would be taken for new ones.
        will = self.bridge.will()
        super().__init__(
            url,
            name,
            client_id=f"distced-bridge-{name}",
            clock=clock,
            will=will,
            board=board,
            traces=traces,
            root=root,
        )

    def statistics(self) -> dict[str, int]:
        """Counters of the bridge, and number of its sources."""
        return {"sources": len(self.bridge.sources) - 1, **self.bridge.counts}

    def _wait_ready(self, timeout: float) -> None:
        """Wait until devices are subscribed to; `TypeRegistryError` for a type registered with other attributes."""
        if not self._begun.wait(timeout):
            raise BusError("the directory could not be read", given=f"after {timeout} s", where=str(self.bus.address))
        if self.bridge.problem is not None:
            raise self.bridge.problem

    def _handlers(self, home: str) -> Callable[[str], Handler]:
        return lambda topic_filter: partial(self._hear, topic_filter)

    def _hear(self, topic_filter: str, topic: str, payload: bytes, retained: bool) -> None:
        self._decide("", lambda: self.bridge.receive(topic_filter, topic, payload, retained, self.clock.now()))
        if self.bridge.ready or self.bridge.problem is not None:
            self._begun.set()

    def _connected(self, home: str, now: int, *, resumed: bool) -> Iterable[Effect]:
        return self.bridge.start(now)

    def _time(self, now: int) -> Iterable[Effect]:
        # Watermarks must not pile up while there is no connection.
        return self.bridge.tick(now) if self.bus.connected else ()

    def _measured(self, now: int) -> tuple[Values, Delays | None]:
        values, counts = Values(), self.bridge.counts
        put(values, "distced_bridge_messages_total", counts["messages"])
        put(values, "distced_bridge_events_total", counts["events"])
        put(values, "distced_bridge_late_events_total", counts["late"])
        put(values, "distced_bridge_rejected_total", counts["rejected"])
        put(values, "distced_bridge_retained_messages_total", counts["retained"])
        put(values, "distced_bridge_left_out_events_total", counts["left_out"])
        put(values, "distced_sources", len(self.bridge.sources) - 1)
        by_reason(values, DEAD_LETTERS, self.bridge.dead_letters.counts, REASONS)
        return values, None

    def _end(self, now: int) -> Iterable[Effect]:
        return self.bridge.stop()
