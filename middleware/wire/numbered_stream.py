"""Numbered stream: messages of one publisher on one topic, by which a reader knows what is missing (design, section 4).

A publisher numbers the messages with events on each topic. With each message goes the greatest `hi` of all earlier
ones, `top`; with a heartbeat the number of the next message. So a reader knows from the stream itself, and not from its
connection, which messages are missing and within which event time. The watermark of a message counts once all messages
before it are there. What is missing is requested from the publisher (`middleware.wire.administration.Missing`), which
sends it again or declares it lost.

Numbers begin at the microsecond of the publisher's start, so they are unique over its lives. Sequence numbers of events
were rejected for this: a source creates events that it does not publish, and a reader takes some of its types only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import msgspec

from distced.middleware.model.events import EventId
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.bounded_values import Instant

CLAIMS: Final = 64
"""Number of promises kept that wait for missing messages; further ones replace the last."""


class Loss(msgspec.Struct, frozen=True):
    """Interval of event time in which events were lost for good.

    Composite events with `hi > since` and `lo <= until` may be missing or wrong, all others are exact.

    Attributes:
        since, until: ns since the Unix epoch, the first exclusive.
        reason: as text.
        concerned: ids of composite events that a subscription has received before, and that may be wrong, the last
            ones; none under guaranteed detection, where losses come first. Of later ones `concerns` tells.
    """

    since: Instant
    until: Instant
    reason: str
    concerned: tuple[EventId, ...] = ()

    def concerns(self, lo: int, hi: int) -> bool:
        """Whether composite events with this interval may be missing or wrong."""
        return hi > self.since and lo <= self.until

    def union(self, other: Loss) -> Loss:
        """One loss in place of two, with the reason of the other."""
        concerned = (*self.concerned, *(each for each in other.concerned if each not in self.concerned))
        return Loss(min(self.since, other.since), max(self.until, other.until), other.reason, concerned)


class StreamPosition(NamedTuple):
    """Position of a message: its stream among those of the source (type, or home), its number, and the greatest `hi` of
    all earlier ones, ns; None for none beyond the watermark of the message."""

    stream: str
    number: int
    top: int | None = None


class NumberedStream:
    """Messages received of one stream.

    Attributes:
        life: first number of the publisher's life; 0 for unknown.
        next: number of the first message that has not come; None for unknown, of a stream read from its middle, until
            the publisher has answered with its position.
        watermark: strongest promise with all messages before it received, ns; None for none.
        base: greatest `hi` that messages before the first one read may have, ns; None for none.
    """

    __slots__ = ("_ahead", "_claims", "base", "life", "next", "watermark")

    def __init__(self, first: int | None = None, life: int = 0) -> None:
        self.life = life
        self.next = first
        self.watermark: int | None = None
        self.base: int | None = None
        # Messages behind a missing one, by number: watermark and top of each. None for none.
        self._ahead: dict[int, tuple[int | None, int | None]] | None = None
        # Promises of heartbeats behind missing messages: next number, watermark, top; in order. None for none.
        self._claims: list[tuple[int, int, int | None]] | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing."""
        return self._ahead is None and self._claims is None and self.next is not None

    def take(self, number: int, watermark: int | None, top: int | None) -> bool:
        """Take a message with events; False where it had come before, or was given up."""
        known = self.next
        if number != known:
            if (known is not None and number < known) or (self._ahead is not None and number in self._ahead):
                return False
            if self._ahead is None:
                self._ahead = {}
            self._ahead[number] = watermark, top
            return True
        self.next = number + 1
        if watermark is not None:
            self.reach(watermark)
        if not self.complete:
            self._advance()
        return True

    def claim(self, following: int, watermark: int | None, top: int | None) -> None:
        """Take a promise for all messages before the number `following`."""
        if self.next is not None and following <= self.next:
            if watermark is not None:
                self.reach(watermark)
            return
        if self._claims is None:
            self._claims = []
        promise = INSTANT_MIN if watermark is None else watermark
        if self._claims and (len(self._claims) >= CLAIMS or self._claims[-1][0] >= following):
            last = self._claims.pop()
            following, promise = max(following, last[0]), max(promise, last[1])
            top = _greatest(top, last[2])
        self._claims.append((following, promise, top))

    def missing(self) -> Iterator[tuple[int, int]]:
        """Missing messages as intervals of their numbers, the second one exclusive; (0, 0) for the position alone."""
        begin = self.next
        if begin is None:
            yield 0, 0
            return
        for number in sorted(self._ahead or ()):
            if number > begin:
                yield begin, number
            begin = number + 1
        end = self._claims[-1][0] if self._claims else begin
        if end > begin:
            yield begin, end

    def give_up(self, before: int | None, top: int | None, reason: str) -> Loss | None:
        """Give up the missing messages before a number, all where it is None; the loss, None where none was missing.

        Args:
            top: greatest `hi` of the messages before that number, ns, by the publisher; None for unknown.
        """
        if self.next is None:
            self._settle(before, top)
            return None
        if before is None:
            before = max(
                [self.next, *(each + 1 for each in self._ahead or ()), *(each[0] for each in self._claims or ())]
            )
        if before <= self.next:
            return None
        since = INSTANT_MIN if self.watermark is None else self.watermark
        until = since if top is None else max(since, top)
        if top is None:
            # What came behind says how far the events before it reach.
            for number, (watermark, beyond) in (self._ahead or {}).items():
                if number <= before:
                    until = max(until, beyond or until, watermark or until)
            for _, watermark, beyond in self._claims or ():
                until = max(until, beyond or until, watermark)
        self.next = before
        if self._ahead is not None:
            for number in [each for each in self._ahead if each < before]:
                watermark, _ = self._ahead.pop(number)
                if watermark is not None:
                    self.reach(watermark)
        self._advance()
        return Loss(since, until, reason)

    def _settle(self, position: int | None, top: int | None) -> None:
        """Begin at the position of the publisher, or with the first message that has come, whichever is earlier."""
        first = min(self._ahead or (), default=position)
        if position is None or (first is not None and first < position):
            position, (watermark, top) = first, (self._ahead or {}).get(first or 0, (None, None))
            top = watermark if top is None else top
        if position is None:
            # Nothing has come, and nothing will.
            return
        self.next, self.base = position, top
        self._advance()

    def located(self, position: int, top: int | None, watermark: int | None = None) -> None:
        """Take the position of the publisher with its last promise, ns, by its answer."""
        if self.next is None:
            self._settle(position, top)
        self.claim(position, watermark, top)

    def begin_life(self, first: int, reason: str) -> Loss | None:
        """Continue with the messages of another life of the publisher; the loss of those missing of the earlier one."""
        loss = None if self.complete else self.give_up(None, None, reason)
        self.life = self.next = first
        self._ahead = self._claims = None
        return loss

    def reach(self, watermark: int) -> None:
        """Count a promise that holds in any case."""
        if self.watermark is None or watermark > self.watermark:
            self.watermark = watermark

    def _advance(self) -> None:
        """Take in what waited for the message before."""
        assert self.next is not None
        ahead, claims = self._ahead, self._claims
        while ahead and self.next in ahead:
            watermark, _ = ahead.pop(self.next)
            self.next += 1
            if watermark is not None:
                self.reach(watermark)
        if not ahead:
            self._ahead = None
        while claims and claims[0][0] <= self.next:
            self.reach(claims.pop(0)[1])
        if not claims:
            self._claims = None

    # For a detector that moves.

    def state(self) -> Any:
        """State as plain values."""
        ahead = [[number, *each] for number, each in (self._ahead or {}).items()]
        return [self.next, self.life, self.watermark, self.base, ahead, list(self._claims or ())]

    @classmethod
    def of(cls, state: Any) -> Self:
        """Stream that continues from a `state`."""
        next_, life, watermark, base, ahead, claims = state
        made = cls(next_, life)
        made.watermark, made.base = watermark, base
        made._ahead = {number: (promise, top) for number, promise, top in ahead} or None
        made._claims = [tuple(each) for each in claims] or None
        return made

    def copy(self) -> Self:
        """An independent stream in the same state."""
        return self.of(self.state())

    def is_level_with(self, other: NumberedStream) -> bool:
        """Whether another stream has received the same messages."""
        return self.next == other.next and self.complete and other.complete


def _greatest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


ASK_AFTER: Final = SECOND // 5
"""Time for which missing messages may be late by themselves, ns: a heartbeat overtakes events of another quality of
service, and a server sends unacknowledged messages again."""

ASK_AGAIN: Final = SECOND
"""Interval of requests that bring nothing, ns."""

SUBSCRIBED_WITHIN: Final = SECOND
"""Time behind a new connection in which messages without numbers may still be missed, ns: until the server has taken
the filters, and by which clocks of devices may be ahead."""

AT_ONCE: Final = 100
"""Number of intervals in one request for a stream."""

K = TypeVar("K", bound=Hashable)


class IncompleteStreams(Generic[K]):
    """Streams with missing messages, by key, and when these are requested."""

    def __init__(self) -> None:
        # With each stream the instant of the next request, and the number that was missing first at the last one.
        self._open: dict[K, tuple[NumberedStream, int, int | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._open))

    def note(self, key: K, stream: NumberedStream, now: int) -> None:
        """Note whether a stream is complete, as it has changed."""
        if stream.complete:
            if self._open:
                self._open.pop(key, None)
        elif key not in self._open:
            # A position does not come by itself.
            self._open[key] = stream, now if stream.next is None else now + ASK_AFTER, None

    def forget(self, key: K) -> None:
        """Request nothing of a stream any more."""
        self._open.pop(key, None)

    def due(self, now: int) -> list[tuple[K, int, int]]:
        """Missing messages to be requested now, by key: numbers from and to, the latter exclusive."""
        found: list[tuple[K, int, int]] = []
        for key, (stream, at, asked) in list(self._open.items()):
            progresses = asked is not None and stream.next != asked
            if now >= at or (progresses and now >= at - ASK_AGAIN + ASK_AFTER):
                self._open[key] = stream, now + ASK_AGAIN, stream.next
                found += [(key, begin, end) for begin, end in islice(stream.missing(), AT_ONCE)]
        return found
