"""Published streams: numbers of a publisher's messages, and those kept for readers that lack some.

The counterpart of `middleware.wire.numbered_stream`. Recent messages are kept within a limit of bytes and of age, over
all streams, the oldest dropped first. A reader that asks for others gets a message that they are not available, with
the event time that they reach to.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MINUTE
from distced.middleware.wire.administration import Missing, MissingMessages, Unavailable
from distced.middleware.wire.codec import encode
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.outbox_log import OutboxLog, SourceMark
from distced.middleware.wire.topics import administration_topic

KEPT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of kept messages, with what it takes to keep them."""

KEPT_FOR: Final = 10 * MINUTE
"""Age of kept messages, ns."""

HANDED_ON_BYTES: Final = 64 * 1024
"""Bytes of the frames that a detector takes along."""

OVERHEAD: Final = 250
"""Bytes to keep a message, beside its payload."""

AT_ONCE: Final = 2_000
"""Number of messages in the answer to one request; the reader asks again for more."""

NOT_KEPT: Final = "its publisher does not keep the messages any more"
"""Reason of a loss."""

StreamKey: TypeAlias = tuple[str, Any]
"""Source and type of its events, or detector and life of its host."""


class KeptMessages:
    """Recent messages of numbered streams. One thread at a time adds messages, others may look for them meanwhile.

    Attributes:
        size: bytes, with what it takes to keep them.
        log: of what outlives the process; None for nothing.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES, longest: int = KEPT_FOR) -> None:
        """Args: most_bytes, longest: limits of size, and of age, ns."""
        self.size = 0
        self.log: OutboxLog | None = None
        self._most_bytes = most_bytes
        self._longest = longest
        # Where a stream has gone on behind a power cut: numbers without messages, from one to another, exclusive.
        self._gaps: dict[StreamKey, tuple[int, int]] = {}
        # With the instant of publication, in its order, and the greatest `hi` of all earlier ones, ns.
        self._kept: OrderedDict[tuple[StreamKey, int], tuple[bytes, int, int | None]] = OrderedDict()

    def keep(self, stream: StreamKey, number: int, payload: bytes, top: int | None, now: int) -> None:
        """Keep a message; `top`: greatest `hi` of all earlier ones, ns."""
        kept = self._kept
        kept[stream, number] = payload, now, top
        self.size += len(payload) + OVERHEAD
        while self.size > self._most_bytes or (kept and next(iter(kept.values()))[1] < now - self._longest):
            self._drop()

    def rest(self, now: int) -> None:
        """Drop messages beyond the limit of age."""
        while self._kept and next(iter(self._kept.values()))[1] < now - self._longest:
            self._drop()

    def first(self, stream: StreamKey, begin: int, end: int) -> int:
        """Number of the first kept message at or behind `begin`, `end` where there is none. Messages are dropped in
        order, so those up to `end` are kept."""
        gap, behind = self._gaps.get(stream, (end, end))
        if begin < gap < end:
            found = self._first(stream, begin, gap)
            return found if found < gap else self._first(stream, behind, end)
        return self._first(stream, begin, end)

    def _first(self, stream: StreamKey, low: int, high: int) -> int:
        while low < high:
            middle = (low + high) // 2
            if self._find(stream, middle) is not None:
                high = middle
            else:
                low = middle + 1
        return low

    def payloads(self, stream: StreamKey, begin: int, end: int) -> list[bytes]:
        """Kept messages from a number to another, exclusive."""
        found = (self._find(stream, number) for number in range(begin, end))
        return [each[0] for each in found if each is not None]

    def at(self, stream: StreamKey, number: int) -> int:
        """Instant of publication of a kept message, ns."""
        kept = self._find(stream, number)
        assert kept is not None, (stream, number)
        return kept[1]

    def top(self, stream: StreamKey, number: int) -> int | None:
        """Greatest `hi` of all messages before a kept one, ns."""
        kept = self._find(stream, number)
        return None if kept is None else kept[2]

    def _find(self, stream: StreamKey, number: int) -> tuple[bytes, int, int | None] | None:
        return self._kept.get((stream, number))

    def _drop(self) -> None:
        _, (payload, *_) = self._kept.popitem(last=False)
        self.size -= len(payload) + OVERHEAD


class PublishedStreams:
    """Streams of the sources of one publisher."""

    def __init__(self, kept: KeptMessages | None = None) -> None:
        self._kept = KeptMessages() if kept is None else kept
        # Number of the next message, and the greatest `hi` of all earlier ones, ns; None for none.
        self._next: dict[StreamKey, tuple[int, int | None]] = {}
        # Last promise of each source, ns.
        self._promised: dict[str, int] = {}
        # Of streams that continue, as long as messages are published again: the position of the first of these.
        self.again: dict[StreamKey, tuple[int, int | None]] = {}

    def promise(self, source: str, watermark: int) -> None:
        """Note the last promise of a source, ns, published or about to be."""
        self._promised[source] = watermark

    def promising(self, sources: Sequence[str], watermark: int) -> None:
        """Write a promise of sources to the log, if there is one, before it is published, ns."""
        if self._kept.log is not None:
            self._kept.log.promised(sources, watermark)

    def open(self, source: str, types: Sequence[str], start: int) -> SourceMark:
        """Begin the streams of a source at the microsecond of its start, or continue those of the log."""
        log = self._kept.log
        if log is None:
            for each in types:
                self.begin(source, each, start)
            return SourceMark(start)
        log.begun(source, types, start)
        for message in reversed(log.again(source)):
            self.again[message.stream] = message.number, message.top
        for each in types:
            self.begin(source, each, *log.streams[source, each])
        return log.sources[source]

    def begin(self, source: str, type_name: str, first: int, top: int | None = None) -> None:
        """Begin a stream with the number of its first message; continue one with the number of its next message, and
        the greatest `hi` of all earlier ones, ns."""
        self._next[source, type_name] = first, top

    def end(self, source: str, type_name: str) -> None:
        """End a stream; its messages are dropped with their age."""
        self._next.pop((source, type_name), None)
        self._promised.pop(source, None)

    def position(self, source: str, type_name: str, watermark: int | None) -> tuple[int, int | None]:
        """Number of the next message, and `top`, ns; None where it is not beyond the watermark sent along."""
        number, top = self._next[source, type_name]
        return number, None if top is None or (watermark is not None and top <= watermark) else top

    def publishing(
        self, source: str, type_name: str, payload: bytes, events: Sequence[Event], watermark: int | None, now: int
    ) -> None:
        """Write a message to the log, if there is one, before it is published; then `published`, or `withdrawn` where
        that has failed."""
        if self._kept.log is not None:
            number, top = self._next[source, type_name]
            self._kept.log.publishing((source, type_name), number, top, events, watermark, now, payload)

    def withdrawn(self, source: str, type_name: str) -> None:
        """The message was not published."""
        if self._kept.log is not None:
            self._kept.log.withdrawn((source, type_name), *self._next[source, type_name])

    def published(self, source: str, type_name: str, payload: bytes, hi: int, now: int) -> None:
        """Count a message as published, and keep it; `hi`: the greatest of its events, ns."""
        stream = source, type_name
        number, top = self._next[stream]
        self._next[stream] = number + 1, hi if top is None or hi > top else top
        self._kept.keep(stream, number, payload, top, now)

    def answer(self, missing: Missing, *, root: str, over: str = "") -> Iterator[Publish]:
        """Answer to a reader, over a connection: its messages, and from which on they are available; nothing of unknown
        streams."""
        left = AT_ONCE
        for each in missing.messages:
            known = self._next.get((each.source, each.type))
            if known is None:
                continue
            following, top = known
            if not each.begin and each.end == 0:
                promised = self._promised.get(each.source)
                if (each.source, each.type) in self.again:
                    (following, top), promised = self.again[each.source, each.type], None
                lost = Unavailable("e", each.source, following, top, each.type, position=True, watermark=promised)
                yield unavailable(missing.reader, lost, root, over)
                continue
            stream = each.source, each.type
            end = following if each.end is None else min(each.end, following)
            begin = self._kept.first(stream, each.begin, following)
            if begin > each.begin:
                first = self._kept.top(stream, begin) if begin < following else top
                lost = Unavailable("e", each.source, min(begin, end), first, each.type, NOT_KEPT)
                yield unavailable(missing.reader, lost, root, over)
            payloads = self._kept.payloads(stream, begin, min(end, begin + within(each, left)))
            yield from again(missing.reader, each, payloads, root, over)
            left -= len(payloads)


def within(asked: MissingMessages, left: int) -> int:
    """Number of messages to send again for a request, within the limit of its reader and of an answer."""
    return left if asked.most is None else min(asked.most, left)


def unavailable(reader: str, lost: Unavailable, root: str, over: str) -> Publish:
    """Message to a reader that messages are not available, over a connection."""
    return Publish(administration_topic("lost", reader, lost.kind, lost.source, root=root), encode(lost), home=over)


def again(reader: str, asked: MissingMessages, payloads: Iterable[bytes], root: str, over: str) -> Iterator[Publish]:
    """Messages to a reader that were missing, over a connection."""
    topic = administration_topic("again", reader, asked.kind, asked.source, root=root)
    return (Publish(topic, payload, home=over) for payload in payloads)
