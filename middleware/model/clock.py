"""Clocks: the time is handed in, never read elsewhere.

Everything that decides takes the time as an argument; drivers own a clock and pass it on (design, section 4). Tests and
the simulator hand in a `ManualClock`, so that a run replays, as in trio.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Clock in integer ns since the Unix epoch."""

    def now(self) -> int:
        """Present instant, ns since the Unix epoch."""
        ...


class SteadyClock:
    """Wall clock that never goes back, and follows a step at half its rate.

    Timers, leases and numbers of lives would otherwise wait for as long as the wall clock was set back, or all be due
    at once. It may be used by several threads.
    """

    def __init__(self, steady: Callable[[], int], wall: Callable[[], int]) -> None:
        """Args: steady, wall: a clock that no one sets, and the one that is followed, ns."""
        self._steady, self._wall = steady, wall
        self._at = steady()
        # From the steady clock to this one, ns.
        self._offset = wall() - self._at

    def now(self) -> int:
        steady = self._steady()
        error = self._wall() - steady - self._offset
        most = max(steady - self._at, 0) // 2
        self._at = steady
        self._offset += min(max(error, -most), most)
        return steady + self._offset


class SystemClock(SteadyClock):
    """Clock of the machine."""

    def __init__(self) -> None:
        super().__init__(time.monotonic_ns, time.time_ns)


class ManualClock:
    """Clock that stands still until advanced, at an instant in ns since the Unix epoch."""

    def __init__(self, instant: int = 0) -> None:
        self.instant = instant

    def now(self) -> int:
        return self.instant

    def advance(self, nanoseconds: int) -> None:
        """Let this much time pass, ns."""
        if nanoseconds < 0:
            raise ValueError(f"a clock does not go back: {nanoseconds} ns")
        self.instant += nanoseconds
