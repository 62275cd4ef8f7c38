"""Composite events as they arrive, each drilled down as soon as all constituents have arrived.

cedmos-1999, section 3.2.5, on live events. Constituents are sent along with a composite event; those of a constituent
that is a composite event itself come with that, over another subscription, so before it or a little later. A composite
event waits for them for a given time, and is shown with what is missing then: constituents of an event from before the
first subscription do not come. Rejected: to print at once (a tree is incomplete by the order of two messages), and to
wait for good.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from distced.detectors.batch_run.drill_down import DrillDown, drill_down
from distced.middleware.model.events import CompositeEvent, Event, EventId

KEPT: Final = 100_000
"""Default number of events kept as possible constituents; the one that arrived first is dropped first."""


class LiveDrillDown:
    """Latest events by id, and the composite events that wait for constituents."""

    def __init__(self, patience: int, kept: int = KEPT) -> None:
        """Args: patience: time for constituents to arrive, ns. kept: number of events kept."""
        self._patience = patience
        self._kept = kept
        self._events: dict[EventId, Event] = {}
        # To be shown, with the end of the patience, ns; of more than are kept the first waits no more.
        self._waiting: dict[EventId, tuple[int, Event]] = {}

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: Event) -> None:
        """Keep an event, and those that were sent along with it."""
        pending = [event]
        while pending:
            each = pending.pop()
            if isinstance(each, CompositeEvent):
                pending += each.events
                each = replace(each, events=())
            self._events.pop(each.id, None)
            self._events[each.id] = each
        while len(self._events) > self._kept:
            del self._events[next(iter(self._events))]

    def show(self, event: CompositeEvent, now: int) -> None:
        """Keep a composite event, to be drilled down when it is complete."""
        self.add(event)
        self._waiting.setdefault(event.id, (now + self._patience, replace(event, events=())))

    def ready(self, now: int, *, over: bool = False) -> Iterator[DrillDown]:
        """Drill-downs that are complete, or have waited long enough, in the order of arrival; all where it is over."""
        for root, (until, event) in list(self._waiting.items()):
            # It is not among the events any more where many have come since.
            found = drill_down(root, ChainMap(self._events, {root: event}))
            if over or not found.missing or now >= until or len(self._waiting) > self._kept:
                del self._waiting[root]
                yield found
