"""Dead letters: unusable messages and events, published with the reason to a topic of their own, and counted.

A frame of a megabyte may have 100,000 unusable events, each a message of its own a hundred times as large: so a limited
number is published of a message and of all in a second, and all are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from distced.brokers.core.effects import Effect, Publish, warning
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.codec import encode
from distced.middleware.wire.frames import Rejected
from distced.middleware.wire.topics import ROOT, dead_letter_topic

MOST_ATTRIBUTES: Final = 1_000
"""Attributes of an event in a dead letter; its payload is cut off before, in general."""

Reason: TypeAlias = Literal[
    "malformed",
    "mistyped",
    "unknown-type",
    "rejected",
    "late",
    "ahead",
    "too-large",
    "too-many",
    "too-often",
    "refused",
]
"""Reason of a dead letter, in its topic and in metrics."""

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
"""All of them."""

LONGEST: Final = 4096
"""Bytes of the payload in a dead letter at most."""

MOST: Final = 1_000
"""Dead letters published a second."""

MOST_OF_MESSAGE: Final = 100
"""Dead letters of the events of one message: a millisecond or two."""

LOGGED_EVERY: Final = 10 * SECOND
"""Least interval between log events on those that are not published, ns."""

_T = TypeVar("_T")

Letters: TypeAlias = tuple[Effect, ...]
"""Dead letter, or nothing where it is only counted."""


def foreign_promise(publisher: str, sources: Iterable[str]) -> str:
    """Problem of a heartbeat with sources that others publish."""
    return f"a promise of {publisher} for sources of others: {', '.join(sorted(sources))}; it does not count"


class DeadLetters:
    """Maker of dead letters of a sender.

    Attributes:
        counts: their number by reason.
        unpublished: number of those that were only counted.
    """

    def __init__(self, node: str, root: str = ROOT, most: int = MOST) -> None:
        """Args: most: published a second."""
        self.node = node
        self.root = root
        self.counts: Counter[str] = Counter()
        self.unpublished = 0
        self._most = self._left = most
        self._filled_at = self._logged_at = 0
        self._logged = 0

    def tick(self, now: int) -> list[Effect]:
        """Publish more from now on; a log event on those that were only counted, where it is due."""
        # Nor does it wait for a clock that was set back.
        if abs(now - self._filled_at) >= SECOND:
            self._filled_at, self._left = now, self._most
        if self.unpublished == self._logged or abs(now - self._logged_at) < LOGGED_EVERY:
            return []
        number, self._logged, self._logged_at = self.unpublished - self._logged, self.unpublished, now
        reason = f"more than {self._most:,} dead letters a second: they are counted; see --max-dead-letters"
        return [warning("dead letters not published", number=number, reason=reason)]

    def count(self, reason: Reason, number: int) -> None:
        """Count what further dead letters of a reason would say."""
        self.counts[reason] += number

    def message(self, reason: Reason, problem: str | DistcedError, topic: str, payload: bytes) -> Letters:
        """Dead letter of a message that is unusable as a whole. The text of an error is made where it is published."""
        return tuple(
            self._letter(reason, str(problem), topic, None, each) for each in self._published(reason, (payload,))
        )

    def rows(self, rejected: Sequence[Rejected], topic: str) -> Letters:
        """Dead letters of malformed events of a frame."""
        return tuple(
            self._letter("malformed", each.reason, topic, each.row, each.raw)
            for each in self._published("malformed", rejected)
        )

    def events(self, reason: Reason, problem: Callable[[Event], str], events: Sequence[Event], topic: str) -> Letters:
        """Dead letters of events of a message that were read, and are unusable."""
        return tuple(
            self._letter(reason, problem(each), topic, None, _content(each)) for each in self._published(reason, events)
        )

    def event(self, reason: Reason, problem: str, event: Event, topic: str) -> Letters:
        """Dead letter of an event that was read, and is unusable."""
        return self.events(reason, lambda _: problem, [event], topic)

    def _published(self, reason: Reason, each: Sequence[_T]) -> Sequence[_T]:
        """Count dead letters of a message; those that are to be published."""
        number = min(len(each), MOST_OF_MESSAGE, self._left)
        self.counts[reason] += len(each)
        self.unpublished += len(each) - number
        self._left -= number
        return each[:number]

    def _letter(self, reason: Reason, problem: str, topic: str, row: int | None, payload: bytes) -> Effect:
        letter = DeadLetter(reason, problem, topic, row, payload[:LONGEST])
        return Publish(dead_letter_topic(reason, self.node, root=self.root), encode(letter))


def _content(event: Event) -> bytes:
    attributes = event.attributes
    if len(attributes) > MOST_ATTRIBUTES:
        attributes = dict(islice(attributes.items(), MOST_ATTRIBUTES))
    return encode([event.lo, event.hi, event.source, str(event.seq), attributes])
