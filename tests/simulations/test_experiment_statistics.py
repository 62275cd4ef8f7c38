"""Intervals and paired tests of experiments, against values by hand and by scipy."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.simulations.experiments.reporting.statistics import adjusted, interval, paired

pytest.importorskip("scipy")

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


def test_interval_by_hand() -> None:
    found = interval([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.3027, standard deviation 1, three values; cut off at 0.
    assert found is not None and found.mean == 2.0 and found.count == 3
    assert found.low == 0.0 and found.high == pytest.approx(2 + 4.302653 / 3**0.5)
    below = interval([-1.0, 0.0, 1.0])
    assert below is not None and below.low == pytest.approx(-4.302653 / 3**0.5)


def test_interval_of_few() -> None:
    assert interval([]) is None
    single = interval([4.0])
    assert single is not None and (single.low, single.high) == (4.0, 4.0)


@given(st.lists(NUMBERS, min_size=2, max_size=30))
def test_interval_holds_its_mean(values: list[float]) -> None:
    found = interval(values)
    assert found is not None and found.low <= found.mean <= found.high
    assert found.mean == pytest.approx(fmean(values))


def test_pairs_by_hand() -> None:
    first = dict(enumerate([10.0, 12.0, 9.0, 14.0, 11.0, 13.0]))
    second = {seed: value + 1 + seed / 10 for seed, value in first.items()} | {99: 0.0}
    found = paired(first, second)
    assert found is not None and found.count == 6
    assert found.difference.mean == pytest.approx(-1.25)
    # All six differences have one sign: two of 2^6 arrangements are as extreme.
    assert found.p == pytest.approx(2 / 64)
    same = paired(first, first)
    assert same is not None and (same.p, same.ratio, same.difference.mean) == (1.0, 1.0, 0.0)
    assert paired(first, {99: 1.0}) is None


def test_adjustment_by_hand() -> None:
    assert adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjusted([0.9, 0.8]) == [1.0, 1.0]
    assert adjusted([]) == []


@given(st.lists(st.floats(0, 1), max_size=10))
def test_adjusted_values_keep_their_order_and_only_grow(values: list[float]) -> None:
    found = adjusted(values)
    assert all(one <= other <= 1 for one, other in zip(values, found, strict=True))
    order = sorted(range(len(values)), key=lambda place: values[place])
    assert [found[place] for place in order] == sorted(found)
