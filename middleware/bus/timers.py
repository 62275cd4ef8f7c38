"""What is to be done later: a heap of timers that is told the time and returns what is due."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any


class Timer:
    """Something to be done at an instant, or again and again.

    Attributes:
        due: nanoseconds since the Unix epoch, by the clock of the bus.
        interval: nanoseconds between repetitions; 0 for once.
        run: what to do.
        cancelled: whether it is called off.
    """

    __slots__ = ("cancelled", "due", "interval", "run")

    def __init__(self, due: int, interval: int, run: Callable[[], Any]) -> None:
        self.due = due
        self.interval = interval
        self.run = run
        self.cancelled = False

    def cancel(self) -> None:
        """Call it off; from any thread, any time."""
        self.cancelled = True


class Timers:
    """Timers in order of their instants; belongs to one thread."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = count()
        self._now: int | None = None

    def add(self, timer: Timer) -> None:
        heappush(self._heap, (timer.due, next(self._numbers), timer))

    def next_due(self) -> int | None:
        """When the next timer is due; None where there is none."""
        while self._heap and self._heap[0][2].cancelled:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> list[Timer]:
        """The timers that are due, in order; repeating ones are set anew.

        A repetition that was missed is left out, not made up for. Where the clock was set back, all timers move with
        it: what was to happen in a second still does.
        """
        if self._now is not None and now < self._now:
            self._shift(now - self._now)
        self._now = now
        due: list[Timer] = []
        while (first := self.next_due()) is not None and first <= now:
            timer = heappop(self._heap)[2]
            due.append(timer)
            if timer.interval:
                timer.due += timer.interval * ((now - timer.due) // timer.interval + 1)
                # Pushed at once: it is due after now, so this loop does not meet it again.
                self.add(timer)
        return due

    def _shift(self, difference: int) -> None:
        for _, _, timer in self._heap:
            timer.due += difference
        self._heap = [(timer.due, number, timer) for _, number, timer in self._heap]
        heapify(self._heap)
