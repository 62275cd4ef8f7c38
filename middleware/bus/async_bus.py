"""Bus on asyncio: the same connection, dispatch and timers, driven by the running event loop without a thread.

A call with `_nowait` never waits, so that handlers may call it; the coroutine of the same name waits for room or for
the server's confirmation, and may be cancelled. Coroutines as handlers were rejected: they need a task a message or a
queue. A slow handler calls `pause_reading` instead, and TCP holds back the server.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from distced.middleware.bus.asyncio_loop import AsyncioCondition, AsyncioLoop
from distced.middleware.bus.bus import BaseBus
from distced.middleware.bus.dispatch import BusState
from distced.middleware.bus.messages import Message, check_message
from distced.middleware.bus.routes import Handler
from distced.middleware.model.clock import Clock


class AsyncBus(BaseBus[AsyncioLoop, AsyncioCondition]):
    """Bus on the event loop that runs when it is started; an asynchronous context manager.

    Every method belongs to the thread of that event loop; handlers, timers and hooks are plain functions, called there.
    """

    def _driver(self, clock: Clock) -> tuple[AsyncioLoop, AsyncioCondition]:
        return AsyncioLoop(clock), AsyncioCondition()

    async def start(self, timeout: float = 10.0) -> None:
        """Connect; raises as `wait_connected` does, and goes on trying until it is stopped."""
        self.start_nowait()
        await self.wait_connected(timeout)

    async def stop(self, timeout: float = 5.0) -> None:
        """Wait up to `timeout` seconds until all messages are through, say farewell, and end; see `Bus.stop`.

        A task that is cancelled here has ended the bus without further waiting.
        """
        try:
            if self.connected:
                await self.flush(timeout)
        finally:
            self.stop_nowait()
        await self._changed.wait_for(lambda: self.state is BusState.STOPPED, timeout)

    def stop_nowait(self) -> None:
        """End after the present turn: send what the network takes at once, say farewell, give up the rest."""
        if self._dispatch.state.start():
            # It never ran; its loop is what cleans up.
            self._loop.start(self._dispatch)
        self._loop.end()

    async def __aenter__(self) -> Self:
        """Begin to connect; `wait_connected` waits for it."""
        self.start_nowait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def wait_connected(self, timeout: float = 10.0) -> None:
        """Wait up to `timeout` seconds for the connection; see `Bus.wait_connected`."""
        await self._changed.wait_for(self._dispatch.state.is_decided, timeout)
        if not self.connected:
            raise self._no_connection(timeout)

    async def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, timeout: float = 5.0
    ) -> None:
        """Publish a message, waiting up to `timeout` seconds for room; not sent where the task is cancelled meanwhile.

        Raises:
            BusError: no room in time, a message that no server takes, or a stopped bus.
        """
        message = check_message(topic, payload, qos, retain)
        outbox = self._dispatch.outbox
        deadline: float | None = None
        while not outbox.has_room():
            now = asyncio.get_running_loop().time()
            deadline = now + timeout if deadline is None else deadline
            if now >= deadline:
                break
            outbox.waiting += 1
            try:
                await self._changed.wait_for(outbox.has_room, deadline - now)
            finally:
                outbox.waiting -= 1
        self._put(message)

    def publish_nowait(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        """Publish a message, for handlers: where there is no room, what the network takes is sent first.

        Raises:
            BusError: no room then, a message that no server takes, or a stopped bus.
        """
        message = check_message(topic, payload, qos, retain)
        if self._dispatch.outbox.full:
            self._dispatch.send()
        self._put(message)

    async def flush(self, timeout: float = 5.0) -> bool:
        """Wait up to `timeout` seconds until every message is through; whether it is."""
        outbox = self._dispatch.outbox
        await self._changed.wait_for(outbox.is_through, timeout)
        return not outbox.unsettled

    async def subscribe(self, topic_filter: str, handler: Handler, *, qos: int = 0, timeout: float = 5.0) -> None:
        """Subscribe as `Bus.subscribe` does, and wait up to `timeout` seconds for the server to confirm.

        The subscription stands also where the wait is cancelled or the server does not answer: it is requested again on
        the
        next connection. `unsubscribe` ends it.

        Raises:
            BusError: a malformed filter, or a server that refuses or does not answer.
        """
        answer = asyncio.get_running_loop().create_future()
        self._subscribe(topic_filter, handler, qos, answer)
        try:
            async with asyncio.timeout(timeout):
                await answer
        except TimeoutError:
            raise self._not_confirmed(topic_filter) from self._dispatch.state.error

    def subscribe_nowait(self, topic_filter: str, handler: Handler, *, qos: int = 0) -> None:
        """Subscribe without waiting; a refusal is reported as a failure. The handler runs on the event loop."""
        self._subscribe(topic_filter, handler, qos, None)

    def pause_reading(self) -> None:
        """Read nothing from the server after the present message, so that it holds back the next ones.

        The connection is given up as silent where reading is not resumed within the seconds of `keepalive`.
        """
        self._dispatch.pause(True)

    def resume_reading(self) -> None:
        """Read messages again."""
        self._dispatch.pause(False)

    def _put(self, message: Message) -> None:
        taken = self._dispatch.outbox.put(message)
        self._loop.wake()
        if not taken:
            raise self._not_taken(message.topic)
