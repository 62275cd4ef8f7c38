"""The asyncio face of the client: the same client, with its waiting done elsewhere.

Connections are made and broker nodes are waited for on threads of the event loop's executor; the thread of the bus
wakes the loop when there is something to take. While the application is slow, events wait in the subscription's queue
and beyond it at the server. A second client on asyncio's own sockets was rejected: it would be a second core to keep
right.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Self

from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.source import Source
from distced.middleware.client.subscription import Subscription
from distced.middleware.model.clock import Clock
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.wire.topics import ROOT


class AsyncClient:
    """A connection of an asyncio application to distced; an asynchronous context manager.

    Attributes:
        client: the client underneath.
    """

    def __init__(
        self,
        url: str,
        *,
        home: str | None = None,
        name: str | None = None,
        clock: Clock | None = None,
        root: str = ROOT,
        patience: float = 5.0,
    ) -> None:
        """Describe a client; the arguments are those of `Client`."""
        self.client = Client(url, home=home, name=name, clock=clock, root=root, patience=patience)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.client.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.client.stop)

    async def register(self, *types: EventType) -> None:
        """Make event types known to everybody."""
        await asyncio.to_thread(self.client.register, *types)

    async def unregister(self, name: str) -> None:
        """Forget an event type."""
        await asyncio.to_thread(self.client.unregister, name)

    async def source(self, name: str, types: Iterable[str], *, watermark: int | None = None, lease: int = 0) -> Source:
        """Become a source of events; see `Client.source`."""
        return await asyncio.to_thread(self.client.source, name, types, watermark=watermark, lease=lease)

    async def publish(self, source: Source, *events: Event, watermark: int | None = None) -> None:
        """Publish events of a source, waiting for room where too many messages wait."""
        await asyncio.to_thread(source.publish, *events, watermark=watermark)

    async def subscribe(
        self,
        pattern: object,
        *,
        quality: QualityOfService | None = None,
        definitions: Mapping[str, str] | None = None,
    ) -> AsyncSubscription:
        """Subscribe to a pattern or a type; iterate over what is returned with `async for`."""
        subscribe = partial(self.client.subscribe, pattern, quality=quality, definitions=definitions)
        made = asyncio.create_task(asyncio.to_thread(subscribe))
        try:
            return AsyncSubscription(await asyncio.shield(made), asyncio.get_running_loop())
        except asyncio.CancelledError:
            # The thread cannot be cancelled: what it brings nobody waits for any more.
            made.add_done_callback(self._abandon)
            raise

    def _abandon(self, made: asyncio.Task[Subscription]) -> None:
        if not made.cancelled() and made.exception() is None:
            self.client.unsubscribe(made.result())

    async def unsubscribe(self, subscription: AsyncSubscription) -> None:
        """End a subscription; iterations over it end when what has come is read."""
        await asyncio.to_thread(self.client.unsubscribe, subscription.subscription)


class AsyncSubscription:
    """Events of a pattern or a type, for `async for`. An iteration ends when the subscription does.

    Attributes:
        subscription: the subscription underneath, with its statistics. Its queue is what bounds how far the application
            may be behind.
    """

    def __init__(self, subscription: Subscription, loop: asyncio.AbstractEventLoop) -> None:
        self.subscription = subscription
        self._loop = loop
        self._changed = asyncio.Event()
        subscription.on_change = self._wake

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while True:
            self._changed.clear()
            ended = self.subscription.ended
            event = self.subscription.get(0)
            if event is not None:
                yield event
            elif ended:
                return
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        # On any thread; the loop may be over already.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._changed.set)
