"""Limits of messages: what one publisher may ask a participant to read, by size, events and rate.

A frame takes some thirty times its bytes once it is unpacked, and a few tenths of a microsecond for each: the limit of
bytes bounds both. Larger messages are not looked into. Of a frame with too many events, or of a publisher with too many
that wait, only the promise and the number count: its stream goes on, and its detectors report a loss for the interval
of its events, so guaranteed detection neither waits for them nor is wrong silently.

The rate is a token bucket of each publisher (RFC 2697, with one rate): full after `BURST` without events, emptied by
one for each event or each `BYTES_OF_AN_EVENT`, by the clock of the participant alone. A message passes where the bucket
is not empty, and may leave it in debt; others wait (`brokers.node.waiting_frames`). Sources without an entry share a
bucket, as they have any names. Rejected: to reject events singly (a loss for each).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from distced.brokers.core.dead_letters import DeadLetters, Letters
from distced.middleware.model.errors import LimitError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, INSTANT_MAX, INSTANT_MIN, SECOND
from distced.middleware.wire.directory_entries import MAX_MESSAGE
from distced.middleware.wire.frames import MOST_ROWS, Frame
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import ROOT, Area

BURST: Final = SECOND
"""Time after which a bucket is full, ns."""

BYTES_OF_AN_EVENT: Final = 20
"""Bytes of a message for which it counts as an event: the least that one takes, and up to a microsecond and a half."""

MOST_BUCKETS: Final = 10_000
"""Publishers with a bucket that is not full; of more the first one is forgotten, and begins with a full one."""

HEARTBEATS: Final = 4
"""A heartbeat names all sources of a client: how much larger it may be."""

LARGER: Final = "a larger message than nodes read"
OFTENER: Final = "more events of one publisher than nodes read"
"""Problems of messages, and reasons of losses."""

UNANNOUNCED: Final = "more sources that nobody has announced than nodes read"
"""Problem of the events of a further one, and reason of losses."""

TOO_LARGE: Final = "too-large"
TOO_MANY: Final = "too-many"
TOO_OFTEN: Final = "too-often"
"""Reasons of dead letters."""


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """Limits of what participants publish.

    Attributes:
        size: bytes of a message of a client: of events, to the directory, or of administration.
        events: events of a message.
        rate: events a second of one publisher; what is beyond waits until there is time.
        letters: dead letters published a second; further ones are counted.
        types: event types in the directory.
        attributes: attributes of an event type, and so of an event.
        entries: entries of each other kind in the directory.
        homes: servers that sources are at home at; a node connects to each.
        unannounced: sources of events without an entry in the directory, each of which takes memory in every detector
            that reads it.
        sampled_types: event types whose distribution of attribute values is published by a node; 0 for none.
    """

    size: int = MAX_MESSAGE
    events: int = MOST_ROWS
    rate: int = 50_000
    letters: int = 1_000
    types: int = 10_000
    attributes: int = 1_000
    entries: int = 100_000
    homes: int = 100
    unannounced: int = 10_000
    sampled_types: int = 20


LIMITS: Final = MessageLimits()


@dataclass(slots=True)
class _Bucket:
    """Events that a publisher may publish, in billionths, at an instant, ns."""

    level: int
    at: int


class _Reported(NamedTuple):
    """Loss of a topic reported last, when, and how far it reaches beyond the events, ns."""

    loss: Loss
    at: int
    reach: int


class MessageBound:
    """Bound on messages, with the dead letters of what is beyond.

    Attributes:
        limits: the limits.
    """

    def __init__(self, dead_letters: DeadLetters, limits: MessageLimits = LIMITS, root: str = ROOT) -> None:
        self.limits = limits
        self._dead_letters = dead_letters
        # What nodes publish for each other may be larger: composite events, states of detectors.
        administration = f"{root}/{Area.ADMINISTRATION}"
        self._larger = (f"{root}/{Area.COMPOSITE_EVENTS}/", f"{administration}/node/", f"{administration}/again/")
        self._heartbeats = f"{administration}/heartbeat/"
        self._buckets: dict[str, _Bucket] = {}
        self._reported: dict[str, _Reported] = {}

    def too_large(self, topic: str, payload: bytes) -> Letters | None:
        """Dead letter of a message that is too large; None for one to be read."""
        if len(payload) <= self.limits.size or topic.startswith(self._larger):
            return None
        if topic.startswith(self._heartbeats) and len(payload) <= HEARTBEATS * self.limits.size:
            return None
        return self.letter_of_size(topic, payload)

    def letter_of_size(self, topic: str, payload: bytes) -> Letters:
        """Dead letter of a message that is too large."""
        error = LimitError(
            LARGER,
            given=f"{len(payload):,} bytes",
            allowed=f"{self.limits.size:,}",
            where=topic,
            advice="publish it as several, or start nodes with --max-message",
        )
        return self._dead_letters.message(TOO_LARGE, error, topic, payload)

    def bounded(self, frame: Frame, topic: str, payload: bytes, now: int) -> tuple[Frame, Letters]:
        """A frame of primitive events as it counts: without events, and with a loss, where these are too many; and the
        dead letter of that."""
        number = len(frame.events)
        if number <= self.limits.events:
            return frame, ()
        error = LimitError(
            "more events in a message than nodes read",
            given=f"{number:,}",
            allowed=f"{self.limits.events:,}",
            where=topic,
            advice="publish them as several, or start nodes with --max-events",
        )
        self._dead_letters.count(TOO_MANY, number - 1)
        letters = self._dead_letters.message(TOO_MANY, error, topic, payload)
        since, until = min(each.lo for each in frame.events) - 1, max(each.hi for each in frame.events)
        losses = self.losses(topic, since, until, error.problem, now)
        return replace(frame, events=[], losses=(*frame.losses, *losses)), letters

    def letter_of_rate(self, publisher: str, topic: str, payload: bytes) -> Letters:
        """Dead letter of a message that has no room to wait."""
        error = LimitError(
            OFTENER,
            given=f"a message of {publisher or 'sources that nobody has announced'} while many wait",
            allowed=f"{self.limits.rate:,} a second",
            where=topic,
            advice="publish fewer, or start nodes with --max-rate",
        )
        return self._dead_letters.message(TOO_OFTEN, error, topic, payload)

    def of_unannounced(
        self, source: str, events: Sequence[Event], topic: str, payload: bytes, now: int
    ) -> tuple[tuple[Loss, ...], Letters]:
        """Loss and dead letter of the events of a source that nobody has announced, beyond the limit. One loss for all
        sources of a type: a publisher may make them by the thousand."""
        error = LimitError(
            UNANNOUNCED,
            given=f"{source} as one more",
            allowed=f"{self.limits.unannounced:,}",
            where=topic,
            advice="announce it, or start nodes with --max-unannounced",
        )
        since, until = min(each.lo for each in events) - 1, max(each.hi for each in events)
        losses = self.losses(f"unannounced {events[0].type}", since, until, UNANNOUNCED, now)
        return losses, self._dead_letters.message("refused", error, topic, payload)

    def take(self, publisher: str, payload: bytes, now: int) -> bool:
        """Take a message from the bucket of its publisher; False where that is empty. A clock that was set back adds
        nothing."""
        rate, bucket = self.limits.rate, self._buckets.get(publisher)
        if bucket is None:
            bucket = self._buckets[publisher] = _Bucket(rate * BURST, now)
            if len(self._buckets) > MOST_BUCKETS:
                del self._buckets[next(iter(self._buckets))]
        elif now > bucket.at:
            bucket.level = min(bucket.level + rate * (now - bucket.at), rate * BURST)
        bucket.at = now
        if bucket.level <= 0:
            return False
        bucket.level -= (1 + len(payload) // BYTES_OF_AN_EVENT) * SECOND
        return True

    def losses(self, topic: str, since: int, until: int, reason: str, now: int) -> tuple[Loss, ...]:
        """Loss of events between two instants, ns; none where one that was reported a moment ago says so.

        One for each frame would be as many messages of each detector. So a loss reaches beyond its events, twice as far
        as the one before, and is repeated once a second, for detectors that have begun since.
        """
        before = self._reported.get(topic)
        covered = before is not None and before.loss.since <= since and until <= before.loss.until
        if before is not None and covered and 0 <= now - before.at < SECOND:
            return ()
        if before is not None and covered:
            made = before._replace(at=now)
        else:
            reach = SECOND if before is None else min(2 * before.reach, HOUR)
            begin = since - reach if before is not None and since < before.loss.since else since
            loss = Loss(max(begin, INSTANT_MIN), min(until + reach, INSTANT_MAX), reason)
            made = _Reported(loss, now, reach)
        self._reported[topic] = made
        if len(self._reported) > MOST_BUCKETS:
            del self._reported[next(iter(self._reported))]
        return (made.loss,)

    def tick(self, now: int) -> None:
        """Forget full buckets, and losses that were reported long ago."""
        full = self.limits.rate * BURST
        gone = [name for name, each in self._buckets.items() if each.level + self.limits.rate * (now - each.at) >= full]
        for name in gone:
            del self._buckets[name]
        for topic in [topic for topic, each in self._reported.items() if abs(now - each.at) > HOUR]:
            del self._reported[topic]
