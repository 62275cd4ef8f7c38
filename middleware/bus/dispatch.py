"""Dispatch of messages between a bus, its connection and its handlers, with accounting; independent of the loop.

Everything runs on the loop of the bus and never waits; other callers go through `Bus`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from itertools import count
from typing import Any, Final

from paho.mqtt.reasoncodes import ReasonCode

from distced.middleware.bus.connection import Connection, Protocol, Settings, Wanted
from distced.middleware.bus.delivery import Changed, Outbox, Receipts
from distced.middleware.bus.failures import Failure, FailureReports, name_of
from distced.middleware.bus.loop import Loop
from distced.middleware.bus.messages import BusStatistics, Message
from distced.middleware.bus.reconnection import Backoff, Reconnection
from distced.middleware.bus.subscriptions import Subscriptions
from distced.middleware.bus.user_properties import UserProperties, user_properties
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import BusError

# Messages handed over before the network is read again, and further ones for that time, s.
_SEND_AT_ONCE: Final = 64
_SEND_FOR: Final = 0.005


class BusState(StrEnum):
    """State of the connection to the server."""

    NEW = "new"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting"
    """Not connected; the next attempt comes by itself."""
    STOPPED = "stopped"


class ConnectionState:
    """State of a bus's connection, changed by `start` and `enter` only; `error`: reason for none, if known."""

    def __init__(self, changed: Changed) -> None:
        self.state = BusState.NEW
        self.error: BusError | None = None
        self._hopeless = False
        self._changed = changed

    def start(self) -> bool:
        """Leave the first state; whether this call did."""
        with self._changed:
            if self.state is not BusState.NEW:
                return False
            self.state = BusState.CONNECTING
            return True

    def enter(self, state: BusState, error: BusError | None, *, hopeless: bool = False) -> None:
        """Change the state and notify; `hopeless` where waiting will not help."""
        with self._changed:
            self.state = state
            # While the next attempt runs, the last failure still says most.
            if state is not BusState.CONNECTING:
                self.error, self._hopeless = error, hopeless
            self._changed.notify_all()

    def is_decided(self) -> bool:
        """Whether waiting for a connection is over: there is one, or none to wait for."""
        return self.state in (BusState.CONNECTED, BusState.STOPPED) or self._hopeless


class Dispatch:
    """Inside of a bus, driven by a loop.

    Attributes:
        state: of the connection.
        outbox: messages to be sent.
        subscriptions, receipts: filters with their handlers, and acknowledgements of messages received.
        arriving: user properties of the message that handlers take at present, where these read them.
    """

    def __init__(
        self,
        settings: Settings,
        wanted: Wanted,
        backoff: Backoff,
        clock: Clock,
        loop: Loop,
        changed: Changed,
        *,
        max_queued: int,
        hold_acknowledgements: bool,
        reads_properties: bool,
        on_state: Callable[[BusState, BusError | None], object] | None,
        on_failure: Callable[[Failure], object] | None,
    ) -> None:
        self.state = ConnectionState(changed)
        self.outbox = Outbox(max_queued, changed)
        self.statistics = BusStatistics()
        self.subscriptions = Subscriptions()
        self.receipts = Receipts(hold=hold_acknowledgements)
        self.arriving: UserProperties = ()
        self._take = self._deliver_with_properties if reads_properties else self._deliver
        self._loop = loop
        self._settings = settings
        self._on_state = on_state
        self._reports = FailureReports(settings.client_id, on_failure)
        # What messages come from; a connection counts as one only after the first piece of it was read.
        self._receiving: Connection | None = None
        self._reconnection = Reconnection(
            loop,
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
        return self._reconnection.connection

    def begin(self) -> None:
        """Connect, and keep connected from now on."""
        self._reconnection.begin()

    def hurry(self) -> None:
        """Try to connect now rather than after a delay."""
        self._reconnection.hurry()

    def send(self) -> None:
        """Write what waits for the network and hand some messages over, to make room in the outbox."""
        connection = self._reconnection.connection
        if connection is not None and connection.ended is None:
            if connection.wants_write:
                connection.write()
            self._send(connection)

    @property
    def waits_for_network(self) -> bool:
        """Whether the network takes no more, rather than the server not acknowledging."""
        connection = self._reconnection.connection
        return connection is not None and connection.wants_write and connection.ended is None

    # What the loop calls

    def work(self) -> None:
        """Send what waits, read what no selector knows of."""
        connection = self._reconnection.connection
        if connection is not None:
            self._send(connection)
        self._reconnection.turn()

    def pending(self) -> bool:
        connection = self._reconnection.connection
        return self._reconnection.has_unread or (connection is not None and self._sendable(connection))

    def failed(self, error: Exception, run: Callable[..., Any]) -> None:
        self.statistics.handler_errors += 1
        self._reports.failed(Failure(error, name_of(run)))

    def end(self) -> None:
        """Send what needs no waiting, say farewell, and give up the rest."""
        stopped = BusError("the bus is stopped", where=str(self._settings.address))
        connection = self._reconnection.connection
        while connection is not None and self._sendable(connection):
            self._send(connection)
        left = self.outbox.close()
        if connection is not None:
            left = connection.unsettled() + left
        self._reconnection.end()
        self.subscriptions.end(stopped)
        self._give_up(left, "the bus was stopped before it was through")
        self._enter(BusState.STOPPED, stopped)

    # Messages

    def _sendable(self, connection: Connection) -> bool:
        return bool(self.outbox) and connection.can_send and connection.has_room_for(self.outbox.first())

    def _send(self, connection: Connection) -> None:
        """Hand some messages over, and account for those that are through."""
        self._settle(connection)
        outbox, statistics = self.outbox, self.statistics
        if not self._sendable(connection):
            return
        end = time.monotonic() + _SEND_FOR
        for number in count():
            if not outbox or not connection.has_room_for(outbox.first()):
                break
            if number >= _SEND_AT_ONCE and time.monotonic() > end:
                break
            message = outbox.take()
            if message.properties and connection.is_too_large(message):
                # The message matters more.
                message = message._replace(properties=b"")
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

    def _deliver_with_properties(self, key: bytes, payload: bytes, retain: bool, number: int) -> None:
        self.arriving = user_properties(key[2 + (key[0] << 8 | key[1]) :])
        try:
            self._deliver(key, payload, retain, number)
        finally:
            self.arriving = ()

    def _connect(self, protocol: Protocol) -> Connection:
        self._receiving = Connection(
            self._settings,
            protocol,
            deliver=self._take,
            # Later, outside of paho: a hook that publishes must not get into it a second time.
            subscribed=lambda *answer: self._loop.call_soon(lambda: self._subscription_answered(*answer)),
            not_accepted=lambda *answer: self._loop.call_soon(lambda: self._not_accepted(*answer)),
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

    def _give_up(self, messages: list[Message], why: str) -> None:
        for message in messages:
            self.statistics.dropped += 1
            error = BusError(
                "a message was given up", given=message.topic, where=str(self._settings.address), advice=why
            )
            self._reports.failed(Failure(error, "publish", message.topic, message.payload))

    def _enter(self, state: BusState, error: BusError | None, *, hopeless: bool = False) -> None:
        self.state.enter(state, error, hopeless=hopeless)
        if self._on_state is not None:
            try:
                self._on_state(state, error)
            except Exception as problem:
                self.failed(problem, self._on_state)
