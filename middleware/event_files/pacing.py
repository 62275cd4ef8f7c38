"""Pacing of a recording that is published: events due, and the watermark meanwhile. Sans-I/O.

Events keep the times they were recorded with. A watermark reaches to just before the next event, so that detectors go
on through the gaps of a recording as they do through those of a building.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from distced.middleware.event_files.reader import in_order
from distced.middleware.model.errors import EventError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND

BATCH: Final = 1_000  # most events sent between two watermarks


class Feed:
    """Events of a recording, in the order of consumption.

    Attributes:
        start, end: no event has `hi` at or before the one, or beyond the other, ns.
        sources: types each source publishes, by name.
        composite: number of composite events left out, for detectors make those.
        position: number of events due so far.
    """

    def __init__(self, events: Iterable[Event], *, speed: float | None = None, name: str = "recording") -> None:
        """Feed at a speed, seconds of the recording per second, None for no pause; errors call it `name`."""
        every = list(events)
        self.events = in_order(each for each in every if not isinstance(each, CompositeEvent))
        self.composite = len(every) - len(self.events)
        if not self.events:
            raise EventError("a recording without events to publish", given=name, advice="does it need a --mapping?")
        self.start = self.events[0].hi - 1
        self.end = self.events[-1].hi
        self.sources: dict[str, dict[str, None]] = {}
        for event in self.events:
            self.sources.setdefault(event.source, {})[event.type] = None
        self.position = 0
        self._speed = speed

    @property
    def done(self) -> bool:
        """Whether all events were due."""
        return self.position == len(self.events)

    def due(self, elapsed: int) -> tuple[list[Event], int]:
        """Events due `elapsed` ns after the start, a batch at most, and the watermark that holds once they are sent."""
        limit = self.end if self._speed is None else self.start + round(elapsed * self._speed)
        first = last = self.position
        while last < len(self.events) and last - first < BATCH and self.events[last].hi <= limit:
            last += 1
        self.position = last
        return self.events[first:last], self.end if self.done else min(limit, self.events[last].hi - 1)

    def wait(self, elapsed: int) -> float:
        """Seconds until the next event is due."""
        if self.done or self._speed is None:
            return 0.0
        return max((self.events[self.position].hi - self.start) / self._speed - elapsed, 0.0) / SECOND
