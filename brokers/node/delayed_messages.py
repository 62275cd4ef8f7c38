"""Messages from the server of the directory that wait while events pass.

Where clients publish entries faster than the node consumes them, they wait here, and events pass, over a connection of
their own (`brokers.core.barriers`) or between them. Heartbeats pass with the events that they follow, and types with
those that they describe. A limit for the rate of requests was rejected: it would have to fit all clients together.

Messages wait in the order of arrival, but for entries of a client of which many wait already: these wait apart, by
client, in the order of its own, and are taken in turn where nothing else waits. So a request behind thousands of
another client waits for a few of them, and only what a crowding client publishes is consumed later than it was. The
mark behind which the directory has been read comes behind all. Turns for all clients were rejected: messages between
nodes about a subscription and a detector have to keep their order to the entries of both.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Container, Set
from contextlib import suppress
from typing import Final

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.topics import ROOT, Area, decode_level, directory_topic

ROOM: Final = 64 * 1024 * 1024
"""Bytes of waiting messages at most; events wait, too, where there are more."""

CROWD: Final = 16
"""Waiting entries of a client from which further ones wait apart."""

_OVERHEAD: Final = 256  # bytes of memory of a message beside its payload


class DelayedMessages:
    """Queue of messages, in the order of arrival, with those of crowding clients behind all others.

    Attributes:
        excessive: clients with a crowd that is too large, until they are removed here.
        size: bytes of the messages, with what it takes to keep them.
    """

    def __init__(
        self, root: str = ROOT, mark: str = "", most: int = sys.maxsize, left_out: Container[str] = frozenset()
    ) -> None:
        """
        Args:
            mark: topic of the message that comes behind all before it.
            most: entries that a crowd of one client may have; of those with more, `excessive` has the clients.
            left_out: clients whose entries of subscriptions are not kept.
        """
        self._mark = mark
        self._most = most
        self._left_out = left_out
        self.excessive: set[str] = set()
        self._first: deque[tuple[str, bytes]] = deque()
        # Number of entries among the first, by client, and those that wait apart, by client in the order of the turns.
        self._entries: Counter[str] = Counter()
        self._apart: OrderedDict[str, deque[tuple[str, bytes]]] = OrderedDict()
        # Entries that have waited apart, by client, since it has any.
        self._crowds: Counter[str] = Counter()
        self._length = self.size = 0
        self._delayed = (f"{root}/{Area.DIRECTORY}/", f"{root}/{Area.ADMINISTRATION}/")
        self._passing = (f"{root}/{Area.DIRECTORY}/type/", f"{root}/{Area.ADMINISTRATION}/heartbeat/")
        self._subscriptions = directory_topic("subscription", "-", root=root)[:-1]
        self._of_clients = (self._subscriptions, directory_topic("client", "-", root=root)[:-1])

    def __len__(self) -> int:
        return self._length

    @property
    def full(self) -> bool:
        """Whether there is no room for more."""
        return self.size > ROOM

    def clients(self) -> Set[str]:
        """Clients whose entries wait."""
        return self._entries.keys() | self._apart.keys()

    def takes(self, topic: str) -> bool:
        """Whether messages on a topic wait, rather than pass with the events."""
        return topic.startswith(self._delayed) and not topic.startswith(self._passing)

    def put(self, topic: str, payload: bytes) -> None:
        """Have a message wait behind the others."""
        client = self._client(topic)
        # Of a subscription whose name has no client the only level is that name.
        below = topic.removeprefix(self._subscriptions)
        if below != topic and "/" in below and client in self._left_out:
            return
        self._length += 1
        self.size += len(payload) + _OVERHEAD
        if client and (client in self._apart or self._entries[client] >= CROWD):
            self._apart.setdefault(client, deque()).append((topic, payload))
            if payload:
                self._crowds[client] += 1
                if self._crowds[client] > self._most:
                    self.excessive.add(client)
            return
        if topic == self._mark:
            for waiting in self._apart.values():
                self._first += waiting
            self._entries.update({each: len(waiting) for each, waiting in self._apart.items()})
            self._apart.clear()
            self._crowds.clear()
        if client:
            self._entries[client] += 1
        self._first.append((topic, payload))

    def take(self) -> tuple[str, bytes]:
        """Remove the message whose turn it is."""
        if self._first:
            topic, payload = self._first.popleft()
            if client := self._client(topic):
                self._entries[client] -= 1
                if not self._entries[client]:
                    del self._entries[client]
        else:
            client, waiting = self._apart.popitem(last=False)
            topic, payload = waiting.popleft()
            if waiting:
                self._apart[client] = waiting
            else:
                del self._crowds[client]
        self._length -= 1
        self.size -= len(payload) + _OVERHEAD
        return topic, payload

    def _client(self, topic: str) -> str:
        """Client that a topic belongs to; empty for none."""
        for start in self._of_clients:
            if topic.startswith(start):
                with suppress(DistcedError):
                    return decode_level(topic[len(start) :].partition("/")[0])
        return ""
