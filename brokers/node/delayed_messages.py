"""Messages from the server of the directory that wait while events pass.

A node reads events and directory over one connection. Where a client publishes entries faster than the node consumes
them, they wait here, in order, and events behind them pass. That is what a connection of its own for events would do,
without a second one to each server, and with more: all that the server has sent before a message has been consumed by
the time the message is, so barriers mean what they do otherwise. Heartbeats pass with the events that they follow, and
types with those that they describe. A limit for the rate of requests was rejected: it would have to fit all clients
together.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from distced.middleware.wire.topics import ROOT, Area

ROOM: Final = 64 * 1024 * 1024
"""Bytes of waiting messages at most; events wait, too, where there are more."""

_OVERHEAD: Final = 256  # bytes of memory of a message beside its payload


class DelayedMessages:
    """Queue of messages, in the order of arrival."""

    def __init__(self, root: str = ROOT) -> None:
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._size = 0
        self._delayed = (f"{root}/{Area.DIRECTORY}/", f"{root}/{Area.ADMINISTRATION}/")
        self._passing = (f"{root}/{Area.DIRECTORY}/type/", f"{root}/{Area.ADMINISTRATION}/heartbeat/")

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether there is no room for more."""
        return self._size > ROOM

    def takes(self, topic: str) -> bool:
        """Whether messages on a topic wait, rather than pass with the events."""
        return topic.startswith(self._delayed) and not topic.startswith(self._passing)

    def put(self, topic: str, payload: bytes) -> None:
        """Have a message wait behind the others."""
        self._waiting.append((topic, payload))
        self._size += len(payload) + _OVERHEAD

    def take(self) -> tuple[str, bytes]:
        """Remove the first message."""
        topic, payload = self._waiting.popleft()
        self._size -= len(payload) + _OVERHEAD
        return topic, payload
