"""Application as its author writes it under `mypy --strict`; `make types` checks it and nothing runs it."""

from __future__ import annotations

from functools import partial
from queue import Queue

from distced import AsyncClient, Client, CompositeEvent, Event, Subscription, event_type

PATTERN = "[Badge as a] ; [Badge as b] within 10min -> Met(one = a.person)"


class Office:
    """Application with callbacks of all kinds."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.met: list[CompositeEvent] = []
        self.seen: Queue[Event] = Queue()

    def subscribe(self) -> list[Subscription]:
        """Subscribe to composite events and to events."""
        self.client.register(event_type("Badge", {"person": "string"}))
        return [
            self.client.subscribe(PATTERN, self.on_meeting),
            self.client.subscribe(PATTERN, self.on_event),
            self.client.subscribe(PATTERN, self.met.append),
            self.client.subscribe("Badge", callback=self.seen.put),
            self.client.subscribe("Badge", print),
            self.client.subscribe(PATTERN, lambda met: self.on_meeting(met)),
            self.client.subscribe(PATTERN, partial(self.on_badge, "hall")),
            *self.client.subscribe_many([PATTERN, "Badge"], self.on_any),
            *self.client.subscribe_many([PATTERN], self.on_any_meeting),
            *self.client.subscribe_file("office.pattern", self.on_any_meeting),
        ]

    def on_meeting(self, met: CompositeEvent) -> None:
        """Take a composite event."""
        print(met.attributes["one"], met.constituents, [each.type for each in met.events])

    def on_event(self, event: Event) -> int:
        """Take an event; what is returned does not matter."""
        return event.hi

    def on_badge(self, room: str, badge: Event) -> None:
        """Take an event for a room."""

    def on_any(self, subscription: Subscription, event: Event) -> None:
        """Take an event of one of several subscriptions."""

    def on_any_meeting(self, subscription: Subscription, met: CompositeEvent) -> None:
        """Take a composite event of one of several subscriptions."""


async def meetings(client: AsyncClient) -> list[tuple[str, int]]:
    """First meeting, and its constituents."""
    async with client:
        subscription = await client.subscribe(PATTERN)
        async for event in subscription:
            if isinstance(event, CompositeEvent):
                return list(event.constituents)
    return []
