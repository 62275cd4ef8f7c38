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
    """Wall clock of the machine."""

    def now(self) -> int:
        return time.time_ns()


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
