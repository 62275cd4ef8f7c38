"""Clocks: the time is handed in, never read elsewhere.

Everything that decides takes the time as an argument; drivers own a clock and pass it on (design, section 4). Tests and
the simulator hand in a `ManualClock`, so that a run replays, as in trio.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Clock in integer ns since the Unix epoch."""

    def now(self) -> int:
        """Present instant, ns since the Unix epoch."""
        ...


class SystemClock:
    """Wall clock of the machine, steady: it never goes back, and follows a step of the wall clock at half its rate.

    Timers, leases and numbers of lives would otherwise wait for as long as the wall clock was set back, or all be due
    at once. It may be used by several threads.
    """

    def __init__(self) -> None:
        self._at = time.monotonic_ns()
        # From the steady clock to this one, ns.
        self._offset = time.time_ns() - self._at

    def now(self) -> int:
        steady = time.monotonic_ns()
        error = time.time_ns() - steady - self._offset
        most = max(steady - self._at, 0) // 2
        self._at = steady
        self._offset += min(max(error, -most), most)
        return steady + self._offset


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
