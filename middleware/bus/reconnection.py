"""Reconnection of a bus: opens a connection, drives it while it stands, tries again after a loss, later each time."""

from __future__ import annotations

import socket
from collections.abc import Callable
from random import Random
from selectors import EVENT_READ, EVENT_WRITE
from typing import Final

from distced.middleware.bus.access import tls_context
from distced.middleware.bus.connection import Connection, Protocol, Settings, Wanted, next_protocol
from distced.middleware.bus.failures import lost, unreachable
from distced.middleware.bus.loop import Loop, Timer
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import BusError
from distced.middleware.model.timestamps import SECOND

_READ_AT_ONCE: Final = 64  # packets handled before the messages of their handlers are sent
_STEADY: Final = 1 * SECOND
"""A connection that stood for so long is a good one: the next loss is no repetition of the last."""

_PATIENCE_FOR_5: Final = 1.0
"""Seconds for an answer in MQTT 5 where 3.1.1 will do: amqtt falls silent over a greeting of MQTT 5 with a will."""


class Backoff:
    """Delays that double from a first one to a longest one, each shortened by up to a half at random.

    The randomness spreads the return of clients that lost their server together.
    """

    def __init__(self, first: float, longest: float, random: Random) -> None:
        if not 0 < first <= longest:
            raise BusError(
                "no delays between attempts",
                given=f"{first} to {longest} s",
                allowed="a first one above 0, and a longest one not below it",
            )
        self._first = first
        self._longest = longest
        self._random = random
        self.attempts = 0

    def next(self) -> float:
        """Seconds until the next attempt."""
        # Beyond 2^60 the limit holds anyway, and floats end somewhere.
        delay = min(self._longest, self._first * 2.0 ** min(self.attempts, 60))
        self.attempts += 1
        return delay * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin again with the first delay."""
        self.attempts = 0


class Reconnection:
    """Connection of a bus over time; None while the server has not accepted it. Belongs to the loop of the bus."""

    def __init__(
        self,
        loop: Loop,
        settings: Settings,
        wanted: Wanted,
        backoff: Backoff,
        clock: Clock,
        *,
        connect: Callable[[Protocol], Connection],
        trying: Callable[[], None],
        up: Callable[[Connection], None],
        down: Callable[[Connection, BusError], None],
    ) -> None:
        self.connection: Connection | None = None
        self._loop = loop
        self._settings = settings
        self._wanted = wanted
        self._backoff = backoff
        self._clock = clock
        self._connect = connect
        self._trying = trying
        self._up = up
        self._down = down
        self._protocol: Protocol = "5" if wanted == "auto" else wanted
        # The connection from its opening to its end, accepted or not, and what its socket is watched for.
        self._current: Connection | None = None
        self._descriptor = -1
        self._interest = 0
        self._patience: Timer | None = None
        self._accepted_at = 0
        self._over = False
        # The next attempt, while it waits.
        self._next: Timer | None = None

    def begin(self) -> None:
        """Connect, and keep connected from now on."""
        self._loop.call_later(1.0, self._keep_alive, repeat=True)
        self._attempt()

    def hurry(self) -> None:
        """Make the next attempt now, as the server is known to be there again."""
        if self._next is not None:
            self._next.cancel()
            self._backoff.reset()
            self._attempt()

    def end(self) -> None:
        """Close the connection with a farewell, for good."""
        self._over = True
        if self._current is not None:
            self._current.close()
            self._forget()

    @property
    def has_unread(self) -> bool:
        """Whether there is something to read that no selector knows of."""
        return self._current is not None and self._current.has_unread

    def turn(self) -> None:
        """Read what no selector knows of, write what waits, and handle a connection that has ended."""
        current = self._current
        if current is not None and (current.has_unread or current.wants_write or current.ended is not None):
            self._ready(EVENT_READ if current.has_unread else 0)

    def _attempt(self) -> None:
        self._next = None
        if self._over:
            return
        self._trying()
        settings = self._settings
        try:
            tls = tls_context(settings.address) if settings.tls is None else settings.tls
        except BusError as error:
            problem = error
            self._loop.call_soon(lambda: self._opened(None, problem))
            return
        self._loop.open(settings.address, settings.connect_timeout, tls, self._opened)

    def _opened(self, stream: socket.socket | None, error: Exception | None) -> None:
        if self._over:
            if stream is not None:
                stream.close()
            return
        connection = self._connect(self._protocol)
        if stream is not None:
            try:
                connection.open(stream)
            except Exception as problem:
                stream.close()
                error = problem
        if error is not None:
            connection.abort(unreachable(self._settings.address, error))
            self._again(connection)
            return
        connection.on_close = self._unwatch
        self._current = connection
        self._descriptor = connection.fileno()
        self._watch(connection)
        patience = self._settings.connect_timeout
        if self._wanted == "auto" and self._protocol == "5":
            patience = min(patience, _PATIENCE_FOR_5)
        self._patience = self._loop.call_later(patience, lambda: self._too_late(connection))
        self._ready(0)

    def _ready(self, mask: int) -> None:
        """Read and write as the mask of a ready socket says."""
        connection = self._current
        if connection is None:
            return
        try:
            if mask & EVENT_READ:
                connection.read(_READ_AT_ONCE)
            if connection.wants_write and connection.ended is None:
                connection.write()
        except Exception as error:
            # Handlers are guarded, so this is a packet that cannot be: nothing after it can be trusted.
            connection.abort(self._lost(f"{type(error).__name__}: {error}"))
        self._look(connection)

    def _look(self, connection: Connection) -> None:
        """Act on a connection that was accepted or has ended."""
        if connection.accepted is not None and self.connection is None:
            if self._patience is not None:
                self._patience.cancel()
            self.connection = connection
            self._accepted_at = self._clock.now()
            self._up(connection)
        if connection.ended is not None:
            self._forget()
            self._again(connection)
            return
        self._watch(connection)

    def _again(self, connection: Connection) -> None:
        """Report a connection that has ended, and plan the next."""
        if connection.accepted is not None and self._clock.now() - self._accepted_at >= _STEADY:
            self._backoff.reset()
        before = self._protocol
        self._protocol = next_protocol(self._wanted, connection)
        if connection.accepted is None and before == "5" and self._protocol == "3.1.1":
            # The server is there and speaks 3.1.1 only: nothing has failed yet, and there is nothing to wait for.
            self._loop.call_soon(self._attempt)
            return
        self._down(connection, connection.ended or self._lost("unknown"))
        if not self._over:
            self._next = self._loop.call_later(self._backoff.next(), self._attempt)

    def _too_late(self, connection: Connection) -> None:
        if connection is self._current and connection.accepted is None:
            connection.unsupported = True
            connection.abort(unreachable(self._settings.address, TimeoutError()))
            self._look(connection)

    def _keep_alive(self) -> None:
        connection = self._current
        if connection is not None:
            connection.keep_alive()
            self._ready(0)

    def _forget(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._current = self.connection = None
        self._unwatch()

    def _watch(self, connection: Connection) -> None:
        interest = EVENT_READ | (EVENT_WRITE if connection.wants_write else 0)
        if interest != self._interest:
            self._interest = interest
            self._loop.watch(self._descriptor, interest, self._ready)

    def _unwatch(self) -> None:
        """Stop watching before the socket is closed: its number may be in use again at once."""
        if self._interest:
            self._interest = 0
            self._loop.watch(self._descriptor, 0, self._ready)

    def _lost(self, reason: str) -> BusError:
        return lost(self._settings.address, reason, self._settings.client_id)
