"""Dead letters: unusable messages and events, published with the reason to a topic of their own, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from distced.brokers.core.effects import Effect, Publish
from distced.middleware.model.events import Event
from distced.middleware.wire.administration import DeadLetter
from distced.middleware.wire.codec import encode
from distced.middleware.wire.frames import Rejected
from distced.middleware.wire.topics import ROOT, dead_letter_topic

LONGEST: Final = 4096
"""Bytes of the payload in a dead letter at most."""


def foreign_promise(publisher: str, sources: Iterable[str]) -> str:
    """Problem of a heartbeat with sources that others publish."""
    return f"a promise of {publisher} for sources of others: {', '.join(sorted(sources))}; it does not count"


class DeadLetters:
    """Maker of dead letters of a sender, and their number by reason."""

    def __init__(self, node: str, root: str = ROOT) -> None:
        self.node = node
        self.root = root
        self.counts: Counter[str] = Counter()

    def message(self, reason: str, problem: str, topic: str, payload: bytes) -> Effect:
        """Dead letter of a message that is unusable as a whole."""
        return self._letter(reason, problem, topic, None, payload)

    def row(self, rejected: Rejected, topic: str) -> Effect:
        """Dead letter of a malformed event of a frame."""
        return self._letter("malformed", rejected.reason, topic, rejected.row, rejected.raw)

    def event(self, reason: str, problem: str, event: Event, topic: str) -> Effect:
        """Dead letter of an event that was read, and is unusable."""
        content = encode([event.lo, event.hi, event.source, str(event.seq), event.attributes])
        return self._letter(reason, problem, topic, None, content)

    def _letter(self, reason: str, problem: str, topic: str, row: int | None, payload: bytes) -> Effect:
        self.counts[reason] += 1
        letter = DeadLetter(reason, problem, topic, row, payload[:LONGEST])
        return Publish(dead_letter_topic(reason, self.node, root=self.root), encode(letter))
