"""An engine with limits finds what one without finds, or raises `LimitError`, on random patterns."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.limits import Limits
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import LimitError, PatternError
from distced.middleware.model.events import Event
from tests.support.comparison import Composite, compiled, composites
from tests.support.random_patterns import PatternMaker, make_events


def found(engine: StepwiseEngine | ColumnarEngine, events: list[Event], at_once: int) -> list[Composite]:
    composite = []
    for begin in range(0, len(events), at_once):
        composite += engine.feed(events[begin : begin + at_once])
    return composites([*composite, *engine.finish()])


def agrees(seed: int, make: Callable[..., StepwiseEngine | ColumnarEngine]) -> bool | None:
    """Whether an engine with limits finds the same; None where it is beyond them, or there is no pattern."""
    random = Random(seed)
    try:
        pattern = compiled(PatternMaker(random).publication(random.randrange(1, 8)), epochs=random.random() < 0.1)
        engine = make([pattern])
    except PatternError:
        return None
    events = sorted(make_events(random, 60), key=lambda each: each.key)
    at_once = random.choice((1, 7, 60))
    engine.limit(Limits(random.choice((3, 20, 1000)), random.choice((2, 5, 20, 1000)), 2**20, 100))
    try:
        limited = found(engine, events, at_once)
    except LimitError:
        return None
    return limited == found(make([pattern]), events, at_once)


@given(st.integers(min_value=0, max_value=2**32))
def test_limits_change_nothing_below_them(seed: int) -> None:
    for number in range(5):
        assert agrees(seed * 5 + number, StepwiseEngine) is not False


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=2**32))
def test_limits_of_the_columnar_engine_change_nothing_below_them(seed: int) -> None:
    assert agrees(seed, ColumnarEngine) is not False


def test_some_patterns_are_below_the_limits_and_others_beyond() -> None:
    outcomes = [agrees(seed, StepwiseEngine) for seed in range(60)]
    assert outcomes.count(True) > 10 and outcomes.count(None) > 10
