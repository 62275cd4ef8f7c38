"""Client on asyncio: the session of `Client` on the running event loop, without a thread.

A subscription or a source that is cancelled while it is opened is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from distced.middleware.bus.asyncio_loop import AsyncioCondition
from distced.middleware.bus.bus import AsyncBus
from distced.middleware.bus.pool import AsyncConnections
from distced.middleware.bus.subscriptions import Handler
from distced.middleware.client.client import BaseClient, OwnedSource, by_place, placed, statements_of
from distced.middleware.client.client_effects import ClientEffect, Done, Flush
from distced.middleware.client.driver import ROOM_EVERY, ROOM_WITHIN, BaseDriver
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription import QueuedSubscription
from distced.middleware.model.clock import Clock
from distced.middleware.model.clock_uncertainty import Uncertainty
from distced.middleware.model.errors import BusError, DistcedError, SubscriptionsError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.patterns.pattern import PatternFile
from distced.middleware.patterns.statements import failed
from distced.middleware.wire.administration import MissingMessages
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.outbox import Outbox

if TYPE_CHECKING:
    from distced.middleware.client.client_traces import ClientTraces

_NO_PROPERTIES: Final = nullcontext(b"")


class AsyncDriver(BaseDriver[AsyncBus]):
    """Client session on the event loop that runs when it is started. Every method belongs to its thread."""

    connections: AsyncConnections

    def __init__(
        self,
        url: str,
        home: str,
        *,
        name: str,
        clock: Clock,
        root: str,
        patience: float,
        outbox: Outbox | None = None,
        traces: ClientTraces | None = None,
        filters: bool = False,
        metered: bool = False,
    ) -> None:
        connections = AsyncConnections(url, home, **self._settings(name, clock, root, traces, metered=metered))
        super().__init__(
            connections,
            nullcontext(),
            name=name,
            clock=clock,
            root=root,
            patience=patience,
            outbox=outbox,
            traces=traces,
            filters=filters,
            metered=metered,
        )
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

    async def send_of_source(self, message: Publish, *, events: bool) -> None:
        """Publish a message of a source, waiting for room in the outbox and at the bus."""
        if events and self._outbox.full:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + ROOM_WITHIN
            while not self._has_room(late=loop.time() >= deadline):
                await asyncio.sleep(ROOM_EVERY)
        if self._outbox.log is not None:
            self.report_outbox()
        if not self._deferred(message, events=events):
            await self.send(message)

    async def send(self, message: Publish) -> None:
        """Publish, waiting for room; for events, which wait for nothing else."""
        with self._publishing(message) as properties:
            await self.connections.to(message.home).publish(
                message.topic,
                message.payload,
                qos=message.qos,
                retain=message.retain,
                timeout=ROOM_WITHIN,
                properties=properties,
            )

    # On the event loop, from the session.

    def _publish(self, message: Publish) -> None:
        bus = self.connections.to(message.home)
        with self._publishing(message) as properties:
            bus.publish_nowait(
                message.topic, message.payload, qos=message.qos, retain=message.retain, properties=properties
            )

    def _publishing(self, message: Publish) -> AbstractContextManager[bytes]:
        """Context in which a message is published; its packed properties."""
        return _NO_PROPERTIES if self._traces is None else self._traces.publishing(message)

    def _subscribe(self, topic_filter: str, qos: int, home: str) -> None:
        # A home without a usable URL is reported by `Listen`.
        with suppress(BusError):
            bus = self.connections.to(home)
            handler = self._received if bus is self._main else partial(self._heard, home)
            bus.subscribe_nowait(topic_filter, handler, qos=qos)

    def _flush(self, effect: Flush) -> None:
        task = asyncio.create_task(self._flushed(effect))
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def _flushed(self, effect: Flush) -> None:
        with suppress(BusError):
            await self.connections.to(effect.home).flush(effect.timeout / SECOND)
        self._fired(effect.number)


class AsyncClient(BaseClient[AsyncDriver, "AsyncSource"]):
    """Connection of an asyncio application to distced; an asynchronous context manager, or `start` and `stop`.

    Every method belongs to the thread of the event loop. The coroutines raise what the methods of `Client` raise.
    """

    def _lock(self) -> Any:
        return asyncio.Lock()

    def _meet(self, url: str, home: str, patience: float) -> AsyncDriver:
        return AsyncDriver(
            url,
            home,
            name=self.name,
            clock=self.clock,
            root=self.root,
            patience=patience,
            outbox=self._outbox,
            traces=self._traces,
            filters=self._filters,
            metered=self._metered,
        )

    async def start(self, timeout: float = 10.0) -> Self:
        """Connect and read the directory; see `Client.start`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self._open_outbox()
        try:
            await self._driver.start(timeout)
            with self._directed():
                following = self._following()
                if following is not None:
                    await self._driver.stop()
                    self._driver = following
                    await following.start(max(deadline - loop.time(), 0.0))
            if self.home:
                error = await self._driver.connections.wait(self.home, max(deadline - loop.time(), 0.0))
                if error is not None:
                    raise error
        except BaseException:
            # A cancelled start leaves no connection behind either.
            if self._driver.connections.main.connected:
                await self._driver.stop(1.0)
            else:
                await self._driver.give_up(1.0)
            self._close_outbox()
            if self._traces is not None:
                await asyncio.to_thread(self._close_traces)
            raise
        return self

    async def stop(self) -> None:
        """Unsubscribe, announce the end of every source, and disconnect."""
        for subscription in list(self._driver.subscriptions.values()):
            subscription.leave()
        try:
            await self._driver.stop()
        finally:
            self._close_outbox()
            if self._traces is not None:
                await asyncio.to_thread(self._close_traces)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def flush(self, timeout: float = 5.0) -> bool:
        """Wait until the servers have taken every message; see `Client.flush`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        outbox = self._session.sources.outbox
        while outbox.waits and loop.time() < deadline:
            await asyncio.sleep(ROOM_EVERY)
        taken = await self._driver.connections.flush(max(deadline - loop.time(), 0.0))
        return taken and not outbox.waits

    async def wait_for_nodes(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait for n broker nodes, up to a timeout in seconds."""
        await self._driver.run(partial(self._session.wait_for_nodes, count, round(timeout * SECOND)))

    async def read_detectors(self) -> dict[str, DetectorEntry]:
        """Detectors, by id; their entries are read from the first call on."""
        await self._driver.run(self._session.read_detectors)
        return dict(self._session.entries.detectors)

    # Types and events.

    async def register(self, *types: EventType, awaited: Container[str] = ()) -> None:
        """Register event types; see `Client.register`."""
        for event_type in types:
            await self._driver.run(partial(self._register, event_type, awaited=awaited))

    async def unregister(self, name: str) -> None:
        """Remove an event type from the directory."""
        await self._driver.run(partial(self._session.unregister, name))

    async def source(
        self,
        name: str,
        types: Iterable[str],
        *,
        watermark: int | None = None,
        lease: int = 0,
        qos: int = 1,
        uncertainty: Uncertainty = 0,
    ) -> AsyncSource:
        """Open a source of events; see `Client.source`. One that is cancelled is closed."""
        (made,) = await self.sources(
            {name: tuple(types)}, watermark=watermark, lease=lease, qos=qos, uncertainty=uncertainty
        )
        return made

    async def sources(
        self,
        named: Mapping[str, Iterable[str]],
        *,
        watermark: int | None = None,
        lease: int = 0,
        qos: int = 1,
        uncertainty: Uncertainty = 0,
    ) -> list[AsyncSource]:
        """Open several sources at once; see `Client.sources`."""
        async with self._publishing:
            made = self._described(partial(AsyncSource, self), named, watermark, lease, qos, uncertainty)
        opened = self._driver.begin(partial(self._session.open_sources, made, lease))
        try:
            await asyncio.shield(opened)
        except asyncio.CancelledError:
            # They can be closed when all nodes have acknowledged them.
            opened.add_done_callback(partial(self._abandon, made))
            raise
        self._sources.update((source.name, source) for source in made)
        return made

    def _abandon(self, sources: list[AsyncSource], opened: asyncio.Future[None]) -> None:
        if not opened.cancelled() and opened.exception() is None:
            names = [each.name for each in sources]
            self._driver.post(lambda: self._session.sources.close(names, list))

    async def publish(self, source: AsyncSource, *events: Event, watermark: int | None = None) -> None:
        """Publish events of a source, waiting for room where too many messages wait; see `Source.publish`."""
        async with self._publishing:
            for frame, message in source.messages(events, watermark, self.clock.now()):
                await self._driver.send_of_source(message, events=bool(frame))

    async def heartbeat(self, watermark: int, sources: Iterable[AsyncSource] | None = None) -> None:
        """Promise for sources, all of this client's where left out, no event with `hi` at or before a watermark, ns."""
        async with self._publishing:
            await self._driver.send_of_source(self._heartbeat(watermark, sources), events=False)

    async def fence(self, source: str) -> None:
        """Have detectors go on without a source; see `Client.fence`."""
        await self._driver.do(partial(self._session.fence, source))

    # Subscriptions.

    async def subscribe(
        self,
        pattern: object,
        *,
        quality: QualityOfService | None = None,
        definitions: Mapping[str, str] | None = None,
        language: str = "",
        query: str = "",
    ) -> AsyncSubscription:
        """Subscribe to a pattern or a type, for `async for`; see `Client.subscribe`. One that is cancelled is ended."""
        subscription = AsyncSubscription(self, *self._requested(pattern, quality))
        subscription.language, subscription.query = language, query
        self._driver.subscriptions[subscription.id] = subscription
        try:
            await self._driver.run(partial(self._session.subscribe, subscription, definitions or {}))
        except DistcedError:
            self._driver.subscriptions.pop(subscription.id, None)
            raise
        except asyncio.CancelledError:
            subscription.end()
            self._drop(subscription)
            raise
        if subscription.ended:
            # The first match came before the subscription was complete.
            await self.unsubscribe(subscription)
        return subscription

    async def subscribe_many(
        self,
        patterns: Iterable[object],
        *,
        quality: QualityOfService | None = None,
        definitions: Mapping[str, str] | None = None,
        language: str = "",
    ) -> list[AsyncSubscription]:
        """Subscribe to many patterns at once; see `Client.subscribe_many`. Where cancelled, all are ended."""
        made = [AsyncSubscription(self, *each) for each in self._requested_many(patterns, quality)]
        for each in made:
            each.language = language
        self._driver.subscriptions.update((each.id, each) for each in made)
        errors: dict[str, DistcedError] = {}
        try:
            await self._driver.run(partial(self._session.subscribe_many, made, definitions or {}, errors))
        except DistcedError:
            self._give_up(made)
            raise
        except asyncio.CancelledError:
            for each in made:
                each.end()
            names = self._forget(made)
            self._driver.post(lambda: self._session.unsubscribe_many(names, None))
            raise
        standing = self._standing(made, errors)
        await self.unsubscribe_many([each for each in standing if each.ended])
        if errors:
            raise SubscriptionsError(standing, by_place(made, errors))
        return made

    async def subscribe_file(
        self, file: str | Path | PatternFile, *, quality: QualityOfService | None = None
    ) -> list[AsyncSubscription]:
        """Subscribe to all patterns of a pattern file, or none; see `Client.subscribe_file`. Where cancelled, none."""
        statements = statements_of(file)
        made = [AsyncSubscription(self, *each) for each in self._texts(statements, quality)]
        self._driver.subscriptions.update((each.id, each) for each in made)
        registered: list[str] = []
        try:
            for event_type in self._derived_types(statements):
                with placed(statements, event_type.name):
                    await self.register(event_type, awaited=statements.published)
                registered.append(event_type.name)
            for group in statements.in_groups():
                errors: dict[str, DistcedError] = {}
                states = [made[place] for place in group]
                await self._driver.run(partial(self._session.subscribe_many, states, statements.texts, errors))
                if errors:
                    raise failed(statements, by_place(made, errors))
        except DistcedError:
            await self.unsubscribe_many(made)
            for name in reversed(registered):
                with suppress(DistcedError):
                    await self.unregister(name)
            raise
        except asyncio.CancelledError:
            for each in made:
                each.end()
            names = self._forget(made)
            self._driver.post(lambda: self._session.unsubscribe_many(names, None))
            raise
        await self.unsubscribe_many([each for each in made if each.ended])
        return made

    async def unsubscribe(self, subscription: AsyncSubscription, *, forget: bool = False) -> None:
        """End a subscription; iterations over it end when the events received are read. One that is durable stays, for
        the next application of its name, unless nodes are to `forget` it."""
        await self.unsubscribe_many([subscription], forget=forget)

    async def unsubscribe_many(self, subscriptions: Iterable[AsyncSubscription], *, forget: bool = False) -> None:
        """End subscriptions; iterations over them end when the events received are read."""
        ended = list(subscriptions)
        for each in ended:
            each.leave()
        names = self._forget(ended)
        if names:
            await self._driver.run(partial(self._session.unsubscribe_many, names, forget=forget))

    async def forget(self, durable: str) -> None:
        """End a durable subscription for good, by its name; see `Client.forget`."""
        await self._driver.do(lambda: self._session.subscriptions.forget(durable))


class AsyncSource(OwnedSource[AsyncClient]):
    """Source of an asyncio client; its `create` makes the next event, see `Source`."""

    async def publish(self, *events: Event, watermark: int | None = None) -> None:
        """Publish events of this source, in this order; see `Source.publish`."""
        await self.client.publish(self, *events, watermark=watermark)

    async def heartbeat(self, watermark: int) -> None:
        """Promise to publish no event with `hi` at or before a watermark, ns."""
        await self.client.heartbeat(watermark, [self])

    async def close(self) -> None:
        """Announce the end of the source: detectors do not wait for it any more."""
        await self.client._driver.run(partial(self.client._session.close_source, self.name))
        self.client._sources.pop(self.name, None)


class AsyncSubscription(QueuedSubscription):
    """Events of a pattern or a type, for `async for`. An iteration ends when the subscription does.

    It has the attributes of `SubscriptionState`.
    """

    __slots__ = ("_change", "client")

    def __init__(self, client: AsyncClient, identity: str, pattern: str, quality: QualityOfService) -> None:
        super().__init__(identity, pattern, quality)
        self.client = client
        self._change = AsyncioCondition()

    async def get(self, timeout: float | None = None) -> Event | None:
        """Next event; None after `timeout` seconds without one, or where the subscription has ended.

        Raises:
            SubscriptionError: the subscription was ended by others, and every event received is read.
        """
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        event: Event | None = None
        self._confirm()
        while event is None:
            left = None if deadline is None else max(deadline - asyncio.get_running_loop().time(), 0.0)
            await self._change.wait_for(lambda: bool(self._waiting) or self.ended, left)
            waited = bool(self._waiting)
            event = self._take()
            if not waited:
                break
        return event

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self.get()) is not None:
            yield event

    async def wait_watermark(self, watermark: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds until everything up to a watermark, ns, has come; whether it has."""
        statistics = self.statistics
        return await self._change.wait_for(
            lambda: statistics.watermark is not None and statistics.watermark >= watermark, timeout
        )

    def end(self) -> None:
        self.ended = True
        self._change.notify_all()

    def acknowledge(self) -> None:
        """Count the events of a durable subscription that the application has got as taken; see
        `Subscription.acknowledge`."""
        self._confirm()

    # On the loop of a bus.

    def handler(self, bus: AsyncBus, home: str) -> Handler:
        return partial(self._receive, home)

    def _receive(self, home: str, topic: str, payload: bytes, retain: bool) -> None:
        self.take(lambda now: self.arrived(topic, payload, now, home), home)

    def take(self, decide: Callable[[int], Iterable[Event | Loss]], home: str) -> None:
        now = self.client.clock.now()
        for item in decide(now):
            self._put(item, now)
            if self.ended:
                self.end()
                self.client._drop(self)
        self._mark()
        self._change.notify_all()
        if not self._asking and not self.complete:
            self._asking = True
            self.client._request_missing(self)

    def due(self, now: int) -> dict[str, list[MissingMessages]] | None:
        return self._due(now)

    def progressed(self, watermark: int) -> None:
        super().progressed(watermark)
        self._change.notify_all()
