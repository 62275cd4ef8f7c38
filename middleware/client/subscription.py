"""A subscription: a handle that gives events, and tells how it goes."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec
import structlog
from msgspec.structs import replace

from distced.middleware.bus import BusState
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import BusError, DistcedError, SubscriptionError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.frames import decode_any

if TYPE_CHECKING:
    from distced.middleware.client.client import Client

_log = structlog.get_logger("distced.client")

REMEMBERED: Final = 100_000


class Place(NamedTuple):
    """Somewhere to listen.

    Attributes:
        home: the server; empty for that of the directory.
        filter: the topics there.
    """

    home: str
    filter: str


class SubscriptionStatistics(msgspec.Struct):
    """Counters of a subscription.

    Attributes:
        received: events given to the application or waiting for it.
        duplicates: events that had come before, those among them that come again with further records.
        limited: events left out because of the upper rate.
        dropped: events left out because the application was too slow.
        errors: messages that could not be read, events that are none of the type, and exceptions of the callback.
        watermark: no event with `hi` at or before this will come any more, ns; None where nothing is promised, as for a
            type, whose sources each promise for themselves.
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
        type_name: the type that was subscribed to; empty for a pattern. `event_type` is the type itself where it is
            registered.
        homes: the servers where the detector publishes, as it was said last.
        statistics: how it goes.
        places: where it listens, and whether the server has confirmed it.
        on_change: called whenever there is something to get, or nothing will come any more, on any thread.
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
        self.type_name = ""
        self.event_type: EventType | None = None
        self.homes: tuple[str, ...] = ()
        self.statistics = SubscriptionStatistics()
        self.places: dict[Place, bool] = {}
        self.on_change: Callable[[], object] = _nothing
        self._callback = callback
        self._waiting: deque[Event] = deque()
        self._change = threading.Condition()
        # Messages of several servers come on several threads.
        self._receiving = threading.Lock()
        self._lost: set[str] = set()
        self._ended = False
        self._failure: SubscriptionError | None = None
        # Whether an event was left out, and the application has taken none since.
        self._overflowing = False
        self._seen: OrderedDict[EventId, None] = OrderedDict()
        self._window: deque[int] = deque()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Have the callback called, if there is one."""
        if self._callback is not None:
            name = f"distced-{self.id}"
            self._thread = threading.Thread(target=self._call_back, name=name, daemon=True)
            self._thread.start()

    @property
    def filters(self) -> list[str]:
        """The topics it listens to."""
        return [place.filter for place in list(self.places)]

    @property
    def ended(self) -> bool:
        """Whether nothing will come any more. What has come can still be read."""
        return self._ended

    def end(self) -> None:
        """Nothing will come any more."""
        with self._change:
            self._ended = True
            self._change.notify_all()
        self.on_change()

    def fail(self, error: SubscriptionError) -> None:
        """Nothing will come any more, and whoever waits is told why."""
        _log.warning("subscription ended", subscription=self.id, reason=str(error))
        self._failure = error
        self.end()

    def close(self) -> None:
        """Unsubscribe."""
        self.client.unsubscribe(self)

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event; None where none has come in so many seconds, or the subscription has ended.

        Raises:
            SubscriptionError: where it was ended by somebody else, once everything that has come is read.
        """
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._ended, timeout)
            if self._waiting:
                event = self._waiting.popleft()
                self._overflowing = False
                self._change.notify_all()
                return event
        if self._failure is not None:
            raise self._failure
        return None

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

    def wait_watermark(self, watermark: int, timeout: float) -> bool:
        """Wait until everything up to a watermark, ns, has come; whether it has in so many seconds."""
        with self._change:
            return self._change.wait_for(
                lambda: self.statistics.watermark is not None and self.statistics.watermark >= watermark, timeout
            )

    # On the thread of a bus.

    def receive(self, topic: str, payload: bytes, retain: bool) -> None:
        """A message has arrived."""
        with self._receiving:
            self._take(topic, payload)

    def _take(self, topic: str, payload: bytes) -> None:
        now = self.client.clock.now()
        try:
            frame = decode_any(payload, where=topic, now=now)
        except DistcedError as error:
            self.statistics.errors += 1
            _log.warning("unreadable message", subscription=self.id, reason=str(error))
            return
        self.statistics.errors += len(frame.rejected)
        for event in frame.events:
            if self._is_of_type(event, topic) and self._is_wanted(event, now):
                self._give(event, now)
        if self.detector and frame.watermark is not None:
            known = self.statistics.watermark
            if known is None or frame.watermark > known:
                with self._change:
                    self.statistics.watermark = frame.watermark
                    self._change.notify_all()

    def connection_changed(self, home: str, state: BusState, error: BusError | None) -> None:
        """A connection has come or gone; what was published meanwhile is lost, so say it, once."""
        if home and home not in {place.home for place in list(self.places)}:
            return
        where = {"home": home} if home else {}
        if state is BusState.CONNECTED and home in self._lost:
            self._lost.discard(home)
            _log.info("connected again", subscription=self.id, **where)
        elif state is BusState.WAITING and home not in self._lost:
            self._lost.add(home)
            _log.warning("connection lost", subscription=self.id, reason=str(error), **where)

    def _is_of_type(self, event: Event, topic: str) -> bool:
        if not self.type_name or self.event_type is None or isinstance(event, CompositeEvent):
            return True
        try:
            if event.type != self.type_name:
                raise SubscriptionError("an event of another type", given=event.type, allowed=self.type_name)
            self.event_type.check(event, where=topic)
        except DistcedError as error:
            self.statistics.errors += 1
            _log.warning("an event that is none of its type", subscription=self.id, reason=str(error))
            return False
        return True

    def _is_wanted(self, event: Event, now: int) -> bool:
        if self._ended:
            return False
        # What comes again is not always remembered: it may have been found long ago, or before this subscription began.
        if event.id in self._seen or (isinstance(event, CompositeEvent) and event.again):
            self.statistics.duplicates += 1
            return False
        self._seen[event.id] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        rate = self.quality.rate
        if rate is not None:
            # A rate below one a second is one in a longer time.
            most = max(int(rate), 1)
            period = round(most / rate * SECOND)
            while self._window and now - self._window[0] >= period:
                self._window.popleft()
            if len(self._window) >= most:
                self.statistics.limited += 1
                return False
            self._window.append(now)
        return True

    def _give(self, event: Event, now: int) -> None:
        if isinstance(event, CompositeEvent):
            # Somebody else who shares the detector wants them.
            if event.events and not self.quality.constituents:
                event = replace(event, events=())
            if event.records:
                event = replace(event, records=())
        with self._change:
            if len(self._waiting) >= self.quality.queue and not self._overflowing:
                # The bus waits, so that the server holds back what comes next; but only once for an application that
                # does not take anything.
                self._change.wait_for(
                    lambda: len(self._waiting) < self.quality.queue or self._ended, self.quality.patience
                )
            if len(self._waiting) >= self.quality.queue:
                self.statistics.dropped += 1
                self._overflowing = True
                return
            delay = max(now - event.hi, 0)
            self.statistics.received += 1
            self.statistics.delay_sum += delay
            self.statistics.delay_most = max(self.statistics.delay_most, delay)
            self._waiting.append(event)
            if self.quality.matches == "first":
                self._ended = True
            self._change.notify_all()
        self.on_change()
        if self.quality.matches == "first":
            self.client.unsubscribe(self)

    # On a thread of its own.

    def _call_back(self) -> None:
        assert self._callback is not None
        try:
            for event in self:
                try:
                    self._callback(event)
                except Exception:
                    self.statistics.errors += 1
                    _log.exception("the callback of a subscription failed", subscription=self.id, id=event.id)
        except SubscriptionError:
            # Logged already; there is nobody else to tell.
            self.statistics.errors += 1


def _nothing() -> None:
    return None
