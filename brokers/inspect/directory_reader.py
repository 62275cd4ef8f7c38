"""Read-only view of the directory, sans-I/O: all its entries, kept up to date, and read again after a lost connection.

A `Client` reads the directory, too, but publishes an entry of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect, Subscribe
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.administration import COUNTERS
from distced.middleware.wire.directory_handshake import DirectoryHandshake
from distced.middleware.wire.topics import ROOT, Area, area_filter, parse_topic


class ViewState(NamedTuple):
    """State of a view.

    Attributes:
        version: increases with every change.
        unreadable: errors of malformed entries.
        lost: reason for the lost connection; empty while there is one.
    """

    version: int
    unreadable: tuple[str, ...]
    lost: str


class DirectoryReader:
    """Reader of a server's directory. While it is read again after a lost connection, the earlier content stays.

    Attributes:
        directory: its entries.
        settings: retained messages of administration, by levels.
        known: whether it was read completely, once.
    """

    def __init__(self, name: str, *, of: str = "", settings: Sequence[str] = (), root: str = ROOT) -> None:
        """A reader of this unique name, `of` a participant, and of these kinds of retained messages of administration,
        e.g. `policy`."""
        self.directory = Directory()
        self.settings: dict[tuple[str, ...], bytes] = {}
        self._root = root
        self._handshake = DirectoryHandshake(of, root, name) if of else DirectoryHandshake(name, root)
        self._filters = (
            area_filter(Area.DIRECTORY, root=root),
            *(area_filter(Area.ADMINISTRATION, each, root=root) for each in (COUNTERS, *settings)),
            self._handshake.topic,
        )
        self._unreadable: dict[str, str] = {}
        # While the directory is being read: its entries, and errors, so far.
        self._coming: tuple[Directory, dict[str, str]] | None = None
        self._lost = ""
        self._version = 0

    @property
    def known(self) -> bool:
        return self._handshake.settled

    @property
    def state(self) -> ViewState:
        """Version, errors and connection of the view."""
        unreadable = tuple(self._unreadable[topic] for topic in sorted(self._unreadable))
        return ViewState(self._version, unreadable, self._lost)

    def start(self, now: int) -> list[Effect]:
        """Effects of a connection, perhaps a repeated one."""
        self._coming = (Directory(), {})
        return [*(Subscribe(each) for each in self._filters), self._handshake.begin(now)]

    def lost(self, reason: str) -> None:
        """Effects of a lost connection."""
        if self.known:
            self._coming = None
            self._lost = reason
            self._version += 1

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time; call it a few times a second while connected."""
        return list(self._handshake.again(now))

    def receive(self, topic: str, payload: bytes) -> None:
        """Effects of a message."""
        if topic == self._handshake.topic:
            if self._handshake.answered(payload) and self._coming is not None:
                (self.directory, self._unreadable), self._coming = self._coming, None
                self._lost = ""
                self._version += 1
            return
        directory, unreadable = self._coming or (self.directory, self._unreadable)
        unreadable.pop(topic, None)
        try:
            area, levels = parse_topic(topic, root=self._root)
            if area is Area.DIRECTORY:
                directory.read(levels, payload, where=topic)
            elif levels[0] == COUNTERS:
                directory.count(levels[-1], payload, where=topic)
            elif payload:
                self.settings[levels] = payload
            else:
                self.settings.pop(levels, None)
        except DistcedError as error:
            if payload:
                unreadable[topic] = str(error)
        if self._coming is None:
            self._version += 1
