"""The clock of the machine goes on steadily where the wall clock is set."""

from __future__ import annotations

import time

import pytest

from distced.middleware.model.clock import SystemClock
from distced.middleware.model.timestamps import SECOND


class Times:
    """The wall clock and the steady clock of a machine, ns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.steady = 1_000 * SECOND, 7 * SECOND
        monkeypatch.setattr(time, "time_ns", lambda: self.wall)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.steady)

    def go_on(self, duration: int) -> None:
        self.wall += duration
        self.steady += duration


@pytest.mark.parametrize("step", [-3_600 * SECOND, -SECOND, SECOND, 3_600 * SECOND])
def test_steps_of_the_wall_clock_are_followed_slowly(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    times = Times(monkeypatch)
    clock = SystemClock()
    times.go_on(5 * SECOND)
    assert clock.now() == times.wall
    times.wall += step
    assert clock.now() == times.wall - step
    last = clock.now()
    for _ in range(8_000):
        times.go_on(SECOND)
        now = clock.now()
        # It never goes back, nor more than half as fast again.
        assert SECOND // 2 <= now - last <= SECOND * 3 // 2
        last = now
    assert clock.now() == times.wall
