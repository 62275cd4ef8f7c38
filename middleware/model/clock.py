"""Where the time comes from: one clock, handed in, never read behind anybody's back.

Everything that decides takes the time as an argument; drivers own a clock and pass it on (design, section 4). Tests and
the simulator hand in a `ManualClock`. The habit is trio's: clock and randomness are injected, so that a run replays.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Gives the time in integer nanoseconds since the Unix epoch."""

    def now(self) -> int:
        """The present instant, in nanoseconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> int:
        return time.time_ns()


class ManualClock:
    """A clock that stands still until told otherwise.

    Attributes:
        instant: nanoseconds since the Unix epoch; never goes back.
    """

    def __init__(self, instant: int = 0) -> None:
        self.instant = instant

    def now(self) -> int:
        return self.instant

    def advance(self, nanoseconds: int) -> None:
        """Let this much time pass."""
        if nanoseconds < 0:
            raise ValueError(f"a clock does not go back: {nanoseconds} ns")
        self.instant += nanoseconds
