"""Driver of a client session on asyncio: everything on the event loop, the waiting in the tasks of the application."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress

from distced.middleware.bus.async_bus import AsyncBus
from distced.middleware.bus.pool import AsyncConnections
from distced.middleware.client.client_effects import ClientEffect, Done, Flush
from distced.middleware.client.driver import ROOM_WITHIN, BaseDriver
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import BusError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.mqtt_effects import Publish


class AsyncDriver(BaseDriver[AsyncBus]):
    """Client session on the event loop that runs when it is started. Every method belongs to its thread."""

    connections: AsyncConnections

    def __init__(self, url: str, home: str, *, name: str, clock: Clock, root: str, patience: float) -> None:
        connections = AsyncConnections(url, home, **self._settings(name, clock, root))
        super().__init__(connections, nullcontext(), name=name, clock=clock, root=root, patience=patience)
        # Number of subscriptions that hold each bus back; those with none are read.
        self._paused: Counter[AsyncBus] = Counter()
        self._flushes: set[asyncio.Task[None]] = set()

    async def start(self, timeout: float) -> None:
        """Connect and read the directory; raises `BusError` after a timeout, seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self._begin()
        self._main.start_nowait()
        self._running = True
        await self._main.wait_connected(timeout)
        left = round(max(deadline - loop.time(), 0.0) * SECOND)
        await self.run(lambda operation: self.session.wait_known(left, operation))

    async def stop(self, timeout: float = 5.0) -> None:
        """End the session, then the connections; what is waited for fails."""
        try:
            if self._running:
                with suppress(BusError):
                    await self.run(self.session.stop)
        finally:
            await self.give_up(timeout)

    async def give_up(self, timeout: float) -> None:
        """End the connections."""
        self._running = False
        try:
            await self.connections.stop(timeout)
        finally:
            for each in self._flushes:
                each.cancel()
            self._give_up()

    def begin(self, begin: Callable[[asyncio.Future[None]], list[ClientEffect]]) -> asyncio.Future[None]:
        """Begin an operation of the application; the future is done when it is complete."""
        if not self._running:
            raise self._not_running()
        operation: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._operations.add(operation)
        self._run(begin, operation)
        return operation

    async def run(self, begin: Callable[[asyncio.Future[None]], list[ClientEffect]]) -> None:
        """Run an operation of the application; raises its error. A cancelled wait does not take it back."""
        await self.begin(begin)

    async def do(self, decide: Callable[[], list[ClientEffect]]) -> None:
        """Decide on effects and carry them out."""
        await self.run(lambda operation: [*decide(), Done(operation)])

    async def send(self, message: Publish) -> None:
        """Publish, waiting for room; for events, which wait for nothing else."""
        await self.connections.to(message.home).publish(
            message.topic, message.payload, qos=message.qos, retain=message.retain, timeout=ROOM_WITHIN
        )

    def pause(self, bus: AsyncBus) -> None:
        """Read nothing from a bus until as many `resume`."""
        self._paused[bus] += 1
        bus.pause_reading()

    def resume(self, bus: AsyncBus) -> None:
        """Take one `pause` back."""
        self._paused[bus] -= 1
        if not self._paused[bus]:
            bus.resume_reading()

    # On the event loop, from the session.

    def _publish(self, message: Publish) -> None:
        bus = self.connections.to(message.home)
        bus.publish_nowait(message.topic, message.payload, qos=message.qos, retain=message.retain)

    def _subscribe(self, topic_filter: str, qos: int) -> None:
        self._main.subscribe_nowait(topic_filter, self._received, qos=qos)

    def _flush(self, effect: Flush) -> None:
        task = asyncio.create_task(self._flushed(effect))
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _flushed(self, effect: Flush) -> None:
        with suppress(BusError):
            await self.connections.to(effect.home).flush(effect.timeout / SECOND)
        self._fired(effect.number)
