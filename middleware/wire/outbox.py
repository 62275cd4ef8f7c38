"""Outbox: messages of a publisher until all nodes that read them have acknowledged them durably (design, section 4).

A node with checkpoints acknowledges what these cover (`middleware.wire.administration.Covered`): after a crash it, or
the next host of its detectors, requests what came behind. Recent messages are kept in any case, within the limits of
`KeptMessages`; older ones as long as a node has not acknowledged them, up to a limit of bytes over all. Nodes without
checkpoints acknowledge nothing, and hold nothing.

An outbox that queues takes the messages of a client whose server is away, too.

Where the outbox is full, nodes that have left the directory hold nothing any more: they may never come back. If others
still do, the publisher waits, or by its choice drops the oldest messages; readers that request them get a loss.

Rejected: acknowledgements of each message (a detector is in a checkpoint once a second at most); a hold for every node
of the directory (most read few of the streams); the acknowledgements of MQTT (a server sends them before it writes).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterable, Iterator
from typing import Final, Literal, TypeAlias

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.published_streams import KEPT_BYTES, KEPT_FOR, OVERHEAD, KeptMessages, StreamKey

OUTBOX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of an outbox, with what it takes to keep its messages."""

WhenFull: TypeAlias = Literal["wait", "drop"]


class Outbox(KeptMessages):
    """Messages of numbered streams, recent ones and those that are not acknowledged.

    One thread at a time adds messages and makes room; others may acknowledge under the lock of their session, or look
    for messages, meanwhile.

    Attributes:
        queues: whether messages wait here for a server that is away.
        unsent: those that do, in order; and `unsent_bytes` of them.
        held_bytes: of the messages beyond the recent ones.
        dropped: number of messages dropped that a node has not acknowledged, or that no server has had.
    """

    def __init__(
        self,
        most_bytes: int = OUTBOX_BYTES,
        when_full: WhenFull = "wait",
        *,
        recent_bytes: int = KEPT_BYTES,
        recent_for: int = KEPT_FOR,
        queues: bool = True,
    ) -> None:
        """Outbox of one client.

        Args:
            most_bytes: limit over all.
            when_full: `wait` for acknowledgements and servers, for some seconds; or `drop` the oldest messages.
            recent_bytes, recent_for: limits of recent messages, age in ns.
        """
        if type(most_bytes) is not int or most_bytes <= 0:
            raise DistcedError("not a size of an outbox", given=most_bytes, allowed="bytes, 1 or more")
        if when_full not in ("wait", "drop"):
            raise DistcedError("not a choice for a full outbox", given=when_full, allowed="wait or drop")
        super().__init__(min(recent_bytes, most_bytes), recent_for)
        self.when_full: WhenFull = when_full
        self.queues = queues
        self.unsent: deque[Publish] = deque()
        self.unsent_bytes = 0
        self.held_bytes = 0
        self.dropped = 0
        self._most = most_bytes
        # Older messages, in the order of publication, and the number of the first one of each stream.
        self._held: OrderedDict[tuple[StreamKey, int], tuple[bytes, int, int | None]] = OrderedDict()
        self._first_held: dict[StreamKey, int] = {}
        # Number of the first message that a node has not acknowledged, and the least of all nodes.
        self._acknowledged: dict[StreamKey, dict[str, int]] = {}
        self._least: dict[StreamKey, int] = {}
        # Streams with acknowledgements since messages were last added.
        self._news: deque[StreamKey] = deque()

    @property
    def full(self) -> bool:
        """Whether there may be no room for a message; `make_room` looks closer."""
        return self.size + self.held_bytes + self.unsent_bytes >= self._most and (
            self.held_bytes > 0 or self.unsent_bytes > 0
        )

    @property
    def total_bytes(self) -> int:
        """Size over all."""
        return self.size + self.held_bytes + self.unsent_bytes

    def defer(self, message: Publish) -> None:
        """Queue a message for a server that is away."""
        self.unsent.append(message)
        self.unsent_bytes += len(message.payload) + OVERHEAD

    def take_unsent(self, most: int | None = None) -> Iterator[Publish]:
        """Messages that have waited, in order; each is forgotten as it is taken."""
        for _ in range(len(self.unsent) if most is None else min(most, len(self.unsent))):
            message = self.unsent.popleft()
            self.unsent_bytes -= len(message.payload) + OVERHEAD
            yield message

    def acknowledge(self, node: str, stream: StreamKey, number: int) -> None:
        """A node has acknowledged the messages of a stream before a number; with 0 it holds none of them any more."""
        nodes = self._acknowledged.setdefault(stream, {})
        if number:
            nodes[node] = number
        else:
            nodes.pop(node, None)
        if nodes:
            self._least[stream] = min(nodes.values())
        else:
            del self._acknowledged[stream]
            self._least.pop(stream, None)
        self._news.append(stream)

    def keep(self, stream: StreamKey, number: int, payload: bytes, top: int | None, now: int) -> None:
        super().keep(stream, number, payload, top, now)
        if self._news:
            self._drop_acknowledged()

    def make_room(self, present: Container[str]) -> dict[str, int]:
        """Make room for a message where the outbox is full: nodes that it waits for, with the number of their streams;
        none where there is room.

        Args:
            present: nodes of the directory.
        """
        self._drop_acknowledged()
        if not self.full:
            return {}
        for stream, nodes in list(self._acknowledged.items()):
            for node in [each for each in nodes if each not in present]:
                self.acknowledge(node, stream, 0)
        self._drop_acknowledged()
        while self.full and self.when_full == "drop":
            self.dropped += 1
            if not self._held:
                next(self.take_unsent(1))
                continue
            (stream, number), _ = next(iter(self._held.items()))
            self._drop_held(stream, number)
        return self._holders() if self.full else {}

    def unacknowledged(self, stream: StreamKey) -> int | None:
        """Number of the first message of a stream that some node has not acknowledged; None for no such node."""
        return self._least.get(stream)

    def _holders(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for stream, first in self._first_held.items():
            for node, number in self._acknowledged.get(stream, {}).items():
                if number <= first:
                    found[node] = found.get(node, 0) + 1
        return found

    def _find(self, stream: StreamKey, number: int) -> tuple[bytes, int, int | None] | None:
        return self._kept.get((stream, number)) or self._held.get((stream, number))

    def _drop(self) -> None:
        """Drop the oldest of the recent messages, or hold it."""
        key, kept = self._kept.popitem(last=False)
        size = len(kept[0]) + OVERHEAD
        self.size -= size
        stream, number = key
        least = self._least.get(stream)
        if least is not None and number >= least:
            self._held[key] = kept
            self._first_held.setdefault(stream, number)
            self.held_bytes += size

    def _drop_acknowledged(self) -> None:
        while self._news:
            stream = self._news.popleft()
            least = self._least.get(stream)
            while (first := self._first_held.get(stream)) is not None and (least is None or first < least):
                self._drop_held(stream, first)

    def _drop_held(self, stream: StreamKey, number: int) -> None:
        payload, *_ = self._held.pop((stream, number))
        self.held_bytes -= len(payload) + OVERHEAD
        # Those of one stream are without gaps.
        if (stream, number + 1) in self._held:
            self._first_held[stream] = number + 1
        else:
            del self._first_held[stream]


def waits_for(holders: Iterable[tuple[str, int]]) -> str:
    """Nodes that a full outbox waits for, as text."""
    return ", ".join(f"{node} ({streams} streams)" if streams > 1 else node for node, streams in sorted(holders))
