"""Delivery of messages: those to be sent until they are settled, those received until they are acknowledged.

A message is settled at QoS 0 once the operating system has it, at QoS 1 once the server has acknowledged it. Unsettled
messages are bounded here, as paho's own queue is unbounded at QoS 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

from distced.middleware.bus.connection import Connection
from distced.middleware.bus.messages import Message
from distced.middleware.model.errors import BusError


class Changed(Protocol):
    """Condition to wait on: `threading.Condition`, or `AsyncioCondition`; each bus waits in its own way."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: Any) -> Any: ...

    def notify_all(self) -> None: ...


class Outbox:
    """Bounded queue of messages to send; notifies of room and of completion.

    Attributes:
        unsettled: messages queued, or under way at QoS 1.
        closed: whether it rejects further messages.
        refused, waiting: messages without room in time, and publishers that wait for room.
    """

    def __init__(self, limit: int, changed: Changed) -> None:
        if limit < 1:
            raise BusError("not a number of messages to wait", given=limit, allowed="1 or more")
        self.limit = limit
        self.refused = 0
        self.waiting = 0
        self.unsettled = 0
        self.closed = False
        self._queue: deque[Message] = deque()
        self._changed = changed

    def __bool__(self) -> bool:
        """Whether a message waits to be sent."""
        return bool(self._queue)

    @property
    def full(self) -> bool:
        """Whether there is no room."""
        return self.unsettled >= self.limit

    def has_room(self) -> bool:
        """Whether waiting for room is over: there is some, or the outbox is closed."""
        return self.unsettled < self.limit or self.closed

    def is_through(self) -> bool:
        """Whether waiting for completion is over: all is settled, or never will be."""
        return not self.unsettled or self.closed

    def put(self, message: Message) -> bool:
        """Queue a message; False where it is full or closed. The caller holds the condition."""
        if self.closed:
            return False
        if self.unsettled >= self.limit:
            self.refused += 1
            return False
        self.unsettled += 1
        self._queue.append(message)
        return True

    def take(self) -> Message:
        """Remove the oldest message, to be sent."""
        return self._queue.popleft()

    def first(self) -> Message:
        """Oldest message."""
        return self._queue[0]

    def settle(self, count: int) -> None:
        """Count messages as through, or given up."""
        with self._changed:
            self.unsettled -= count
            # Publishers are woken when half is free: one by one, threads would switch for each message.
            if not self.unsettled or (self.waiting and self.unsettled <= self.limit // 2):
                self._changed.notify_all()

    def put_back(self, messages: Iterable[Message]) -> None:
        """Return messages that were taken and are not settled, in order, to the front."""
        self._queue.extendleft(reversed(list(messages)))

    def close(self) -> list[Message]:
        """Take no further message, end all waiting, and return the queue."""
        with self._changed:
            self.closed = True
            left = list(self._queue)
            self._queue.clear()
            self._changed.notify_all()
            return left


class Receipts:
    """Acknowledgements of QoS 1: on handling, or held until the covering state is safe; `mark`: messages handled."""

    def __init__(self, *, hold: bool) -> None:
        self.mark = 0
        self._hold = hold
        # Numbers of packets handled and not acknowledged, oldest first. The server wants them in this order.
        self._held: deque[int] = deque()

    def handled(self, number: int, connection: Connection) -> None:
        """Count a message as handled."""
        self.mark += 1
        if self._hold:
            self._held.append(number)
        else:
            connection.acknowledge(number)

    def acknowledge(self, mark: int, connection: Connection | None) -> None:
        """Acknowledge the messages handled up to a mark."""
        while self._held and self.mark - len(self._held) < mark and connection is not None:
            connection.acknowledge(self._held.popleft())

    def forget(self) -> None:
        """Drop what is held: after a loss the server sends it again, under other numbers."""
        self._held.clear()
