"""What keeps a connection up: opens it, reads and writes it when the network is ready, and tries again after a loss."""

from __future__ import annotations

import threading
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE
from typing import Final

from distced.middleware.bus.backoff import Backoff
from distced.middleware.bus.connection import Connection, Protocol, Settings, Wanted, next_protocol
from distced.middleware.bus.loop import Loop
from distced.middleware.bus.timers import Timer
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import lost, unreachable
from distced.middleware.model.timestamps import SECOND

_READ_AT_ONCE: Final = 64
"""Packets handled before what their handlers published is sent."""

_STEADY: Final = 1 * SECOND
"""A connection that stood for so long is a good one: the next loss is no repetition of the last."""

_PATIENCE_FOR_5: Final = 1.0
"""Seconds for an answer in MQTT 5 where 3.1.1 will do: amqtt falls silent over a greeting of MQTT 5 with a will."""


class Link:
    """The connection of a bus over time; belongs to its thread.

    Attributes:
        connection: the connection while the server has accepted it; None otherwise.
    """

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
        # The connection from its opening to its end, accepted or not, and how it is known to the selector.
        self._current: Connection | None = None
        self._descriptor = -1
        self._interest = 0
        self._patience: Timer | None = None
        self._accepted_at = 0
        self._over = False

    def begin(self) -> None:
        """Connect, and keep connected from now on."""
        self._loop.call_later(1.0, self._keep_alive, repeat=True)
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
        """Read what no selector knows of, and write what there is to write."""
        if self._current is not None and (self._current.has_unread or self._current.wants_write):
            self._ready(EVENT_READ if self._current.has_unread else 0)

    def _attempt(self) -> None:
        if self._over:
            return
        connection = self._connect(self._protocol)
        self._trying()
        threading.Thread(target=self._open, args=(connection,), name="bus-opening", daemon=True).start()

    def _open(self, connection: Connection) -> None:
        """On a thread of its own: name look-up, network and TLS may take seconds."""
        error: Exception | None = None
        try:
            connection.open()
        except Exception as problem:
            error = problem
        self._loop.call_soon(lambda: self._opened(connection, error))
        if self._over:
            connection.abort(self._lost("the bus is stopped"))

    def _opened(self, connection: Connection, error: Exception | None) -> None:
        address = self._settings.address
        if self._over:
            connection.abort(self._lost("the bus is stopped"))
            return
        if error is not None:
            connection.abort(unreachable(address, error))
            self._again(connection)
            return
        self._current = connection
        self._descriptor = connection.fileno()
        self._interest = EVENT_READ
        self._loop.selector.register(self._descriptor, self._interest, self._ready)
        patience = self._settings.connect_timeout
        if self._wanted == "auto" and self._protocol == "5":
            patience = min(patience, _PATIENCE_FOR_5)
        self._patience = self._loop.call_later(patience, lambda: self._too_late(connection))
        self._ready(0)

    def _ready(self, mask: int) -> None:
        """The network is ready; the mask says for what."""
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
        """Act on what has become of the connection."""
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
        interest = EVENT_READ | (EVENT_WRITE if connection.wants_write else 0)
        if interest != self._interest:
            self._interest = interest
            self._loop.selector.modify(self._descriptor, interest, self._ready)

    def _again(self, connection: Connection) -> None:
        """The connection is over: say so, and plan the next."""
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
            self._loop.call_later(self._backoff.next(), self._attempt)

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
        self._loop.selector.unregister(self._descriptor)

    def _lost(self, reason: str) -> BusError:
        return lost(self._settings.address, reason, self._settings.client_id)
