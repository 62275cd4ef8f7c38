"""Source of events: the handle that an application on threads publishes through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from distced.middleware.client.source_session import SourceState
from distced.middleware.model.clock import Clock
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.wire.mqtt_effects import Publish


class SourceOwner(Protocol):
    """The client of a source, on threads or on asyncio, as far as the source needs it."""

    @property
    def name(self) -> str: ...

    @property
    def root(self) -> str: ...

    @property
    def home(self) -> str: ...

    @property
    def clock(self) -> Clock: ...


class PublishingClient(SourceOwner, Protocol):
    """The client of a source on threads."""

    def heartbeat(self, watermark: int, sources: Iterable[Source] | None = None) -> None: ...

    def _send(self, message: Publish) -> None: ...

    def _close(self, source: Source) -> None: ...


class OwnedSource(SourceState):
    """A source of a client, on threads or on asyncio."""

    def __init__(
        self, client: SourceOwner, name: str, types: Mapping[str, EventType], watermark: int, qos: int
    ) -> None:
        now = client.clock.now()
        super().__init__(client.name, name, types, watermark, qos, now, home=client.home, root=client.root)


class Source(OwnedSource):
    """Publishes events of some types under one name, to the server of the client's site.

    It has the attributes of `SourceState` and its `create`, which makes the source's next event.

    Attributes:
        client: the client that it belongs to.
    """

    def __init__(
        self, client: PublishingClient, name: str, types: Mapping[str, EventType], watermark: int, qos: int
    ) -> None:
        super().__init__(client, name, types, watermark, qos)
        self.client = client

    def publish(self, *events: Event, watermark: int | None = None) -> None:
        """Publish events of this source, in this order, several of one type in one frame.

        Args:
            watermark: a promise to publish no further event with `hi` at or before it, ns.

        Raises:
            EventError: for an event that is none of the source's types, or that breaks an earlier promise; none is
                published then.
            BusError: where too many messages wait already.
        """
        for _, message in self.messages(events, watermark):
            self.client._send(message)

    def heartbeat(self, watermark: int) -> None:
        """Promise to publish no event with `hi` at or before a watermark, ns."""
        self.client.heartbeat(watermark, [self])

    def close(self) -> None:
        """Say that the source is done: detectors do not wait for it any more."""
        self.client._close(self)
