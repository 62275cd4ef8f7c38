"""Queue of messages of publishers that publish faster than their rate, by publisher, served in turn between others.

Nagle's fair queueing (RFC 970), as of requests (`brokers.node.request_queue`): what one publishes without end delays
the events of others by one message each, and its own by what is before them. All its messages wait while any does,
events and promises, so that their order stays. Beyond `MOST` bytes further ones are rejected.

Rejected: to reject what is beyond a rate (a history that is published again, or an outbox that was full, would lose
events), and to serve messages by size alone (small ones of one source would overtake its large ones).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, NamedTuple

MOST: Final = 64 * 1024 * 1024
"""Bytes of the messages of one publisher that wait, with what it takes to keep them."""

MOST_IN_ALL: Final = 4 * MOST
"""Bytes of the messages of all of them."""

TOGETHER: Final = 64 * 1024
"""Bytes of the messages of a publisher that are consumed in one turn, or one message."""

_OVERHEAD: Final = 256


class WaitingFrame(NamedTuple):
    """Message with the home that it has come from."""

    topic: str
    payload: bytes
    home: str

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.topic) + len(self.payload) + _OVERHEAD


class WaitingFrames:
    """Messages by publisher, in the order of the next turn.

    Attributes:
        most: bytes of those of one publisher.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._waiting: OrderedDict[str, deque[WaitingFrame]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._size = self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, publisher: object) -> bool:
        return publisher in self._waiting

    def put(self, publisher: str, frame: WaitingFrame) -> bool:
        """Have a message wait behind the others of its publisher; False where there is no room."""
        size = self._sizes.get(publisher, 0) + frame.size
        if size > self.most or self._size + frame.size > MOST_IN_ALL:
            return False
        self._sizes[publisher] = size
        self._size += frame.size
        self._length += 1
        self._waiting.setdefault(publisher, deque()).append(frame)
        return True

    def take(self) -> list[WaitingFrame]:
        """Remove the first messages of the publisher whose turn it is; none where none waits."""
        if not self._waiting:
            return []
        publisher, waiting = self._waiting.popitem(last=False)
        taken = [waiting.popleft()]
        size = taken[0].size
        while waiting and size + waiting[0].size <= TOGETHER:
            taken.append(waiting.popleft())
            size += taken[-1].size
        self._length -= len(taken)
        self._size -= size
        if waiting:
            self._sizes[publisher] -= size
            self._waiting[publisher] = waiting
        else:
            del self._sizes[publisher]
        return taken
