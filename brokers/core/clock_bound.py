"""Bound on instants beyond the clock: events and promises of the far future are rejected, as dead letters.

The watermark of an input never decreases. One event or promise of the far future would make all that follows late, for
good, where the sources before it have left. Instants of the past are never rejected: a history is published again at
any speed. The bound is on primitive events and on promises of sources, by the clock of the participant that reads them;
composite events are not beyond those they were made of. Clamping an event was rejected, as it changes what it says.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from distced.brokers.core.dead_letters import DeadLetters, Letters
from distced.brokers.core.effects import Effect
from distced.middleware.model.timestamps import format_duration, format_instant
from distced.middleware.wire.administration import Unavailable
from distced.middleware.wire.frames import Frame

AHEAD: Final = "ahead"
"""Reason of its dead letters."""


class ClockBound:
    """Bound on instants, with the dead letters of what is beyond.

    Attributes:
        most: instants beyond the clock that are accepted, ns.
    """

    def __init__(self, dead_letters: DeadLetters, most: int) -> None:
        self.most = most
        self._dead_letters = dead_letters

    def bounded(self, frame: Frame, topic: str, payload: bytes, now: int) -> tuple[Frame, list[Effect]]:
        """A frame of primitive events without what is beyond the bound, and dead letters of that."""
        limit = now + self.most
        watermark, events = frame.watermark, frame.events
        effects: list[Effect] = []
        if watermark is not None and watermark > limit:
            effects += self._dead_letters.message(AHEAD, self._problem("a promise", watermark, now), topic, payload)
            frame = replace(frame, watermark=None)
        beyond = [event for event in events if event.hi > limit]
        if beyond:
            letters = self._dead_letters
            effects += letters.events(AHEAD, lambda each: self._problem("an event", each.hi, now), beyond, topic)
            frame = replace(frame, events=[event for event in events if event.hi <= limit])
        return frame, effects

    def check_promise(self, watermark: int, topic: str, payload: bytes, now: int) -> Letters | None:
        """Dead letter of a promise beyond the bound; None where it counts."""
        if watermark <= now + self.most:
            return None
        return self._dead_letters.message(AHEAD, self._problem("a promise", watermark, now), topic, payload)

    def top(self, top: int | None, now: int) -> int | None:
        """Greatest `hi` of earlier messages of a stream, as far as such events are accepted, ns."""
        return top if top is None else min(top, now + self.most)

    def bounded_answer(self, lost: Unavailable, now: int) -> Unavailable:
        """Answer of a publisher without instants beyond the bound."""
        limit = now + self.most
        if (lost.top or 0) <= limit and (lost.watermark or 0) <= limit:
            return lost
        watermark = None if lost.watermark is None or lost.watermark > limit else lost.watermark
        return replace(lost, top=self.top(lost.top, now), watermark=watermark)

    def _problem(self, what: str, instant: int, now: int) -> str:
        return (
            f"{what} far beyond the clock: {format_instant(instant)}; allowed: up to {format_duration(self.most)} "
            f"beyond {format_instant(now)}; check clocks and units (ns), or start the nodes with a greater --max-ahead"
        )
