"""Messages waiting to be sent: bounded, filled by any thread, emptied by the bus's own.

A message counts until it is settled: at QoS 0 when the operating system has it, at QoS 1 when the server has
acknowledged it. That is what the bound is on, for paho's own queue is unbounded at QoS 0.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from distced.middleware.bus.messages import Message
from distced.middleware.model.errors import BusError


class Outbox:
    """A bounded queue of messages.

    Attributes:
        limit: how many messages may be unsettled.
        refused: how many found no room in time.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise BusError("not a number of messages to wait", given=limit, allowed="1 or more")
        self.limit = limit
        self.refused = 0
        self._queue: deque[Message] = deque()
        self._unsettled = 0
        self._waiting = 0
        self._closed = False
        self._changed = threading.Condition()

    def __bool__(self) -> bool:
        """Whether there is a message to send."""
        return bool(self._queue)

    @property
    def unsettled(self) -> int:
        """Messages neither sent nor given up: those queued, and those under way at QoS 1."""
        return self._unsettled

    @property
    def full(self) -> bool:
        """Whether there is no room."""
        return self._unsettled >= self.limit

    @property
    def closed(self) -> bool:
        """Whether nothing is taken any more."""
        return self._closed

    def put(self, message: Message, timeout: float) -> bool:
        """Queue a message, waiting for room up to so many seconds; False where there was none, or it is closed."""
        with self._changed:
            if self._unsettled >= self.limit and not self._closed and timeout > 0:
                self._waiting += 1
                self._changed.wait_for(lambda: self._unsettled < self.limit or self._closed, timeout)
                self._waiting -= 1
            if self._closed:
                return False
            if self._unsettled >= self.limit:
                self.refused += 1
                return False
            self._unsettled += 1
            self._queue.append(message)
            return True

    def take(self) -> Message:
        """The message that has waited longest, to be sent."""
        return self._queue.popleft()

    def first(self) -> Message:
        """The message that has waited longest."""
        return self._queue[0]

    def settle(self, count: int) -> None:
        """So many messages taken earlier are through, or given up."""
        with self._changed:
            self._unsettled -= count
            # Whoever waits is woken when half is free: one by one, threads would switch for each message.
            if not self._unsettled or (self._waiting and self._unsettled <= self.limit // 2):
                self._changed.notify_all()

    def put_back(self, messages: Iterable[Message]) -> None:
        """Return messages that were taken and are not settled, in order, to the front."""
        self._queue.extendleft(reversed(list(messages)))

    def wait_settled(self, timeout: float) -> bool:
        """Wait up to so many seconds until everything is settled; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unsettled or self._closed, timeout) and not self._unsettled

    def close(self) -> list[Message]:
        """Take nothing any more, wake whoever waits, and return what is left in the queue."""
        with self._changed:
            self._closed = True
            left = list(self._queue)
            self._queue.clear()
            self._changed.notify_all()
            return left
