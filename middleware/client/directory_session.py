"""A client in the directory: what it knows of the others, and the entries it stands behind itself.

Entries are retained messages, so they outlive a connection; but a server may start again without a memory, and nodes
clear the subscriptions of a client that stays away. So after each connection, once the directory was read, a client
publishes anew what it stands behind and does not find there.

Who was given the server of its own site alone may find there a pointer to the server of the directory. It is read along
with the directory, so nobody waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from distced.middleware.bus import Bus
from distced.middleware.bus.pool import Pointer
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory import Change, Entries
from distced.middleware.wire.directory_entries import ClientEntry, decode, encode
from distced.middleware.wire.topics import (
    Area,
    administration_topic,
    area_filter,
    directory_topic,
    parse_topic,
    pointer_topic,
)

ASK_EVERY: Final = 0.5
"""Seconds between questions whether the directory was read, until it was."""


class Presence:
    """The directory as a client sees and fills it.

    Attributes:
        directory: what is known; to be read under `changed`, for it changes on the thread of the bus.
        changed: notified with every change.
        known: whether the directory was read, once.
        on_change: called with each change, on the thread of the bus.
    """

    def __init__(self, bus: Bus, name: str, root: str, clock: Clock, home: str = "") -> None:
        self.directory = Entries()
        self.changed = threading.Condition()
        self.known = False
        self.on_change: Callable[[Change], object] = lambda change: None
        self._bus = bus
        self._name = name
        self._root = root
        self._clock = clock
        self._home = home
        self._pointer = ""
        self._known_topic = administration_topic("known", name, root=root)
        self._own: dict[tuple[str, str], bytes] = {}
        # What has shown up since the connection stands, and whether the directory is still being read.
        self._seen: set[tuple[str, str]] = set()
        self._reading = False

    def listen(self) -> None:
        """Subscribe to what it hears; before the bus starts."""
        self._bus.subscribe(area_filter(Area.DIRECTORY, root=self._root), self._entry, qos=1)
        self._bus.subscribe(pointer_topic(root=self._root), self._pointed, qos=1)
        self._bus.subscribe(self._known_topic, self._read, qos=1)
        self._bus.every(ASK_EVERY, self._ask)

    @property
    def elsewhere(self) -> str:
        """The server where the directory is said to be, if there is none here; to be asked when this one is known."""
        with self.changed:
            return "" if self.directory.nodes else self._pointer

    def put(self, kind: str, name: str, entry: msgspec.Struct) -> None:
        """Publish an entry, and stand behind it from now on."""
        payload = encode(entry)
        with self.changed:
            self._own[kind, name] = payload
        self._bus.publish(directory_topic(kind, name, root=self._root), payload, qos=1, retain=True)

    def clear(self, kind: str, name: str) -> None:
        """Take an entry out of the directory."""
        with self.changed:
            self._own.pop((kind, name), None)
        self._bus.publish(directory_topic(kind, name, root=self._root), b"", qos=1, retain=True)

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """Wait up to so many seconds until something holds; whether it does."""
        with self.changed:
            return self.changed.wait_for(until, timeout)

    # On the thread of the bus.

    def connected(self) -> None:
        """The connection stands, or stands again."""
        self._seen = set()
        self._reading = True
        self._put_itself()
        self._ask()

    def _put_itself(self) -> None:
        self.put("client", self._name, ClientEntry(self._clock.now(), self._home))

    def _ask(self) -> None:
        # What the directory retains comes before what is sent behind the subscription to it. A server may take a
        # message before a subscription that was sent before it, and amqtt does; so it is asked again until there is an
        # answer.
        if self._reading and self._bus.connected:
            self._bus.publish(self._known_topic, b"", qos=1)

    def _entry(self, topic: str, payload: bytes, retain: bool) -> None:
        with suppress(DistcedError):  # Broker nodes report what is no entry.
            levels = parse_topic(topic, root=self._root).levels
            with self.changed:
                change = self.directory.read(levels, payload, where=topic)
                self._seen.add((change.kind, change.name))
                if change.entry is None and change.kind in ("type", "source"):
                    # Somebody else has cleared it, which holds.
                    self._own.pop((change.kind, change.name), None)
                self.changed.notify_all()
            own = ("client", self._name)
            if change.entry is None and (change.kind, change.name) == own and own in self._own:
                # The last will of a connection that was lost before this one.
                self._put_itself()
            self.on_change(change)

    def _pointed(self, topic: str, payload: bytes, retain: bool) -> None:
        with self.changed:
            self._pointer = decode(payload, Pointer, where=topic).url if payload else ""

    def _read(self, topic: str, payload: bytes, retain: bool) -> None:
        """The directory was read: forget what is there no more, and put back what is missing."""
        if not self._reading:
            return
        self._reading = False
        with self.changed:
            for kind, name in self.directory.names() - self._seen:
                self.directory.table(kind).pop(name)
            missing = [(kind, name, payload) for (kind, name), payload in self._own.items()]
            self.known = True
            self.changed.notify_all()
        for kind, name, content in missing:
            if (kind, name) not in self._seen:
                self._bus.publish(directory_topic(kind, name, root=self._root), content, qos=1, retain=True)
