"""Which engine is chosen, by what a detector does: a pretended one, that costs what the engines are said to cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest

from distced.detectors.runtime.engine_choice import (
    COLUMNAR,
    HAND_OVER,
    HAND_OVER_INSTANCE,
    LOOK_EVERY,
    MOST_LIVE,
    STEPWISE,
    EngineChoice,
)
from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.timestamps import SECOND


@dataclass
class Load:
    """What reaches a detector: calls a second, and of each call the events, what they touch and what is found.

    Attributes:
        seen: the share of it that the columnar engine counts as touched.
    """

    calls: float
    events: int
    touched: float
    found: int = 0
    behind: int = 0
    live: int = 100
    seen: float = 1.0


class Pretended:
    """A detector that does as it is told."""

    def __init__(self) -> None:
        self.choice = EngineChoice()
        self.at_work: EngineName = "stepwise"
        self.touched = self.behind = self.live = 0
        self.now = 1_000 * SECOND
        self.changes: list[tuple[int, EngineName]] = []
        self.cost = 0.0

    def run(self, load: Load, seconds: float) -> Pretended:
        end = self.now + round(seconds * SECOND)
        self.live = load.live
        while (following := self.now + round(SECOND / load.calls)) <= end:
            self.now = following
            self.touched += round(load.touched * (1.0 if self.at_work == "stepwise" else load.seen))
            self.behind += load.behind
            costs = STEPWISE if self.at_work == "stepwise" else COLUMNAR
            self.cost += costs.of(1, load.events, load.touched, load.found)
            wanted = self.choice.choose(1, load.events, load.found, self.now, self)
            if wanted != self.at_work:
                self.at_work = wanted
                self.changes.append((self.now, wanted))
                self.cost += HAND_OVER + HAND_OVER_INSTANCE * load.live
        self.now = end
        return self


LIGHT = Load(calls=1_000, events=1, touched=2)
HEAVY = Load(calls=100, events=500, touched=5_000)


def test_single_events_stay_with_the_stepwise_engine() -> None:
    assert Pretended().run(LIGHT, 60).changes == []


def test_large_batches_with_many_instances_get_the_columnar_engine_within_seconds() -> None:
    detector = Pretended().run(HEAVY, 2)
    assert detector.at_work == "columnar"
    assert len(detector.changes) == 1


def test_large_batches_with_few_instances_stay_with_the_stepwise_engine() -> None:
    assert Pretended().run(Load(calls=20, events=500, touched=400), 60).changes == []


def test_small_batches_with_many_instances_get_the_columnar_engine() -> None:
    assert Pretended().run(Load(calls=100, events=2, touched=1_000), 10).at_work == "columnar"


def test_rare_events_stay_with_the_stepwise_engine() -> None:
    assert Pretended().run(Load(calls=0.5, events=10, touched=1_000), 600).changes == []


def test_small_batches_return_to_the_stepwise_engine() -> None:
    detector = Pretended().run(HEAVY, 10).run(LIGHT, 4)
    assert [engine for _, engine in detector.changes] == ["columnar", "stepwise"]
    assert detector.run(HEAVY, 2).at_work == "columnar"


def test_rarely_called_detector_returns_to_the_stepwise_engine() -> None:
    assert Pretended().run(HEAVY, 10).run(Load(calls=5, events=1, touched=2), 600).at_work == "stepwise"


def test_a_pause_changes_nothing() -> None:
    detector = Pretended().run(HEAVY, 10)
    detector.now += 3600 * SECOND
    assert detector.run(HEAVY, 10).at_work == "columnar"
    assert len(detector.changes) == 1


@pytest.mark.parametrize("seen", [1.0, 0.4, 0.0])
def test_choice_does_not_flap(seen: float) -> None:
    """Whatever the load, as long as it stays; also where the engines count differently."""
    changed = 0
    for calls, events, each, found in product((1, 30, 1_000), (1, 7, 40, 500), (0, 0.5, 1, 2, 5, 30, 500), (0, 0.1)):
        load = Load(calls, events, events * each, round(events * found), seen=seen)
        detector = Pretended().run(load, 30)
        assert len(detector.changes) <= 1, load
        changed += len(detector.changes)
    assert changed > 10


def test_cost_is_bounded_by_that_of_the_better_engine() -> None:
    """Phases of light and heavy load of any length; two engines that stand by are the measure."""
    for light, heavy in product((0.3, 1, 3, 20), repeat=2):
        detector = Pretended()
        always = {"stepwise": 0.0, "columnar": 0.0}
        for _ in range(20):
            for load, seconds in ((LIGHT, light), (HEAVY, heavy)):
                detector.run(load, seconds)
                for name, costs in (("stepwise", STEPWISE), ("columnar", COLUMNAR)):
                    calls = int(load.calls * seconds)
                    always[name] += calls * costs.of(1, load.events, load.touched, load.found)
        assert detector.cost < 1.5 * min(always.values()) + SECOND, (light, heavy)


def test_late_events_count_against_the_columnar_engine() -> None:
    """For each call with one the columnar engine hands its whole state over, and takes it back."""
    load = Load(calls=20, events=500, touched=5_000, behind=1, live=1_000)
    assert Pretended().run(load, 30).changes == []
    detector = Pretended().run(HEAVY, 10)
    assert detector.run(load, 10).at_work == "stepwise"


def test_large_state_is_not_handed_over() -> None:
    def busy(live: int) -> Load:
        return Load(calls=20, events=500, touched=100_000, live=live)

    assert Pretended().run(busy(MOST_LIVE), 30).at_work == "columnar"
    assert Pretended().run(busy(MOST_LIVE + 1), 600).changes == []


def test_larger_state_is_handed_over_later() -> None:
    def after(live: int) -> int:
        ((at, _),) = Pretended().run(Load(calls=400, events=100, touched=2_000, live=live), 30).changes
        return at

    assert after(40_000) > after(100) + 2 * LOOK_EVERY


def test_a_clock_that_is_set_back_does_no_harm() -> None:
    detector = Pretended().run(HEAVY, 0.5)
    detector.now -= 3600 * SECOND
    assert detector.run(HEAVY, 3).at_work == "columnar"


def test_choice_is_made_at_intervals() -> None:
    read = 0

    class Counted(Pretended):
        @property
        def touched(self) -> int:
            nonlocal read
            read += 1
            return 0

        @touched.setter
        def touched(self, _: int) -> None:
            pass

    detector = Counted()
    read = 0
    calls = list(_calls(detector, 10_000))
    assert read == 1 + calls[-1] // LOOK_EVERY


def _calls(detector: Pretended, count: int) -> Iterator[int]:
    for number in range(count):
        at = number * SECOND // 1_000
        detector.choice.choose(1, 1, 0, at, detector)
        yield at
