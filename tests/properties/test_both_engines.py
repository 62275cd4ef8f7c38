"""The columnar engine finds what the stepwise one finds, on random patterns, in any batches, across hand-overs."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

from tests.support.columnar_engine import differences
from tests.support.random_patterns import WITH_AGGREGATES


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=2**32))
@settings(phases=(Phase.explicit, Phase.reuse, Phase.generate), max_examples=settings().max_examples // 2)
def test_engines_detect_the_same(seed: int) -> None:
    for number in range(15):
        differences(seed * 15 + number)


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=2**32))
@settings(phases=(Phase.explicit, Phase.reuse, Phase.generate), max_examples=settings().max_examples // 4)
def test_engines_aggregate_the_same(seed: int) -> None:
    for number in range(15):
        differences(seed * 15 + number, WITH_AGGREGATES)
