"""How long to wait before the next attempt to connect: longer each time, up to a limit, and not all clients at once."""

from __future__ import annotations

from random import Random

from distced.middleware.model.errors import BusError


class Backoff:
    """Delays that double from a first one to a longest one, each shortened by up to a half at random.

    The randomness keeps clients that lost their server together from coming back together.

    Attributes:
        attempts: how many delays were handed out since the last reset.
    """

    def __init__(self, first: float, longest: float, random: Random) -> None:
        if not 0 < first <= longest:
            raise BusError(
                "no delays between attempts",
                given=f"{first} to {longest} s",
                allowed="a first one above 0, and a longest one not below it",
            )
        self._first = first
        self._longest = longest
        self._random = random
        self.attempts = 0

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        # Beyond 2^60 the limit holds anyway, and floats end somewhere.
        delay = min(self._longest, self._first * 2.0 ** min(self.attempts, 60))
        self.attempts += 1
        return delay * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin again with the first delay."""
        self.attempts = 0
