"""Recorded events first: what a detector with an origin in the past holds back until its history is consumed.

Its detection policy decides on live events as that of any detector which begins now, so their order and what is late
are settled; what it releases waits here. The history is consumed up to an instant that only rises, as far as a recorder
has come, and from that instant on what waits. So each event is on one side of one instant: those up to it come from the
history alone, later ones live alone. Nothing is lost or comes twice, without a comparison of ids.

Rejected: the recorder as one more source of the policy. An event that is late for all detectors would be in time for
this one, and the policy would keep all live events unordered meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from distced.middleware.model.events import Event
from distced.middleware.wire.numbered_stream import Loss

KEPT_LOSSES: Final = 100
"""Losses that are held back; the oldest become one."""


class HistoryFirst:
    """Live releases that wait behind a history.

    Attributes:
        reached: instant up to which recorded events were consumed, ns.
        held: events that were released since, in order.
    """

    __slots__ = ("_losses", "held", "reached")

    def __init__(self, reached: int) -> None:
        self.reached = reached
        self.held: deque[Event] = deque()
        self._losses: list[Loss] = []

    def hold(self, events: Sequence[Event], losses: Iterable[Loss]) -> None:
        """Hold back what was released, in order, and what was lost."""
        self.held += (each for each in events if each.hi > self.reached)
        self._losses += losses
        while len(self._losses) > KEPT_LOSSES:
            self._losses[:2] = [self._losses[0].union(self._losses[1])]

    def advance(self, reached: int) -> None:
        """The history is consumed up to an instant, ns: earlier live events are in it, or were late for it, too."""
        self.reached = max(self.reached, reached)
        while self.held and self.held[0].hi <= self.reached:
            self.held.popleft()

    @property
    def behind(self) -> list[Event]:
        """Events behind the history. By best effort they are in no order, so that some before it are left."""
        return [each for each in self.held if each.hi > self.reached]

    @property
    def losses(self) -> list[Loss]:
        """Losses that reach behind the history."""
        return [each for each in self._losses if each.until > self.reached]
