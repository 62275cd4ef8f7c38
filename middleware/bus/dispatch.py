"""What a bus does on its own thread: hands messages to the connection and to the handlers, and accounts for them.

Everything here runs on that thread, except `put`. Callers of other threads go through `Bus`.
"""

from __future__ import annotations

from collections.abc import Callable
from selectors import EVENT_WRITE, DefaultSelector
from typing import Any, Final

from paho.mqtt.reasoncodes import ReasonCode

from distced.middleware.bus.backoff import Backoff
from distced.middleware.bus.connection import Connection, Protocol, Settings, Wanted
from distced.middleware.bus.connection_state import Standing
from distced.middleware.bus.delivery import Outbox
from distced.middleware.bus.failures import Reports, name_of
from distced.middleware.bus.loop import Loop
from distced.middleware.bus.messages import BusState, BusStatistics, Failure, Message
from distced.middleware.bus.receipts import Receipts
from distced.middleware.bus.reconnection import Link
from distced.middleware.bus.subscriptions import Subscriptions
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import BusError
from distced.middleware.model.timestamps import SECOND

_SEND_AT_ONCE: Final = 64
"""Messages handed over before the network is read again."""


class Core:
    """The inside of a bus.

    Attributes:
        loop: its thread.
        standing: how it stands with the connection.
        outbox: what waits to be sent.
        statistics: its counters.
        subscriptions, receipts: what it receives, and has acknowledged.
    """

    def __init__(
        self,
        settings: Settings,
        wanted: Wanted,
        backoff: Backoff,
        clock: Clock,
        *,
        max_queued: int,
        hold_acknowledgements: bool,
        on_state: Callable[[BusState, BusError | None], object] | None,
        on_failure: Callable[[Failure], object] | None,
    ) -> None:
        self.standing = Standing()
        self.outbox = Outbox(max_queued)
        self.statistics = BusStatistics()
        self.subscriptions = Subscriptions()
        self.receipts = Receipts(hold=hold_acknowledgements)
        self.loop = Loop(
            f"bus-{settings.client_id}",
            clock,
            work=self._work,
            pending=self._pending,
            failed=self._call_failed,
            ended=self._at_end,
        )
        self._settings = settings
        self._clock = clock
        self._on_state = on_state
        self._reports = Reports(settings.client_id, on_failure)
        # What messages come from; the link knows a connection as such only after the first piece of it was read.
        self._receiving: Connection | None = None
        self._link = Link(
            self.loop,
            settings,
            wanted,
            backoff,
            clock,
            connect=self._connect,
            trying=lambda: self._enter(BusState.CONNECTING, None),
            up=self._up,
            down=self._down,
        )

    @property
    def connection(self) -> Connection | None:
        """The connection; None while there is none."""
        return self._link.connection

    def begin(self) -> None:
        """Connect, and keep connected from now on."""
        self._link.begin()

    def put(self, message: Message, timeout: float) -> bool:
        """Queue a message, waiting for room up to so many seconds; whether it was. From any thread.

        On the loop's own thread it waits for nothing but the network.
        """
        if self.loop.is_current:
            return self._put_here(message, timeout)
        taken = self.outbox.put(message, timeout)
        self.loop.wake()
        return taken

    def _work(self) -> None:
        """Each turn of the loop: send what waits, read what no selector knows of."""
        connection = self._link.connection
        if connection is not None:
            self._send(connection)
        self._link.turn()

    def _pending(self) -> bool:
        connection = self._link.connection
        return self._link.has_unread or (connection is not None and self._sendable(connection))

    def _sendable(self, connection: Connection) -> bool:
        return bool(self.outbox) and connection.can_send and connection.has_room_for(self.outbox.first())

    def _send(self, connection: Connection) -> None:
        """Hand some messages over, and account for those that are through."""
        self._settle(connection)
        outbox, statistics = self.outbox, self.statistics
        if not self._sendable(connection):
            return
        for _ in range(_SEND_AT_ONCE):
            if not outbox or not connection.has_room_for(outbox.first()):
                break
            message = outbox.take()
            if connection.is_too_large(message):
                outbox.settle(1)
                self._give_up([message], "larger than what the server takes")
                continue
            connection.send(message)
            statistics.messages_out += 1
            statistics.bytes_out += len(message.payload)
        connection.write()
        self._settle(connection)

    def _settle(self, connection: Connection) -> None:
        through = connection.settled()
        if through:
            self.outbox.settle(through)

    def _put_here(self, message: Message, timeout: float) -> bool:
        """Make room from the bus's own thread, which is the one that sends: wait for nothing but the network."""
        connection = self._link.connection
        if connection is not None and self.outbox.full:
            deadline = self._clock.now() + round(timeout * SECOND)
            self._send(connection)
            while self.outbox.full and connection.wants_write and connection.ended is None:
                left = (deadline - self._clock.now()) / SECOND
                if left <= 0:
                    break
                with DefaultSelector() as selector:
                    selector.register(connection.fileno(), EVENT_WRITE)
                    selector.select(left)
                connection.write()
                self._send(connection)
        # Where it is full still, the server has to acknowledge first, which only this thread could read; or time is up.
        return self.outbox.put(message, 0.0)

    def _deliver(self, key: bytes, payload: bytes, retain: bool, number: int) -> None:
        statistics = self.statistics
        statistics.messages_in += 1
        statistics.bytes_in += len(payload)
        topic, handlers = self.subscriptions.route(key)
        if not handlers:
            statistics.unrouted += 1
        for handler in handlers:
            try:
                handler(topic, payload, retain)
            except Exception as error:
                statistics.handler_errors += 1
                self._reports.failed(Failure(error, name_of(handler), topic, payload))
        if number and self._receiving is not None:
            self.receipts.handled(number, self._receiving)

    def _connect(self, protocol: Protocol) -> Connection:
        self._receiving = Connection(
            self._settings,
            protocol,
            deliver=self._deliver,
            # Later, outside of paho: a hook that publishes must not get into it a second time.
            subscribed=lambda *answer: self.loop.call_soon(lambda: self._subscription_answered(*answer)),
            not_accepted=lambda *answer: self.loop.call_soon(lambda: self._not_accepted(*answer)),
        )
        return self._receiving

    def _up(self, connection: Connection) -> None:
        self.statistics.connections += 1
        self.subscriptions.ask_again(connection)
        self._enter(BusState.CONNECTED, None)

    def _down(self, connection: Connection, error: BusError) -> None:
        if connection.accepted is None:
            self.statistics.attempts_failed += 1
        else:
            self.statistics.losses += 1
        self._settle(connection)
        self.outbox.put_back(connection.unsettled())
        self.receipts.forget()
        self._enter(BusState.WAITING, error, hopeless=connection.hopeless)

    def _subscription_answered(self, number: int, refusal: str | None) -> None:
        for error in self.subscriptions.answered(number, refusal):
            self._reports.failed(Failure(error, "subscribe"))

    def _not_accepted(self, message: Message, reason: ReasonCode) -> None:
        self._give_up([message], f"the server does not accept it: {reason.getName()}")

    def _call_failed(self, error: Exception, run: Callable[..., Any]) -> None:
        self.statistics.handler_errors += 1
        self._reports.failed(Failure(error, name_of(run)))

    def _give_up(self, messages: list[Message], why: str) -> None:
        for message in messages:
            self.statistics.dropped += 1
            error = BusError(
                "a message was given up", given=message.topic, where=str(self._settings.address), advice=why
            )
            self._reports.failed(Failure(error, "publish", message.topic, message.payload))

    def _enter(self, state: BusState, error: BusError | None, *, hopeless: bool = False) -> None:
        self.standing.enter(state, error, hopeless=hopeless)
        if self._on_state is not None:
            try:
                self._on_state(state, error)
            except Exception as problem:
                self._call_failed(problem, self._on_state)

    def _at_end(self) -> None:
        stopped = BusError("the bus is stopped", where=str(self._settings.address))
        connection = self._link.connection
        while connection is not None and self._sendable(connection):
            self._send(connection)
        left = self.outbox.close()
        if connection is not None:
            left = connection.unsettled() + left
        self._link.end()
        self.subscriptions.end(stopped)
        self._give_up(left, "the bus was stopped before it was through")
        self._enter(BusState.STOPPED, stopped)
