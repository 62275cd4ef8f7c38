"""Bus: publish and subscribe over one MQTT server (design, section 4).

`BaseBus` is common to both loops; `Bus` drives it by a thread of its own, `AsyncBus` by the running event loop.
Handlers, timers and calls run one after another on the loop of the bus, directly out of the network: a queue between
two threads costs a switch of the interpreter lock per message. They must be quick and never wait; messages they publish
are sent when they return. After a loss the connection is tried again with growing delays; subscriptions are requested
again, and unacknowledged messages of QoS 1 are published again.

On asyncio a call with `_nowait` never waits, for use in handlers; the coroutine of the same name waits for room or for
the server's confirmation, and may be cancelled. Coroutines as handlers were rejected: they need a task per message or a
queue. So was a bus that is not read for a slow handler: it holds back all others, and its connection ends as silent.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec

from distced.middleware.bus.access import login, tls_context
from distced.middleware.bus.asyncio_loop import AsyncioCondition, AsyncioLoop
from distced.middleware.bus.connection import KEEPALIVE, Protocol, Settings, Wanted
from distced.middleware.bus.delivery import Changed
from distced.middleware.bus.dispatch import BusState, Dispatch
from distced.middleware.bus.failures import Failure
from distced.middleware.bus.loop import Loop, Timer
from distced.middleware.bus.messages import BusStatistics, Message, check_message
from distced.middleware.bus.reconnection import Backoff
from distced.middleware.bus.subscriptions import Answer, Handler, check_filter
from distced.middleware.bus.thread_loop import ThreadLoop
from distced.middleware.bus.user_properties import UserProperties
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import parse_address
from distced.middleware.model.timestamps import SECOND

L = TypeVar("L", bound=Loop)
C = TypeVar("C", bound=Changed)


class BaseBus(ABC, Generic[L, C]):
    """Connection to an MQTT server, without the waiting.

    Attributes:
        client_id: name of this client at the server.
        address: of the server.
        keepalive: seconds of silence before a peer checks the other.
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        will: Message | None = None,
        will_delay: int = 0,
        keepalive: int = KEEPALIVE,
        session_expiry: int = 0,
        hold_acknowledgements: bool = False,
        reads_properties: bool = False,
        protocol: Wanted = "auto",
        tls: ssl.SSLContext | None = None,
        max_queued: int = 10_000,
        max_inflight: int = 1_000,
        connect_timeout: float = 5.0,
        first_delay: float = 0.1,
        longest_delay: float = 10.0,
        on_state: Callable[[BusState, BusError | None], object] | None = None,
        on_failure: Callable[[Failure], object] | None = None,
    ) -> None:
        """Describe a connection; nothing happens before `start`.

        Args:
            url: `mqtt://host:port` or `mqtts://user:password@host`, perhaps with files (`middleware.bus.access`).
            client_id: unique name at the server; random by default. A session needs one.
            random: for the delays between attempts; seeded by the client id by default.
            will: published by the server when this client is lost without `stop`, after `will_delay` seconds (MQTT 5).
            keepalive: seconds of silence before a peer checks the other.
            session_expiry: seconds for which the server keeps subscriptions and messages of QoS 1 for an absent client;
                0 for none. Unlimited under MQTT 3.1.1 unless 0.
            hold_acknowledgements: acknowledge messages of QoS 1 by `acknowledge` only, not when handled.
            reads_properties: whether handlers find the user properties of their message in `arriving`.
            protocol: "5", "3.1.1", or "auto" for 5 where the server supports it.
            tls: checks of the server of an `mqtts` URL; those of its files, or the system's certificates, by default.
            max_queued: most unsettled messages; beyond, `publish` waits.
            max_inflight: most messages of QoS 1 sent and not acknowledged; the server may allow fewer.
            connect_timeout: seconds to wait for the network, and again for the server's answer.
            first_delay, longest_delay: seconds between attempts to connect.
            on_state: called on the bus's loop when the connection comes or goes, with the reason.
            on_failure: called on the bus's loop with exceptions of handlers, timers and calls, and with messages and
                subscriptions rejected by the server.

        Raises:
            BusError: arguments out of range.
        """
        if session_expiry and not client_id:
            raise BusError(
                "a session without a client id", allowed="a client_id that stays the same", advice="name one"
            )
        if client_id is not None and not client_id.isprintable():
            raise BusError("not a client id", given=repr(client_id), allowed="printable text")
        if protocol not in ("auto", "5", "3.1.1"):
            raise BusError("not a version of MQTT", given=protocol, allowed="auto, 5, 3.1.1")
        if will is not None:
            check_message(*will)
        self.client_id = client_id or f"distced-{uuid.uuid4().hex[:12]}"
        self.address = parse_address(url)
        self.keepalive = keepalive
        # So that wrong files are errors at once.
        login(self.address)
        tls_context(self.address)
        settings = Settings(
            self.address, self.client_id, keepalive, session_expiry, will, will_delay, connect_timeout, max_inflight,
            tls,
        )  # fmt: skip
        backoff = Backoff(first_delay, longest_delay, random or Random(self.client_id))
        self._clock = clock or SystemClock()
        self._loop, self._changed = self._driver(self._clock)
        self._dispatch = Dispatch(
            settings, protocol, backoff, self._clock, self._loop, self._changed,
            max_queued=max_queued, hold_acknowledgements=hold_acknowledgements,
            reads_properties=reads_properties, on_state=on_state, on_failure=on_failure,
        )  # fmt: skip

    @abstractmethod
    def _driver(self, clock: Clock) -> tuple[L, C]:
        """Loop that drives this bus, and condition on which callers wait."""

    @property
    def state(self) -> BusState:
        """State of the connection."""
        return self._dispatch.state.state

    @property
    def connected(self) -> bool:
        """Whether the server has accepted and the connection stands."""
        return self.state is BusState.CONNECTED

    @property
    def protocol(self) -> Protocol | None:
        """Version of MQTT in use; None without a connection."""
        connection = self._dispatch.connection
        return None if connection is None else connection.protocol

    @property
    def resumed(self) -> bool:
        """Whether the server still knew this client when it accepted, and has kept messages for it."""
        connection = self._dispatch.connection
        return connection is not None and connection.accepted is not None and connection.accepted.session_present

    @property
    def statistics(self) -> BusStatistics:
        """Present counters."""
        return msgspec.structs.replace(self._dispatch.statistics, refused=self._dispatch.outbox.refused)

    @property
    def unsettled(self) -> int:
        """Number of messages that wait to be sent, or are under way at QoS 1."""
        return self._dispatch.outbox.unsettled

    @property
    def arriving(self) -> UserProperties:
        """User properties of the message that a handler takes at present, in the handler; none unless the bus reads
        them, or under MQTT 3.1.1."""
        return self._dispatch.arriving

    # Messages

    def listen(
        self, topic_filter: str, handler: Handler, answered: Callable[[BusError | None], object], *, qos: int = 0
    ) -> None:
        """Subscribe without waiting; `answered` gets None or a server's refusal, once, on the bus's loop."""
        answer: Future[None] = Future()
        answer.add_done_callback(lambda done: answered(done.exception()))  # type: ignore[arg-type]
        self._subscribe(topic_filter, handler, qos, answer)

    def unsubscribe(self, topic_filter: str, handler: Handler | None = None) -> None:
        """Remove a handler from a filter, or all of them; no error where there is none."""
        self._here_or_soon(
            lambda: self._dispatch.subscriptions.remove(topic_filter, handler, self._dispatch.connection)
        )

    @property
    def mark(self) -> int:
        """Number of messages of QoS 1 handled; to be read on the bus's loop, with the state that covers them."""
        return self._dispatch.receipts.mark

    def acknowledge(self, mark: int) -> None:
        """Acknowledge the held messages of QoS 1 handled up to a mark; a session's server sends others again."""
        self._here_or_soon(lambda: self._dispatch.receipts.acknowledge(mark, self._dispatch.connection))

    # Time

    def call_soon(self, run: Callable[[], Any]) -> None:
        """Run a call on the bus's loop, soon and in order."""
        self._loop.call_soon(run)

    def call_later(self, seconds: float, run: Callable[[], Any]) -> Timer:
        """Run a call on the bus's loop after a delay in seconds; the timer returned can be cancelled."""
        return self._loop.call_later(seconds, run)

    def every(self, seconds: float, run: Callable[[], Any]) -> Timer:
        """Run a call on the bus's loop at an interval in seconds, connected or not; missed times are left out."""
        if seconds <= 0:
            raise BusError("no time between repetitions", given=f"{seconds} s", allowed="more than 0 s")
        return self._loop.call_later(seconds, run, repeat=True)

    # For both loops

    def start_nowait(self) -> None:
        """Begin to connect, in the background, and to run timers; once, and on asyncio on the running event loop."""
        if not self._dispatch.state.start():
            raise BusError("a bus is started once", given=self.state.value, advice="make a new one")
        self._loop.call_soon(self._dispatch.begin)
        self._loop.start(self._dispatch)

    def hurry(self) -> None:
        """Try to connect now rather than after a delay, as the server is there again; of no effect otherwise."""
        self._loop.call_soon(self._dispatch.hurry)

    def _subscribe(
        self, topic_filter: str, handler: Handler, qos: int, answer: Answer | None, *, retained: bool = True
    ) -> None:
        check_filter(topic_filter)
        if qos not in (0, 1):
            raise BusError("not a quality of service", given=qos, allowed="0 or 1")
        dispatch = self._dispatch
        self._here_or_soon(
            lambda: dispatch.subscriptions.add(
                topic_filter, handler, qos, answer, dispatch.connection, retained=retained
            )
        )

    def _here_or_soon(self, run: Callable[[], None]) -> None:
        if self._loop.is_current:
            run()
            # What it has handed to the connection is written in a turn.
            self._loop.wake()
        else:
            self._loop.call_soon(run)

    def _no_connection(self, timeout: float) -> BusError:
        error = self._dispatch.state.error or BusError(
            f"no connection to {self.address}", given=f"after {timeout} s", advice="allow more time"
        )
        return BusError(error.problem, given=error.given, where=error.where, advice=error.advice)

    def _not_confirmed(self, topic_filter: str) -> BusError:
        return BusError("the server has not confirmed a subscription", given=topic_filter, where=str(self.address))

    def _not_taken(self, topic: str) -> BusError:
        outbox = self._dispatch.outbox
        if outbox.closed:
            return BusError("the bus is stopped", given=topic, where=str(self.address))
        return BusError(
            "too many messages wait to be sent",
            given=f"{outbox.unsettled} messages, {self.state.value}",
            allowed=f"{outbox.limit} messages",
            where=str(self.address),
            advice="publish more slowly, in larger frames, or raise max_queued",
        )


class Bus(BaseBus[ThreadLoop, threading.Condition]):
    """Bus on a thread of its own; a context manager, or `start` and `stop`.

    Methods may be called from any thread; on the bus's own they never wait.
    """

    def _driver(self, clock: Clock) -> tuple[ThreadLoop, threading.Condition]:
        return ThreadLoop(f"bus-{self.client_id}", clock), threading.Condition()

    def start(self) -> None:
        """Begin to connect, in the background, and to run timers. A bus is started once."""
        self.start_nowait()

    def stop(self, timeout: float = 5.0) -> None:
        """Settle all messages within `timeout` seconds (no wait on the bus's own thread), disconnect, and end.

        The rest is given up, counted and reported.
        """
        loop = self._loop
        if self._dispatch.state.start():
            # It never ran; its thread is what cleans up.
            loop.start(self._dispatch)
        if self.connected and not loop.is_current:
            self.flush(timeout)
        loop.end()
        loop.join(timeout)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_connected(self, timeout: float = 10.0) -> None:
        """Wait up to `timeout` seconds for the connection; `BusError` with the reason for none.

        A permanent refusal, of a password for example, is raised at once.
        """
        if not self._loop.is_current:
            with self._changed:
                self._changed.wait_for(self._dispatch.state.is_decided, timeout)
        if not self.connected:
            raise self._no_connection(timeout)

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        timeout: float = 5.0,
        properties: bytes = b"",
    ) -> None:
        """Publish a message, perhaps with packed properties; without a connection it waits for the next one.

        With a full queue it waits up to `timeout` seconds for room; on the bus's own thread only for the busy network.

        Raises:
            BusError: no room in time, invalid message, or stopped bus.
        """
        message = check_message(topic, payload, qos, retain, properties)
        outbox, changed = self._dispatch.outbox, self._changed
        if self._loop.is_current:
            self._make_room(timeout)
            timeout = 0.0
        with changed:
            if timeout > 0 and not outbox.has_room():
                outbox.waiting += 1
                changed.wait_for(outbox.has_room, timeout)
                outbox.waiting -= 1
            taken = outbox.put(message)
        self._loop.wake()
        if not taken:
            raise self._not_taken(topic)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait up to `timeout` seconds until every message is through; whether it is."""
        outbox = self._dispatch.outbox
        with self._changed:
            self._changed.wait_for(outbox.is_through, 0.0 if self._loop.is_current else timeout)
            return not outbox.unsettled

    def subscribe(
        self,
        topic_filter: str,
        handler: Handler,
        *,
        qos: int = 0,
        timeout: float | None = None,
        retained: bool = True,
    ) -> None:
        """Have matching messages handled, from now on and after every reconnection.

        A filter may have several handlers, and filters may overlap: each handler receives each message once per filter.
        Retained messages are sent again to all handlers of a filter that gets another. With a session, subscribe before
        `start`: kept messages arrive on acceptance.

        Args:
            handler: takes topic, payload, and whether the message is a retained one. It runs on the bus's thread.
            qos: 0 or 1, greatest QoS of delivery.
            timeout: seconds to wait for the server to confirm; None does not wait.
            retained: whether the server sends the messages that it retains; under MQTT 3.1.1, and on a later
                connection, it does in any case.

        Raises:
            BusError: malformed filter; with a timeout, refusal or no answer of the server.
        """
        answer: Future[None] | None = None if timeout is None or self._loop.is_current else Future()
        self._subscribe(topic_filter, handler, qos, answer, retained=retained)
        if answer is not None:
            try:
                answer.result(timeout)
            except TimeoutError:
                raise self._not_confirmed(topic_filter) from self._dispatch.state.error

    def _make_room(self, timeout: float) -> None:
        """Make room on the bus's own thread, which is the one that sends: wait for the network only."""
        dispatch, outbox = self._dispatch, self._dispatch.outbox
        if not outbox.full:
            return
        deadline = self._clock.now() + round(timeout * SECOND)
        dispatch.send()
        while outbox.full and dispatch.waits_for_network:
            left = (deadline - self._clock.now()) / SECOND
            if left <= 0 or dispatch.connection is None:
                break
            self._loop.wait_writable(dispatch.connection.fileno(), left)
            dispatch.send()


class AsyncBus(BaseBus[AsyncioLoop, AsyncioCondition]):
    """Bus on the event loop that runs at its start; an asynchronous context manager.

    Methods belong to the thread of that event loop; handlers, timers and hooks are plain functions, called there.
    """

    def _driver(self, clock: Clock) -> tuple[AsyncioLoop, AsyncioCondition]:
        return AsyncioLoop(clock), AsyncioCondition()

    async def start(self, timeout: float = 10.0) -> None:
        """Connect; raises as `wait_connected` does, and goes on trying until it is stopped."""
        self.start_nowait()
        await self.wait_connected(timeout)

    async def stop(self, timeout: float = 5.0) -> None:
        """Settle all messages within `timeout` seconds, disconnect, and end (`Bus.stop`); cancellation ends it now."""
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
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        timeout: float = 5.0,
        properties: bytes = b"",
    ) -> None:
        """Publish a message, waiting up to `timeout` seconds for room; not sent where the task is cancelled meanwhile.

        Raises:
            BusError: no room in time, invalid message, or stopped bus.
        """
        message = check_message(topic, payload, qos, retain, properties)
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

    def publish_nowait(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, properties: bytes = b""
    ) -> None:
        """Publish a message, for handlers: without room, the network is first given what it takes.

        Raises:
            BusError: still no room, invalid message, or stopped bus.
        """
        message = check_message(topic, payload, qos, retain, properties)
        if self._dispatch.outbox.full:
            self._dispatch.send()
        self._put(message)

    async def flush(self, timeout: float = 5.0) -> bool:
        """Wait up to `timeout` seconds until every message is through; whether it is."""
        outbox = self._dispatch.outbox
        await self._changed.wait_for(outbox.is_through, timeout)
        return not outbox.unsettled

    async def subscribe(
        self, topic_filter: str, handler: Handler, *, qos: int = 0, timeout: float = 5.0, retained: bool = True
    ) -> None:
        """Subscribe as `Bus.subscribe` does, and wait up to `timeout` seconds for the server to confirm.

        After cancellation or timeout the subscription stands until `unsubscribe`; the next connection repeats it.

        Raises:
            BusError: malformed filter, refusal or no answer of the server.
        """
        answer = asyncio.get_running_loop().create_future()
        self._subscribe(topic_filter, handler, qos, answer, retained=retained)
        try:
            async with asyncio.timeout(timeout):
                await answer
        except TimeoutError:
            raise self._not_confirmed(topic_filter) from self._dispatch.state.error

    def subscribe_nowait(self, topic_filter: str, handler: Handler, *, qos: int = 0) -> None:
        """Subscribe without waiting; a refusal is reported as a failure. The handler runs on the event loop."""
        self._subscribe(topic_filter, handler, qos, None)

    def _put(self, message: Message) -> None:
        taken = self._dispatch.outbox.put(message)
        self._loop.wake()
        if not taken:
            raise self._not_taken(message.topic)
