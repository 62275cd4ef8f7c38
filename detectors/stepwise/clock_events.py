"""Stage before the automata for the events of clocks, which come between those that are fed, in the order of
consumption.

Kept is the next instant of each clock. Before the first event there is nothing that a clock could concern, as no match
begins with one; so nothing is kept there, and where no instance waits clocks are set to what comes next, without
events. Rejected: instants as time events of each instance, which are no constituents, and of which there would be one
for each instance in place of one for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distced.detectors.limits import UNLIMITED, too_many_clock_events
from distced.middleware.model.clock_rules import clock_event, next_instant
from distced.middleware.model.events import PRIMITIVE, Event


class ClockEvents:
    """The events of some clocks to come.

    Attributes:
        names: of the clocks, in order.
        due: the next instant of each with its place, the earliest first; None before the first event.
        taken, most: number of events in one go, and its limit: a clock by the microsecond holds a node up.
    """

    __slots__ = ("due", "most", "names", "taken")

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        self.due: list[tuple[int, int]] | None = None
        self.taken, self.most = 0, UNLIMITED.work

    def next_instant(self) -> int | None:
        """The next instant of any clock, ns; None for none."""
        return self.due[0][0] if self.due else None

    def precedes(self, event: Event) -> bool:
        """Whether an event of a clock comes before this one."""
        if not self.due or self.due[0][0] > event.hi:
            return False
        instant, place = self.due[0]
        return (instant, instant, PRIMITIVE, self.names[place]) < event.key[:4]

    def take(self) -> Event:
        """The next event. Raises `LimitError` beyond the limit."""
        assert self.due
        self.taken += 1
        if self.taken > self.most:
            raise too_many_clock_events(self.most)
        instant, place = self.due.pop(0)
        self._add(place, instant)
        return clock_event(self.names[place], instant)

    def pass_over(self, event: Event) -> None:
        """Leave out all events before this one, or begin with those behind it."""
        if self.due is None:
            self.due = []
            for place in range(len(self.names)):
                self._add(place, event.hi - 1)
        self.pass_until(event.hi - 1)
        while self.precedes(event):
            self._leave_out_first()

    def pass_until(self, instant: int) -> None:
        """Leave out all events up to an instant, ns."""
        if self.due is None:
            return
        places = [place for due, place in self.due if due <= instant]
        self.due = [each for each in self.due if each[0] > instant]
        for place in places:
            self._add(place, instant)

    def last_ones(self) -> list[Event]:
        """The next event of each clock, in order, behind the end of the input; none comes behind them."""
        due, self.due = self.due or [], []
        return [clock_event(self.names[place], instant) for instant, place in due]

    def packed(self) -> list[tuple[int, int]] | None:
        """The state as values, for a snapshot."""
        return self.due

    def unpack(self, due: Sequence[Sequence[int]] | None) -> None:
        """Continue from a state."""
        if due is not None and not all(0 <= place < len(self.names) for _, place in due):
            raise ValueError("instants of other clocks")
        self.due = None if due is None else sorted((instant, place) for instant, place in due)

    def _leave_out_first(self) -> None:
        assert self.due
        instant, place = self.due.pop(0)
        self._add(place, instant)

    def _add(self, place: int, after: int) -> None:
        assert self.due is not None
        found = next_instant(self.names[place], after)
        if found is not None:
            self.due.append((found, place))
            self.due.sort()
