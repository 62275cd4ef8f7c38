"""Dead letters: what could not be used goes to a topic of its own, with the reason, and is counted."""

from __future__ import annotations

from collections import Counter
from typing import Final

from distced.brokers.core.effects import Effect, Publish
from distced.middleware.model.events import Event
from distced.middleware.wire.directory_entries import DeadLetter, encode
from distced.middleware.wire.frames import Rejected
from distced.middleware.wire.topics import ROOT, dead_letter_topic

LONGEST: Final = 4096


class DeadLetters:
    """Makes dead letters and counts them.

    Attributes:
        node: who sends them.
        counts: how many there were by reason.
    """

    def __init__(self, node: str, root: str = ROOT) -> None:
        self.node = node
        self.root = root
        self.counts: Counter[str] = Counter()

    def message(self, reason: str, problem: str, topic: str, payload: bytes) -> Effect:
        """A message that could not be used as a whole."""
        return self._letter(reason, problem, topic, None, payload)

    def row(self, rejected: Rejected, topic: str) -> Effect:
        """An event in a frame that is none."""
        return self._letter("malformed", rejected.reason, topic, rejected.row, rejected.raw)

    def event(self, reason: str, problem: str, event: Event, topic: str) -> Effect:
        """An event that was read, and cannot be used."""
        content = encode([event.lo, event.hi, event.source, str(event.seq), event.attributes])
        return self._letter(reason, problem, topic, None, content)

    def _letter(self, reason: str, problem: str, topic: str, row: int | None, payload: bytes) -> Effect:
        self.counts[reason] += 1
        letter = DeadLetter(reason, problem, topic, row, payload[:LONGEST])
        return Publish(dead_letter_topic(reason, self.node, root=self.root), encode(letter))
