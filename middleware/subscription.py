"""A subscription: a handle that gives events, and tells how it goes."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Self

import msgspec
import structlog

from middleware.errors import DistcedError
from middleware.events import Event, EventId
from middleware.quality import QualityOfService
from middleware.wire import decode_any

if TYPE_CHECKING:
    from middleware.client import Client

_log = structlog.get_logger("distced.client")

REMEMBERED: Final = 100_000


class SubscriptionStatistics(msgspec.Struct):
    """Counters of a subscription.

    Attributes:
        received: events given to the application or waiting for it.
        duplicates: events that had come before.
        limited: events left out because of the upper rate.
        dropped: events left out because the application was too slow.
        errors: messages that could not be read, and exceptions of the callback.
        watermark: no event with `hi` at or before this will come any more, ns; None where nothing is promised.
        delay_sum, delay_most: from the `hi` of events to their arrival, by the client's clock, ns.
    """

    received: int = 0
    duplicates: int = 0
    limited: int = 0
    dropped: int = 0
    errors: int = 0
    watermark: int | None = None
    delay_sum: int = 0
    delay_most: int = 0


class Subscription:
    """Events of a pattern or a type; iterate over it, or have a callback called. A context manager that unsubscribes.

    Attributes:
        id: its name in the directory.
        pattern: what was subscribed to, as text.
        quality: what kind of service was asked for.
        detector, node: who serves it; empty for a type.
        statistics: how it goes.
        filters: the topics it listens to.
    """

    def __init__(
        self,
        client: Client,
        identity: str,
        pattern: str,
        quality: QualityOfService,
        callback: Callable[[Event], object] | None,
    ) -> None:
        self.client = client
        self.id = identity
        self.pattern = pattern
        self.quality = quality
        self.detector = ""
        self.node = ""
        self.statistics = SubscriptionStatistics()
        self.filters: list[str] = []
        self._callback = callback
        self._waiting: deque[Event] = deque()
        self._change = threading.Condition()
        self._ended = False
        self._seen: OrderedDict[EventId, None] = OrderedDict()
        self._window: deque[int] = deque()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Have the callback called, if there is one."""
        if self._callback is not None:
            name = f"distced-{self.id}"
            self._thread = threading.Thread(target=self._call_back, name=name, daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Nothing will come any more."""
        with self._change:
            self._ended = True
            self._change.notify_all()

    def close(self) -> None:
        """Unsubscribe."""
        self.client.unsubscribe(self)

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event; None where none has come in so many seconds, or the subscription has ended."""
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._ended, timeout)
            if not self._waiting:
                return None
            event = self._waiting.popleft()
            self._change.notify_all()
            return event

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self.get()
            if event is None:
                return
            yield event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # On the thread of the bus.

    def receive(self, topic: str, payload: bytes, retain: bool) -> None:
        """A message has arrived."""
        now = self.client.clock.now()
        try:
            frame = decode_any(payload, where=topic, now=now)
        except DistcedError as error:
            self.statistics.errors += 1
            _log.warning("unreadable message", subscription=self.id, reason=str(error))
            return
        for event in frame.events:
            if self._is_wanted(event, now):
                self._give(event, now)
        if frame.watermark is not None and (
            self.statistics.watermark is None or frame.watermark > self.statistics.watermark
        ):
            with self._change:
                self.statistics.watermark = frame.watermark
                self._change.notify_all()

    def connection_changed(self, connected: bool) -> None:
        """The connection has come or gone; what was published meanwhile at QoS 0 is lost, so say it."""
        _log.info("connected" if connected else "connection lost", subscription=self.id)

    def wait_watermark(self, watermark: int, timeout: float) -> bool:
        """Wait until everything up to a watermark, ns, has come; whether it has in so many seconds."""
        with self._change:
            return self._change.wait_for(
                lambda: self.statistics.watermark is not None and self.statistics.watermark >= watermark, timeout
            )

    def _is_wanted(self, event: Event, now: int) -> bool:
        if event.id in self._seen:
            self.statistics.duplicates += 1
            return False
        self._seen[event.id] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        rate = self.quality.rate
        if rate is not None:
            while self._window and now - self._window[0] >= 1_000_000_000:
                self._window.popleft()
            if len(self._window) >= rate:
                self.statistics.limited += 1
                return False
            self._window.append(now)
        return not (self.quality.matches == "first" and self.statistics.received)

    def _give(self, event: Event, now: int) -> None:
        with self._change:
            if len(self._waiting) >= self.quality.queue:
                # The bus waits, so that the server holds back what comes next.
                self._change.wait_for(
                    lambda: len(self._waiting) < self.quality.queue or self._ended, self.quality.patience
                )
            if len(self._waiting) >= self.quality.queue:
                self.statistics.dropped += 1
                return
            delay = max(now - event.hi, 0)
            self.statistics.received += 1
            self.statistics.delay_sum += delay
            self.statistics.delay_most = max(self.statistics.delay_most, delay)
            self._waiting.append(event)
            if self.quality.matches == "first":
                self._ended = True
            self._change.notify_all()

    # On a thread of its own.

    def _call_back(self) -> None:
        assert self._callback is not None
        for event in self:
            try:
                self._callback(event)
            except Exception:
                self.statistics.errors += 1
                _log.exception("the callback of a subscription failed", subscription=self.id, event=event.id)
