"""Pool of connections of a participant: to the server of the directory, and to others as their topics are needed.

A topic has a home server (design, section 4, "Bus"). The directory and administration are at home on one server, to
which every participant is connected; its name is an empty text, that of another home its URL in one form without a
password (`home_name`). A connection to another home is opened on first use, with the same settings but without a will,
and is then kept up. A failing one does not delay the others: messages wait there.

`AsyncConnections` are buses on one event loop, `Connections` buses with a thread each, whose handlers run side by side
and share state under a lock. Handing everything to the thread of the first bus was measured (messages in at a second
server, answers out, 1,000 a second): both take 55 us of processor time a message, and 0.3 ms to the answer. The lock
was chosen: a waiting thread does not read on, and the server holds back; a queue would grow.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, Generic, TypeAlias, TypeVar

from distced.middleware.bus.access import authority_of, may_be_given
from distced.middleware.bus.asyncio_loop import AsyncioCondition
from distced.middleware.bus.bus import AsyncBus, Bus
from distced.middleware.bus.connection import KEEPALIVE
from distced.middleware.bus.delivery import Changed
from distced.middleware.bus.dispatch import BusState
from distced.middleware.bus.messages import Message
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import parse_address, server_name, without_logins

B = TypeVar("B", Bus, AsyncBus)
C = TypeVar("C", bound=Changed)

OnState: TypeAlias = Callable[[str, BusState, BusError | None], object]
"""Called with a home when the connection to it comes or goes, on the loop of that connection, with the reason."""


def home_name(url: str, directory: str) -> str:
    """Name of a server: its URL without user and password; empty for the server of the directory.

    All participants have to use the same host name for a server. Raises `BusError` for any other text.
    """
    if not url or server_name(url) == server_name(directory):
        return ""
    return server_name(url)


class BaseConnections(Generic[B, C]):
    """Buses by home, on either loop, without the waiting.

    `main` is connected to the server of the directory; `home` is the server of the site, empty for the same.
    """

    _bus: type[B]
    _condition: type[C]

    def __init__(
        self,
        url: str,
        home: str = "",
        *,
        client_id: str,
        clock: Clock,
        will: Message | None = None,
        on_state: OnState = lambda home, state, error: None,
        max_queued: int = 10_000,
        session_expiry: int = 0,
        hold_acknowledgements: bool = False,
        reads_properties: bool = False,
        keepalive: int = KEEPALIVE,
    ) -> None:
        """Describe connections; nothing happens before `main` is started, or another is asked for.

        Args:
            url: server of the directory. Its login and certificate are given to the server of the site, too, and to
                those that its configuration file names, unless these are less well protected.
            home: server of the site, perhaps with its own login.
            will: published by the server of the directory when this participant is lost without `stop`.
            on_state: called for every connection.
            max_queued, session_expiry, hold_acknowledgements, reads_properties, keepalive: as of `Bus`, of each
                connection.
        """
        self.home = home_name(home, url)
        self._settings: dict[str, Any] = {
            "clock": clock,
            "max_queued": max_queued,
            "session_expiry": session_expiry,
            "hold_acknowledgements": hold_acknowledgements,
            "reads_properties": reads_properties,
            "keepalive": keepalive,
        }
        self._own = parse_address(home) if self.home else None
        self._client_id = client_id
        self._on_state = on_state
        self._changed = self._condition()
        self.main: B = self._bus(
            url, client_id=client_id, will=will, on_state=partial(self._entered, ""), **self._settings
        )
        self._buses: dict[str, B] = {"": self.main}
        # Why there is no connection, of those that have failed since they stood last.
        self._errors: dict[str, BusError] = {}
        self._stopped = False

    def to(self, home: str, prepare: Callable[[B], object] = lambda bus: None) -> B:
        """Connection to a home; opened the first time.

        Args:
            prepare: called before opening, to subscribe to what a session may have kept.

        Raises:
            BusError: not the URL of a server, or stopped connections.
        """
        bus = self._buses.get(home)
        if bus is not None:
            return bus
        with self._changed:
            if home in self._buses:
                return self._buses[home]
            if self._stopped:
                raise BusError("the connections are stopped", given=without_logins(home))
            # Two names may mean one server, which takes a client id once only.
            digest = blake2b(home.encode(errors="replace"), digest_size=4).hexdigest()
            bus = self._bus(
                self.with_login(home),
                client_id=f"{self._client_id}-{digest}",
                on_state=partial(self._entered, home),
                **self._settings,
            )
            prepare(bus)
            self._buses[home] = bus
        bus.start_nowait()
        return bus

    def all(self) -> dict[str, B]:
        """Connections asked for so far, by home."""
        with self._changed:
            return dict(self._buses)

    def with_login(self, home: str) -> str:
        """URL to connect to for a home, with the login and the certificate that are for it.

        Entries of the directory name homes, and anybody's may be among them: they are given what the configuration
        says that they may be given, and the own site what the server of the directory is given.
        """
        # Not what an entry says beside the server: a user of anybody's, or files of this machine.
        wanted, main = parse_address(server_name(home)), self.main.address
        if self._own is not None and home == self.home:
            known = self._own if self._own.username is not None or self._own.files else main
        elif server_name(wanted) == server_name(main) or may_be_given(main, home):
            # A node has a second connection to the server of the directory, for events.
            known = main
        else:
            # Nothing but what its certificate is checked by.
            authority = authority_of(main) if wanted.tls else ""
            return replace(wanted, files=(("ca", authority),)).url if authority else wanted.url
        # What is sent over an encrypted connection is not to be read off another.
        if known.tls and not wanted.tls:
            return wanted.url
        return replace(wanted, username=known.username, password=known.password, files=known.files).url

    def _entered(self, home: str, state: BusState, error: BusError | None) -> None:
        """Record a state, on the loop of the bus."""
        with self._changed:
            if state is BusState.CONNECTED:
                self._errors.pop(home, None)
            elif error is not None:
                self._errors[home] = error
            self._changed.notify_all()
        self._on_state(home, state, error)

    def _closing(self) -> list[B]:
        """Buses to stop, that of the directory last; no further one is opened."""
        with self._changed:
            self._stopped = True
        return [bus for home, bus in self._buses.items() if home] + [self.main]

    def _reason(self, home: str, bus: B, timeout: float) -> BusError | None:
        """Why there is no connection; None where there is one."""
        if bus.connected:
            return None
        return self._errors.get(home) or BusError(
            f"no connection to {bus.address}", given=f"after {timeout:.1f} s", advice="allow more time"
        )


class Connections(BaseConnections[Bus, threading.Condition]):
    """Buses by home, each on a thread of its own. Every method may be called from any thread."""

    _bus, _condition = Bus, threading.Condition

    def wait(self, home: str, timeout: float) -> BusError | None:
        """Wait up to `timeout` seconds for the connection to a home; why there is none, as soon as that is known."""
        bus = self.to(home)
        with self._changed:
            self._changed.wait_for(lambda: bus.connected or home in self._errors, timeout)
            return self._reason(home, bus, timeout)

    def flush(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until every message is through, at every home; whether it is."""
        deadline = time.monotonic() + timeout
        # Each is given what is left, also where that is nothing.
        through = [bus.flush(max(deadline - time.monotonic(), 0.0)) for bus in self.all().values()]
        return all(through)

    def stop(self, timeout: float = 5.0) -> None:
        """Stop all, each after up to `timeout` seconds for its messages; that of the directory last."""
        for bus in self._closing():
            bus.stop(timeout)


class AsyncConnections(BaseConnections[AsyncBus, AsyncioCondition]):
    """Buses by home, all on the event loop that runs. `main` is started by its `start` or `start_nowait`."""

    _bus, _condition = AsyncBus, AsyncioCondition

    async def wait(self, home: str, timeout: float) -> BusError | None:
        """Wait for the connection to a home; see `Connections.wait`."""
        bus = self.to(home)
        await self._changed.wait_for(lambda: bus.connected or home in self._errors, timeout)
        return self._reason(home, bus, timeout)

    async def flush(self, timeout: float) -> bool:
        """Wait until every message is through; see `Connections.flush`."""
        return all(await asyncio.gather(*(bus.flush(timeout) for bus in self.all().values())))

    async def stop(self, timeout: float = 5.0) -> None:
        """Stop all, see `Connections.stop`. A task that is cancelled here has stopped them without further waiting."""
        left = self._closing()
        try:
            while left:
                await left[0].stop(timeout)
                left.pop(0)
        finally:
            for bus in left:
                bus.stop_nowait()
