"""Driver of a client session: its effects over buses; on threads here, on asyncio in `aio`.

Session and effects run on the loop of the bus to the server of the directory, one after another, in the order of the
decisions; calls from elsewhere are posted to it. On threads the application waits on its own for its operations, and
the lock is for readers of the session there. Deciding on the calling threads under the lock was rejected: a publish
that waits for room at the bus would hold the lock that the bus needs to make room.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from distced.middleware.bus import Bus, BusState, Message
from distced.middleware.bus.bus import AsyncBus
from distced.middleware.bus.logger import get_logger
from distced.middleware.bus.loop import Timer
from distced.middleware.bus.pool import BaseConnections, Connections
from distced.middleware.bus.subscriptions import Handler
from distced.middleware.client.client_effects import (
    ClientEffect,
    DetectorEnded,
    Done,
    Ended,
    Flush,
    Leave,
    LeftHome,
    Listen,
    NotAvailable,
    Redelivered,
    SetTimer,
    Waits,
)
from distced.middleware.client.session import ClientSession
from distced.middleware.client.subscription import QueuedSubscription
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import METERED_EVERY
from distced.middleware.wire.mqtt_effects import Note, Publish, Subscribe
from distced.middleware.wire.outbox import Outbox
from distced.middleware.wire.topics import directory_topic

if TYPE_CHECKING:
    from distced.middleware.client.client_traces import ClientTraces

B = TypeVar("B", Bus, AsyncBus)
Operation: TypeAlias = Future[None] | asyncio.Future[None]

ROOM_WITHIN: Final = 5.0  # time for which a message waits for room at the bus, s
ROOM_EVERY: Final = 0.02  # time between attempts, s
_FEW: Final = 64  # timers that are kept without a look at which are cancelled
_log = get_logger("distced.client")


class BaseDriver(ABC, Generic[B]):
    """Client session over buses of one kind, without the waiting.

    Attributes:
        session: on threads, read under `lock`.
        connections: the buses.
        subscriptions: handles that messages and ends go to, by id.
    """

    def __init__(
        self,
        connections: BaseConnections[B, Any],
        lock: AbstractContextManager[object],
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
        """Driver over connections made with `_settings`, not started; patience of nodes and servers in seconds."""
        self._traces = traces
        self._main: B = connections.main
        self.connections: BaseConnections[B, Any] = connections
        self.session = ClientSession(
            name,
            home=connections.home,
            root=root,
            server=str(self._main.address),
            patience=round(patience * SECOND),
            outbox=outbox,
            filters=filters,
            metered=metered,
        )
        self._sources = self.session.sources
        self._outbox = self._sources.outbox
        self.lock = lock
        self.subscriptions: dict[str, QueuedSubscription] = {}
        self._clock = clock
        # Effects not carried out yet, with the operation that they belong to. For the loop of the main bus.
        self._effects: deque[tuple[ClientEffect, Operation | None]] = deque()
        self._carrying = False
        self._stuck_since: float | None = None
        # The handlers behind each `Listen`, by its subscription, home and filter.
        self._routes: dict[tuple[str, str, str], Handler] = {}
        self._operations: set[Operation] = set()
        # Timers of the session by number, and how many there are when the cancelled ones are removed.
        self._timers: dict[int, Timer] = {}
        self._most_timers = _FEW
        self._running = False

    def _settings(
        self, name: str, clock: Clock, root: str, traces: ClientTraces | None, *, metered: bool
    ) -> dict[str, Any]:
        will = Message(directory_topic("client", name, root=root), b"", 1, True)
        settings = {
            "client_id": f"distced-{name}",
            "clock": clock,
            "will": will,
            "on_state": self._state_changed,
            "reads_properties": traces is not None,
        }
        return {**settings, "keepalive": METERED_EVERY // SECOND} if metered else settings

    @abstractmethod
    def _publish(self, message: Publish) -> None:
        """Publish without waiting; `BusError` where there is no room."""

    @abstractmethod
    def _subscribe(self, topic_filter: str, qos: int, home: str) -> None:
        """Have messages of a home's server handed to the session, without waiting."""

    @abstractmethod
    def _flush(self, effect: Flush) -> None:
        """Wait in the background, then call `_fired`."""

    def _notify(self, handle: QueuedSubscription, reason: str) -> None:
        """Notify the application of the reason of a suspension, without waiting for it."""
        handle.notify_waiting(reason)

    def _has_room(self, *, late: bool) -> bool:
        """Whether the outbox has room for a message; `BusError` where it has none, and it is too late to wait."""
        with self.lock:
            found = self._sources.full()
        if isinstance(found, BusError):
            if late:
                raise found
            return False
        for each in found:
            self._carry(each)
        return True

    def _deferred(self, message: Publish, *, events: bool) -> bool:
        """Whether the outbox has taken a message, as the server is away."""
        if not self._outbox.queues:
            return False
        with self.lock:
            return self._sources.defer(message, events=events)

    def report_outbox(self) -> None:
        """Log what has happened to the folder of the outbox."""
        log = self._outbox.log
        while log is not None and log.notes:
            self._carry(log.notes.pop(0))

    def post(self, decide: Callable[[], list[ClientEffect]]) -> None:
        """Decide on effects and carry them out, without waiting."""
        self._main.call_soon(lambda: self._take(decide))

    def _begin(self) -> None:
        for effect in self.session.begin():
            self._carry(effect)

    def _run(self, begin: Callable[[Any], list[ClientEffect]], operation: Operation) -> None:
        """Begin an operation of the application; `Done` completes it."""
        self._main.call_soon(lambda: self._take(lambda: begin(operation), operation))

    def _give_up(self) -> None:
        """Fail the operations that nothing completes any more."""
        for each in list(self._operations):
            self._done(each, self._not_running())

    def _not_running(self) -> BusError:
        return BusError("the client is not running", given=self.session.name, advice="start it, once")

    # On the loop of the main bus.

    def _take(self, decide: Callable[[], list[ClientEffect]], operation: Operation | None = None) -> None:
        try:
            with self.lock:
                effects = decide()
        except DistcedError as error:
            if operation is None:
                raise
            self._done(operation, error)
            return
        self._effects.extend((each, operation) for each in effects)
        self._carry_out()

    def _carry_out(self) -> None:
        """Carry out effects in their order; where a bus has no room, again in a while."""
        if self._carrying:
            return
        self._carrying = True
        try:
            while self._effects:
                effect, operation = self._effects.popleft()
                try:
                    self._carry(effect)
                except BusError as error:
                    if self._waits_for_room():
                        self._effects.appendleft((effect, operation))
                        self._main.call_later(ROOM_EVERY, self._carry_out)
                        return
                    if operation is None:
                        _log.warning("message dropped", reason=str(error))
                    else:
                        self._done(operation, error)
                except Exception:
                    # Of a hook of the application: nothing else may suffer from it.
                    _log.exception("effect failed", effect=type(effect).__name__)
                self._stuck_since = None
        finally:
            self._carrying = False

    def _waits_for_room(self) -> bool:
        now = time.monotonic()
        if self._stuck_since is None:
            self._stuck_since = now
        return self._running and now - self._stuck_since < ROOM_WITHIN

    def _carry(self, effect: ClientEffect) -> None:
        match effect:
            case Publish():
                self._publish(effect)
            case Subscribe(topic_filter=topic_filter, qos=qos, home=home):
                self._subscribe(topic_filter, qos, home)
            case Listen():
                self._listen(effect)
            case Leave(subscription=identity, home=home, topic_filter=topic_filter):
                route = self._routes.pop((identity, home, topic_filter), None)
                if route is not None:
                    self.connections.to(home).unsubscribe(topic_filter, route)
            case SetTimer(delay=delay, number=number):
                self._set(number, delay)
            case Flush():
                self._flush(effect)
            case Done(operation=operation, error=error):
                self._done(operation, error)
            case Ended(subscription=identity, error=error):
                handle = self.subscriptions.pop(identity, None)
                if handle is not None:
                    handle.fail(error)
            case Waits(subscription=identity, reason=reason):
                handle = self.subscriptions.get(identity)
                if handle is not None:
                    self._notify(handle, reason)
            case Redelivered(subscription=identity, home=home, topic=topic, payload=payload):
                handle = self.subscriptions.get(identity)
                if handle is not None:
                    handle.take(lambda now: handle.arrived(topic, payload, now, home), home)
            case NotAvailable(subscription=identity, home=home, lost=lost):
                handle = self.subscriptions.get(identity)
                if handle is not None:
                    handle.take(lambda now: handle.unavailable(home, lost, now), home)
            case LeftHome(subscription=identity, home=home):
                handle = self.subscriptions.get(identity)
                if handle is not None:
                    handle.take(lambda now: handle.left(home, now), home)
            case DetectorEnded(subscription=identity, detector=detector):
                handle = self.subscriptions.get(identity)
                if handle is not None:
                    handle.take(lambda now: handle.unfollow(detector, now), "")
            case Note(level=level, event=event, fields=fields):
                getattr(_log, level)(event, **fields)

    def _listen(self, effect: Listen) -> None:
        handle, number = self.subscriptions.get(effect.subscription), effect.number
        if handle is None:
            return
        try:
            bus = self.connections.to(effect.home)
        except BusError as error:
            reason = error
            self._take(lambda: self.session.refused(number, reason, kept=False))
            return

        def answered(refusal: BusError | None) -> None:
            if refusal is None:
                self.post(lambda: self.session.confirmed(number))
            else:
                self.post(lambda: self.session.refused(number, refusal, kept=True))

        handler = handle.handler(bus, effect.home)
        if self._traces is not None:
            handler = self._traces.delivering(handler, bus, effect.subscription)
        self._routes[effect.subscription, effect.home, effect.topic_filter] = handler
        bus.listen(effect.topic_filter, handler, answered, qos=1)

    def _set(self, number: int, delay: int) -> None:
        self._timers[number] = self._main.call_later(delay / SECOND, partial(self._fired, number))
        if len(self._timers) > self._most_timers:
            for each in [each for each in self._timers if not self.session.waits(each)]:
                self._timers.pop(each).cancel()
            self._most_timers = 2 * len(self._timers) + _FEW

    def _received(self, topic: str, payload: bytes, retain: bool) -> None:
        self._take(lambda: self.session.receive(topic, payload, self._clock.now()))

    def _heard(self, home: str, topic: str, payload: bytes, retain: bool) -> None:
        """Take a message from the server of another home than that of the directory, on the loop of its bus."""
        self.post(lambda: self.session.receive(topic, payload, self._clock.now(), home))

    def _fired(self, number: int) -> None:
        self._timers.pop(number, None)
        self._take(lambda: self.session.fired(number, self._clock.now()))

    def _done(self, operation: Operation, error: DistcedError | None) -> None:
        self._operations.discard(operation)
        # It may have been cancelled, or given up on another thread.
        with suppress(InvalidStateError, asyncio.InvalidStateError):
            if error is None:
                operation.set_result(None)
            else:
                operation.set_exception(error)

    # On the loop of any bus.

    def _state_changed(self, home: str, state: BusState, error: BusError | None) -> None:
        if state is BusState.CONNECTED:
            if self._traces is not None:
                self._traces.connected(home, self.connections.to(home))
            self.post(lambda: self.session.connected(home, self._clock.now()))
        elif state is BusState.WAITING:
            reason = error or BusError("no connection", where=home)
            self.post(lambda: self.session.lost(home, reason))


class ClientDriver(BaseDriver[Bus]):
    """Client session on threads."""

    connections: Connections

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
        connections = Connections(url, home, **self._settings(name, clock, root, traces, metered=metered))
        super().__init__(
            connections,
            threading.Lock(),
            name=name,
            clock=clock,
            root=root,
            patience=patience,
            outbox=outbox,
            traces=traces,
            filters=filters,
            metered=metered,
        )
        # The thread of the main bus, once it has run.
        self._thread: int | None = None
        # Notifications of the application, for a thread that is started with the first one, and ends with None.
        self._notifications: SimpleQueue[tuple[QueuedSubscription, str] | None] | None = None

    def start(self, timeout: float) -> None:
        """Connect and read the directory; raises `BusError` after a timeout, seconds."""
        deadline = time.monotonic() + timeout
        self._begin()
        self._main.start()
        self._running = True
        self._main.wait_connected(timeout)
        left = round(max(deadline - time.monotonic(), 0.0) * SECOND)
        self.run(lambda operation: self.session.wait_known(left, operation))

    def stop(self, timeout: float = 5.0) -> None:
        """End the session, then the connections; what is waited for fails."""
        if self._running:
            with suppress(BusError):
                self.run(self.session.stop)
        self.give_up(timeout)

    def give_up(self, timeout: float) -> None:
        """End the connections."""
        self._running = False
        self.connections.stop(timeout)
        self._give_up()
        if self._notifications is not None:
            self._notifications.put(None)

    def run(self, begin: Callable[[Future[None]], list[ClientEffect]]) -> None:
        """Run an operation of the application; raises its error. Not on the thread of a bus."""
        if threading.get_ident() == self._thread:
            raise DistcedError("a call that waits, on the thread of the bus", advice="make it on another thread")
        operation: Future[None] = Future()
        self._operations.add(operation)
        # Looked at behind that: from here on `give_up` completes it.
        if not self._running:
            raise self._not_running()
        self._run(begin, operation)
        operation.result()

    def do(self, decide: Callable[[], list[ClientEffect]]) -> None:
        """Decide on effects and carry them out."""
        self.run(lambda operation: [*decide(), Done(operation)])

    def send_of_source(self, message: Publish, *, events: bool) -> None:
        """Publish a message of a source on the calling thread, waiting for room in the outbox and at the bus."""
        if events and self._outbox.full:
            deadline = time.monotonic() + (0.0 if threading.get_ident() == self._thread else ROOM_WITHIN)
            while not self._has_room(late=time.monotonic() >= deadline):
                time.sleep(ROOM_EVERY)
        if self._outbox.log is not None:
            self.report_outbox()
        if not self._deferred(message, events=events):
            self.send(message)

    def send(self, message: Publish, timeout: float = ROOM_WITHIN) -> None:
        """Publish on the calling thread, waiting for room; for events, which wait for nothing else."""
        bus = self.connections.to(message.home)
        if self._traces is None:
            bus.publish(message.topic, message.payload, qos=message.qos, retain=message.retain, timeout=timeout)
            return
        with self._traces.publishing(message) as properties:
            bus.publish(
                message.topic,
                message.payload,
                qos=message.qos,
                retain=message.retain,
                timeout=timeout,
                properties=properties,
            )

    def _take(self, decide: Callable[[], list[ClientEffect]], operation: Operation | None = None) -> None:
        self._thread = threading.get_ident()
        super()._take(decide, operation)

    def _notify(self, handle: QueuedSubscription, reason: str) -> None:
        if self._notifications is None:
            self._notifications = SimpleQueue()
            threading.Thread(
                target=_notify_all, args=(self._notifications,), name="distced-notify", daemon=True
            ).start()
        self._notifications.put((handle, reason))

    def _publish(self, message: Publish) -> None:
        self.send(message, 0.0)

    def _subscribe(self, topic_filter: str, qos: int, home: str) -> None:
        # A home without a usable URL is reported by `Listen`.
        with suppress(BusError):
            bus = self.connections.to(home)
            handler = self._received if bus is self._main else partial(self._heard, home)
            bus.subscribe(topic_filter, handler, qos=qos)

    def _flush(self, effect: Flush) -> None:
        def wait() -> None:
            with suppress(BusError):
                self.connections.to(effect.home).flush(effect.timeout / SECOND)
            self.post(lambda: self.session.fired(effect.number, self._clock.now()))

        threading.Thread(target=wait, name="distced-flush", daemon=True).start()


def _notify_all(notifications: SimpleQueue[tuple[QueuedSubscription, str] | None]) -> None:
    while (each := notifications.get()) is not None:
        handle, reason = each
        handle.notify_waiting(reason)
