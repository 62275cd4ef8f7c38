"""A source of events: a handle an application publishes through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from distced.middleware.model.errors import DistcedError, EventError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.wire.frames import encode
from distced.middleware.wire.topics import event_topic

if TYPE_CHECKING:
    from distced.middleware.client.client import Client

# More events than this are sent in several frames; decoding, not matching, limits what a node can take.
FRAME: int = 500


class Source:
    """Publishes events of some types under one name. Its events are numbered in the order they are created.

    Events and promises go to the server of the client's site.

    Attributes:
        name: the source of its events.
        types: what it publishes, by name.
        watermark: it has promised to publish no event with `hi` at or before this, ns.
        published: how many events it has published.
        qos: 0 or 1.
    """

    def __init__(self, client: Client, name: str, types: Mapping[str, EventType], watermark: int, qos: int) -> None:
        self.client = client
        self.name = name
        self.types = dict(types)
        self.watermark = watermark
        self.published = 0
        self.qos = qos
        self._bus = client.home_bus
        # Beyond what an earlier life of this source has numbered: ids stay unique.
        self.next_seq = max(client.clock.now() // 1_000, 0)
        self._topics = {each: event_topic(each, name, root=client.root) for each in self.types}

    def create(self, type_name: str, lo: int, hi: int | None = None, /, **attributes: Attribute) -> Event:
        """The source's next event at `[lo, hi]`, ns (`hi` is `lo` where it is left out); checked, not yet published."""
        event_type = self.types.get(type_name)
        if event_type is None:
            raise EventError(
                f"the source {self.name!r} does not publish this type", given=type_name, allowed=", ".join(self.types)
            )
        event = event_type.create(lo, hi, source=self.name, seq=self.next_seq, attributes=attributes)
        self.next_seq += 1
        return event

    def publish(self, *events: Event, watermark: int | None = None) -> None:
        """Publish events of this source, in this order, several of one type in one frame.

        Args:
            watermark: a promise to publish no further event with `hi` at or before it, ns.

        Raises:
            EventError: for an event that is none of the source's types, or that breaks an earlier promise; none is
                published then.
            BusError: where too many messages wait already.
        """
        if watermark is not None:
            check_watermark(watermark)
        for event in events:
            self._check(event)
        # Who reads one of several types does not hear what is said in frames of another.
        apart = watermark is not None and (not events or len(self.types) > 1)
        groups = [list(group) for _, group in groupby(events, key=lambda event: event.type)]
        for group in groups:
            self._send(group, None if apart else watermark)
        if watermark is not None and apart:
            self.client.heartbeat(watermark, [self])
        elif watermark is not None:
            self.watermark = max(self.watermark, watermark)

    def heartbeat(self, watermark: int) -> None:
        """Promise to publish no event with `hi` at or before a watermark, ns."""
        self.client.heartbeat(watermark, [self])

    def close(self) -> None:
        """Say that the source is done: detectors do not wait for it any more."""
        self.client._announcing.close(self)

    def _check(self, event: Event) -> None:
        event_type = self.types.get(event.type)
        if event_type is None or event.source != self.name:
            raise EventError(
                f"not an event of the source {self.name!r}",
                given=f"{event.type} of {event.source}",
                allowed=", ".join(self.types),
            )
        event_type.check(event)
        if event.hi <= self.watermark:
            raise EventError(
                f"an event at or before the watermark of its source {self.name!r}: it would be late everywhere",
                given=event.hi,
                allowed=f"hi > {self.watermark}",
                advice="promise less, or publish sooner",
            )

    def _send(self, events: Iterable[Event], watermark: int | None) -> None:
        group = list(events)
        for start in range(0, len(group), FRAME):
            frame = group[start : start + FRAME]
            promised = watermark if start + FRAME >= len(group) else None
            payload = encode(frame, type=frame[0].type, source=self.name, watermark=promised, check=False)
            self._bus.publish(self._topics[frame[0].type], payload, qos=self.qos)
            self.published += len(frame)


def check_watermark(watermark: int) -> int:
    """Return a watermark, or raise `DistcedError` where it cannot be one."""
    if type(watermark) is not int or not INSTANT_MIN <= watermark <= INSTANT_MAX:
        raise DistcedError(
            "not a watermark", given=watermark, allowed="integer nanoseconds since the Unix epoch, in 64 bits"
        )
    return watermark
