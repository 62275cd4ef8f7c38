"""State of a subscription: the request, the detector that serves it, and the intake of its events.

The intake is the same under every driver: events that came before are dropped by id, those of other types and those
beyond the upper rate are counted. A driver adds a queue and the waiting.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import DistcedError, SubscriptionError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.frames import decode_any

REMEMBERED: Final = 100_000  # event ids that a subscription keeps to recognise duplicates


class Place(NamedTuple):
    """Topics that a subscription listens to at the server of a home; empty for that of the directory."""

    home: str
    filter: str


class SubscriptionStatistics(msgspec.Struct, gc=False):
    """Counters of a subscription.

    Attributes:
        received: events given to the application or waiting for it.
        duplicates: events that had come before, those among them that come again with further derivations.
        limited: events left out because of the upper rate.
        dropped: events left out because the application was too slow.
        errors: messages that could not be read, events of another type, and exceptions of the callback.
        waits: times that it waited for a type, between which events may be missing.
        watermark: no event with `hi` at or before this will come any more, ns; None for no promise, as for a type,
            whose
            sources each promise for themselves.
        delay_sum, delay_most: from the `hi` of events to their arrival, by the client's clock, ns.
    """

    received: int = 0
    duplicates: int = 0
    limited: int = 0
    dropped: int = 0
    errors: int = 0
    waits: int = 0
    watermark: int | None = None
    delay_sum: int = 0
    delay_most: int = 0


class SubscriptionState:
    """Subscription without the waiting.

    Attributes:
        id: its name in the directory.
        pattern: the pattern or the name of the type, as text.
        detector, node: the detector that serves it, and its node; empty for a type.
        homes: servers where the detector publishes, by the last answer of a node.
        type_name, event_type: the type subscribed to; empty for a pattern, and None where it is not registered.
        places: topics it listens to, and whether the server has confirmed each.
        statistics: counters.
        ended: no further event comes; events that have come can still be read.
        waits: why nothing can be found for the time being, as nobody publishes a type that the pattern reads; else
            empty.
    """

    # A client may have ten thousand of them.
    __slots__ = (
        "_confirmed",
        "_seen",
        "_unconfirmed",
        "_window",
        "detector",
        "ended",
        "event_type",
        "homes",
        "id",
        "node",
        "pattern",
        "quality",
        "statistics",
        "type_name",
        "waits",
    )

    def __init__(self, identity: str, pattern: str, quality: QualityOfService) -> None:
        self.id = identity
        self.pattern = pattern
        self.quality = quality
        self.detector = ""
        self.node = ""
        self.homes: tuple[str, ...] = ()
        self.type_name = ""
        self.event_type: EventType | None = None
        # Places by whether the server has confirmed them; of most subscriptions there is one, and a dictionary takes
        # 220 bytes.
        self._confirmed: tuple[Place, ...] = ()
        self._unconfirmed: tuple[Place, ...] = ()
        self.statistics = SubscriptionStatistics()
        self.ended = False
        self.waits = ""
        # Ids of the last events; None before the first.
        self._seen: OrderedDict[EventId, None] | None = None
        # Instants of the events within the current period of the upper rate, ns; None without such events.
        self._window: deque[int] | None = None

    @property
    def places(self) -> dict[Place, bool]:
        # In this order: a place that is confirmed meanwhile, on another thread, is in one of them.
        return dict.fromkeys(self._unconfirmed, False) | dict.fromkeys(self._confirmed, True)

    def add_place(self, place: Place) -> None:
        """Add a place that the server has not confirmed."""
        self._unconfirmed += (place,)

    def confirm_place(self, place: Place) -> None:
        self._confirmed += (place,)
        self._unconfirmed = tuple([each for each in self._unconfirmed if each != place])

    def remove_place(self, place: Place) -> None:
        self._confirmed = tuple([each for each in self._confirmed if each != place])
        self._unconfirmed = tuple([each for each in self._unconfirmed if each != place])

    def arrived(self, topic: str, payload: bytes, now: int) -> Iterator[Event]:
        """Events of a message that are new and within the quality of service; one message after the other."""
        statistics = self.statistics
        try:
            frame = decode_any(payload, where=topic, now=now)
        except DistcedError as error:
            statistics.errors += 1
            self.rejected("message rejected", error)
            return
        statistics.errors += len(frame.rejected)
        for event in frame.events:
            if self._is_of_type(event, topic) and self._is_wanted(event, now):
                yield self._without_extras(event)
        if self.detector and frame.watermark is not None:
            self.progressed(frame.watermark)

    def progressed(self, watermark: int) -> None:
        """Take a watermark, ns."""
        known = self.statistics.watermark
        if known is None or watermark > known:
            self.statistics.watermark = watermark

    def delivered(self, event: Event, now: int) -> None:
        """Count an event that the application has, or that waits for it; the first match may end the subscription."""
        delay = max(now - event.hi, 0)
        self.statistics.received += 1
        self.statistics.delay_sum += delay
        self.statistics.delay_most = max(self.statistics.delay_most, delay)
        if self.quality.matches == "first":
            self.ended = True

    def rejected(self, event: str, reason: DistcedError) -> None:
        """Log hook for a message or an event that is counted as an error; for drivers to override."""

    def _is_of_type(self, event: Event, topic: str) -> bool:
        if not self.type_name or self.event_type is None or isinstance(event, CompositeEvent):
            return True
        try:
            if event.type != self.type_name:
                raise SubscriptionError("an event of another type", given=event.type, allowed=self.type_name)
            self.event_type.check(event, where=topic)
        except DistcedError as error:
            self.statistics.errors += 1
            self.rejected("event rejected", error)
            return False
        return True

    def _is_wanted(self, event: Event, now: int) -> bool:
        if self.ended:
            return False
        # What comes again is not always remembered: it may have been found long ago, or before this subscription began.
        if self._seen is None:
            self._seen = OrderedDict()
        if event.id in self._seen or (isinstance(event, CompositeEvent) and event.again):
            self.statistics.duplicates += 1
            return False
        self._seen[event.id] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return self.quality.rate is None or self._is_within(self.quality.rate, now)

    def _is_within(self, rate: float, now: int) -> bool:
        # A rate below one a second is one in a longer time.
        most = max(int(rate), 1)
        period = round(most / rate * SECOND)
        if self._window is None:
            self._window = deque()
        while self._window and now - self._window[0] >= period:
            self._window.popleft()
        if len(self._window) >= most:
            self.statistics.limited += 1
            return False
        self._window.append(now)
        return True

    def _without_extras(self, event: Event) -> Event:
        """Event without what others request that share the detector."""
        if not isinstance(event, CompositeEvent):
            return event
        events = event.events if self.quality.constituents else ()
        if event.derivations or len(events) < len(event.events):
            return replace(event, events=events, derivations=())
        return event
