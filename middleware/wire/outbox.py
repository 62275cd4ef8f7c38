"""Outbox: messages of a publisher until all nodes that read them have acknowledged them durably (design, section 4).

A node with checkpoints acknowledges what these cover (`middleware.wire.administration.Covered`): after a crash it, or
the next host of its detectors, requests what came behind. Recent messages are kept in any case, within the limits of
`KeptMessages`; older ones as long as a node has not acknowledged them, up to a limit of bytes over all. Nodes without
checkpoints acknowledge nothing, and hold nothing.

An outbox that queues takes the messages of a client whose server is away, too. One with a path outlives its process
(`middleware.wire.outbox_log`): a client that starts again with it continues the streams of its sources.

Where the outbox is full, nodes that have left the directory hold nothing any more: they may never come back. If others
still do, the publisher waits, or by its choice drops the oldest messages; readers that request them get a loss.

Rejected: acknowledgements of each message (a detector is in a checkpoint once a second at most); a hold for every node
of the directory (most read few of the streams); the acknowledgements of MQTT (a server sends them before it writes).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterable, Iterator
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeAlias

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.outbox_log import KeptMessage, OutboxLog
from distced.middleware.wire.published_streams import KEPT_BYTES, KEPT_FOR, OVERHEAD, KeptMessages, StreamKey

OUTBOX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of an outbox, with what it takes to keep its messages."""

WhenFull: TypeAlias = Literal["wait", "drop"]


class Outbox(KeptMessages):
    """Messages of numbered streams, recent ones and those that are not acknowledged.

    One thread at a time adds messages and makes room; others may acknowledge under the lock of their session, or look
    for messages, meanwhile.

    Attributes:
        path: folder in which it outlives its process; None for memory alone.
        sync_every: interval at which the folder is forced to the disk, s; 0 before each message, None for never.
        again: messages of an earlier process that are published again, in order.
        queues: whether messages wait here for a server that is away.
        unsent: those that do, in order; and `unsent_bytes` of them.
        held_bytes: of the messages beyond the recent ones.
        dropped: number of messages dropped that a node has not acknowledged, or that no server has had.
    """

    def __init__(
        self,
        most_bytes: int = OUTBOX_BYTES,
        when_full: WhenFull = "wait",
        path: str | Path | None = None,
        sync_every: float | None = 1.0,
        *,
        recent_bytes: int = KEPT_BYTES,
        recent_for: int = KEPT_FOR,
        queues: bool = True,
    ) -> None:
        """Outbox of one client.

        Args:
            most_bytes: limit over all.
            when_full: `wait` for acknowledgements and servers, for some seconds; or `drop` the oldest messages.
            path: folder of this outbox alone, in which it outlives its process.
            sync_every: interval at which the folder is forced to the disk, s: what a power cut may take. 0 before each
                message is published, None for when the system sees fit.
            recent_bytes, recent_for: limits of recent messages, age in ns.
        """
        if type(most_bytes) is not int or most_bytes <= 0:
            raise DistcedError("not a size of an outbox", given=most_bytes, allowed="bytes, 1 or more")
        if when_full not in ("wait", "drop"):
            raise DistcedError("not a choice for a full outbox", given=when_full, allowed="wait or drop")
        if sync_every is not None and not sync_every >= 0:
            raise DistcedError("not an interval of an outbox", given=sync_every, allowed="seconds, 0 or more; or None")
        super().__init__(min(recent_bytes, most_bytes), recent_for)
        self.when_full: WhenFull = when_full
        self.most_bytes = most_bytes
        self.path = None if path is None else Path(path).expanduser()
        self.sync_every = sync_every
        self.queues = queues
        self.again: deque[Publish] = deque()
        self.unsent: deque[Publish] = deque()
        self.unsent_bytes = 0
        self.held_bytes = 0
        self.dropped = 0
        self._most = most_bytes
        # Older messages, in the order of publication, and the number of the first one of each stream.
        self._held: OrderedDict[tuple[StreamKey, int], tuple[bytes, int, int | None]] = OrderedDict()
        self._first_held: dict[StreamKey, int] = {}
        # Of these, with a log, those that wait for the server, and perhaps for nothing else.
        self._waiting: dict[tuple[StreamKey, int], None] = {}
        # The same, by source, of those that are not open yet: published with them.
        self._unopened: dict[str, dict[tuple[StreamKey, int], None]] = {}
        # Number of the first message that a node has not acknowledged, and the least of all nodes.
        self._acknowledged: dict[StreamKey, dict[str, int]] = {}
        self._least: dict[StreamKey, int] = {}
        # Acknowledgements since messages were last added: node, stream, number.
        self._news: deque[tuple[str, StreamKey, int]] = deque()

    def attach(self, log: OutboxLog) -> None:
        """Continue from a log, and write to it from now on."""
        self._kept.clear()
        self._held.clear()
        self._first_held.clear()
        self._waiting.clear()
        self._unopened.clear()
        self._acknowledged.clear()
        self._least.clear()
        self._news.clear()
        self.again.clear()
        self.unsent.clear()
        self.size = self.held_bytes = self.unsent_bytes = 0
        self.log = log
        self._gaps = dict(log.gaps)
        for node, numbers in log.acknowledged.items():
            for stream, number in numbers.items():
                self._count(node, stream, number)
        # Each list is in order, whatever the clock was set to.
        for each in merge(*log.messages.values(), key=lambda each: each.at):
            super().keep(each.stream, each.number, each.payload, each.top, each.at)
        log.needed = self._needed

    def detach(self) -> None:
        """Close the log, at the end of the client."""
        if self.log is not None:
            self._drop_acknowledged()
            self.log.close()
            self.log = None

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
        if self.log is None:
            self.unsent_bytes += len(message.payload) + OVERHEAD

    @property
    def waits(self) -> bool:
        """Whether messages wait here."""
        return bool(self.again or self.unsent)

    @property
    def unopened(self) -> list[str]:
        """Sources of an earlier process that are not open yet, and whose messages take room."""
        return sorted(source for source, held in self._unopened.items() if held)

    def take_unsent(self, most: int | None = None) -> Iterator[Publish]:
        """Messages that have waited, in order; each is forgotten as it is taken."""
        left = len(self.again) + len(self.unsent) if most is None else most
        while self.again and left:
            left -= 1
            yield self.again.popleft()
        for _ in range(min(left, len(self.unsent))):
            message = self.unsent.popleft()
            if self.log is None:
                self.unsent_bytes -= len(message.payload) + OVERHEAD
            yield message

    def acknowledge(self, node: str, stream: StreamKey, number: int) -> None:
        """A node has acknowledged the messages of a stream before a number; with 0 it holds none of them any more."""
        if self._acknowledged.get(stream, {}).get(node, 0) != number:
            self._count(node, stream, number)
            self._news.append((node, stream, number))

    def _count(self, node: str, stream: StreamKey, number: int) -> None:
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

    def keep(self, stream: StreamKey, number: int, payload: bytes, top: int | None, now: int) -> None:
        super().keep(stream, number, payload, top, now)
        if self._news:
            self._drop_acknowledged()
        self._release()

    def make_room(self, present: Container[str]) -> dict[str, int]:
        """Make room for a message where the outbox is full: nodes that it waits for, with the number of their streams;
        none where there is room.

        Args:
            present: nodes of the directory.
        """
        self._drop_acknowledged()
        self._release()
        if not self.full:
            return {}
        for stream, nodes in list(self._acknowledged.items()):
            for node in [each for each in nodes if each not in present]:
                self.acknowledge(node, stream, 0)
        self._drop_acknowledged()
        while self.full and self.when_full == "drop":
            self.dropped += 1
            if not self._held:
                self.unsent_bytes -= len(self.unsent.popleft().payload) + OVERHEAD
                continue
            key = next(iter(self._held))
            self._drop_held(*key)
            if key in self._unopened.get(key[0][0], ()):
                del self._unopened[key[0][0]][key]
            elif key in self._waiting:
                del self._waiting[key]
                if self.unsent and not self.again:
                    self.unsent.popleft()
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
        # The last ones wait for the server; all may, where some are published again.
        log, waits = self.log, False
        if log is not None and (least is None or number >= least):
            waits = bool(self.again or log.messages or len(self._kept) < len(self.unsent))
        if waits:
            unopened = log is not None and stream[0] in log.messages
            (self._unopened.setdefault(stream[0], {}) if unopened else self._waiting)[key] = None
        if waits or (least is not None and number >= least):
            self._held[key] = kept
            self._first_held.setdefault(stream, number)
            self.held_bytes += size
        elif self.log is not None:
            self.log.forget(*key)

    def _drop_acknowledged(self) -> None:
        while self._news:
            node, stream, acknowledged = self._news.popleft()
            if self.log is not None:
                self.log.acknowledge(node, stream, acknowledged)
            least = self._least.get(stream)
            while (first := self._first_held.get(stream)) is not None and (least is None or first < least):
                if (stream, first) in self._waiting or (stream, first) in self._unopened.get(stream[0], ()):
                    break
                self._drop_held(stream, first)

    def _release(self) -> None:
        """Drop messages that have waited for the server alone, and are with it."""
        unopened = () if self.log is None else self.log.messages
        for source in [each for each in self._unopened if each not in unopened]:
            self._waiting.update(self._unopened.pop(source))
        if self.waits:
            return
        waiting, self._waiting = self._waiting, {}
        for stream, number in waiting:
            least = self._least.get(stream)
            if (stream, number) in self._held and (least is None or number < least):
                self._drop_held(stream, number)

    def _drop_held(self, stream: StreamKey, number: int) -> None:
        payload, *_ = self._held.pop((stream, number))
        self.held_bytes -= len(payload) + OVERHEAD
        if self.log is not None:
            self.log.forget(stream, number)
        # Those of one stream are without gaps.
        if (stream, number + 1) in self._held:
            self._first_held[stream] = number + 1
        else:
            del self._first_held[stream]

    def _needed(self) -> Iterator[KeptMessage]:
        """All messages, as the log has them."""
        for (stream, number), (payload, at, top) in chain(self._held.items(), self._kept.items()):
            yield KeptMessage(stream, number, payload, at, top)


def waits_for(holders: Iterable[tuple[str, int]]) -> str:
    """Nodes that a full outbox waits for, as text."""
    return ", ".join(f"{node} ({streams} streams)" if streams > 1 else node for node, streams in sorted(holders))
