"""The directory of a server, read by somebody who only looks.

A `Client` reads it, too, but puts itself into the directory, and nodes then look after it; who looks should not change
what there is to see.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from distced.brokers.core.directory import Directory
from distced.middleware.bus import Bus, BusState
from distced.middleware.cli.options import PATIENCE
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.wire.topics import ROOT, Area, administration_topic, area_filter, parse_topic

ASK_EVERY: Final = 0.5
"""Seconds between questions whether the directory was read, until it was."""

T = TypeVar("T")


class State(NamedTuple):
    """How it stands with the directory.

    Attributes:
        version: another one means that something has changed, perhaps.
        unreadable: what is wrong with entries that are none.
        lost: why there is no connection; empty where there is.
    """

    version: int
    unreadable: tuple[str, ...]
    lost: str


class Reading:
    """The directory of a server, read and kept up to date on the thread of a bus.

    After a lost connection it is read from the start, and until that is done it stays as it was.
    """

    def __init__(self, url: str, *, root: str = ROOT) -> None:
        """Describe it; nothing happens before `open`."""
        self._changed = threading.Condition()
        self._root = root
        self._directory = Directory()
        self._unreadable: dict[str, str] = {}
        # While the directory is being read, what was read of it so far.
        self._coming: tuple[Directory, dict[str, str]] | None = None
        self._known = False
        self._lost = ""
        self._version = 0
        self._bus = Bus(url, on_state=self._state_changed)
        self._known_topic = administration_topic("known", self._bus.client_id, root=root)

    @contextmanager
    def open(self, timeout: float = PATIENCE) -> Iterator[Reading]:
        """Connect and read; raise `BusError` where that does not come about in so many seconds."""
        deadline = time.monotonic() + timeout
        self._bus.subscribe(area_filter(Area.DIRECTORY, root=self._root), self._entry, qos=1)
        self._bus.subscribe(self._known_topic, self._read, qos=1)
        self._bus.every(ASK_EVERY, self._ask)
        with self._bus:
            self._bus.wait_connected(timeout)
            with self._changed:
                if not self._changed.wait_for(lambda: self._known, max(deadline - time.monotonic(), ASK_EVERY)):
                    raise BusError(
                        "the directory could not be read", given=f"after {timeout} s", where=str(self._bus.address)
                    )
            yield self

    def look(self, see: Callable[[Directory], T]) -> tuple[T, State]:
        """What a function makes of the directory as it is now, and how it stands with the directory."""
        with self._changed:
            unreadable = tuple(self._unreadable[topic] for topic in sorted(self._unreadable))
            return see(self._directory), State(self._version, unreadable, self._lost)

    def wait(self, state: State, timeout: float | None) -> None:
        """Wait until something is different, up to so many seconds; None is for ever."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != state.version, timeout)

    # On the thread of the bus.

    def _state_changed(self, state: BusState, error: BusError | None) -> None:
        if state is BusState.CONNECTED:
            self._coming = (Directory(), {})
            self._ask()
        elif state is BusState.WAITING and self._known:
            self._coming = None
            with self._changed:
                self._lost = str(error)
                self._tell()

    def _ask(self) -> None:
        # What is retained comes before what is sent behind the subscription to it; but amqtt may take a message before
        # a subscription that was sent before it.
        if self._coming is not None and self._bus.connected:
            self._bus.publish(self._known_topic, b"", qos=1)

    def _entry(self, topic: str, payload: bytes, retain: bool) -> None:
        with self._changed:
            directory, unreadable = self._coming or (self._directory, self._unreadable)
            unreadable.pop(topic, None)
            try:
                directory.read(parse_topic(topic, root=self._root).levels, payload, where=topic)
            except DistcedError as error:
                if payload:
                    unreadable[topic] = str(error)
            if self._coming is None:
                self._tell()

    def _read(self, topic: str, payload: bytes, retain: bool) -> None:
        """All that was retained has come."""
        if self._coming is None:
            return
        with self._changed:
            (self._directory, self._unreadable), self._coming = self._coming, None
            self._known, self._lost = True, ""
            self._tell()

    def _tell(self) -> None:
        self._version += 1
        self._changed.notify_all()
