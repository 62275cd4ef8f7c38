"""The asyncio face of the client: the same client, with its waiting done elsewhere.

Connections are made and broker nodes are waited for on threads of the event loop's executor; events come over from the
thread of the bus. A second client on asyncio's own sockets was rejected: it would be a second core to keep right.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Self

from middleware.client import Client
from middleware.clock import Clock
from middleware.events import Event
from middleware.eventtypes import EventType
from middleware.quality import QualityOfService
from middleware.source import Source
from middleware.subscription import Subscription
from middleware.topics import ROOT


class AsyncClient:
    """A connection of an asyncio application to distced; an asynchronous context manager.

    Attributes:
        client: the client underneath.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        clock: Clock | None = None,
        root: str = ROOT,
        patience: float = 5.0,
    ) -> None:
        self.client = Client(url, name=name, clock=clock, root=root, patience=patience)

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
        loop = asyncio.get_running_loop()
        made = AsyncSubscription(loop)
        subscribe: Callable[[], Subscription] = lambda: self.client.subscribe(  # noqa: E731
            pattern, made._arrived, quality=quality, definitions=definitions
        )
        made.subscription = await asyncio.to_thread(subscribe)
        return made

    async def unsubscribe(self, subscription: AsyncSubscription) -> None:
        """End a subscription."""
        await asyncio.to_thread(self.client.unsubscribe, subscription.subscription)
        subscription._queue.put_nowait(None)


class AsyncSubscription:
    """Events of a pattern or a type, for `async for`.

    Attributes:
        subscription: the subscription underneath, with its statistics.
    """

    subscription: Subscription

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(1_000)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while (event := await self._queue.get()) is not None:
            yield event

    def _arrived(self, event: Event) -> None:
        # On the subscription's thread: waits while the loop is behind, so that the queue stays bounded.
        asyncio.run_coroutine_threadsafe(self._queue.put(event), self._loop).result()
