"""Expected use of the busiest node: against simulation of its definition, and its limits."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.policies.distribution.estimate.busiest_node import BusiestNode, error_of

CAPACITIES = {"a": 100.0, "b": 100.0, "c": 50.0}


def busiest(**uses: float) -> BusiestNode:
    return BusiestNode(uses, CAPACITIES.__getitem__)


def test_rise_is_mean_of_later_busiest_node() -> None:
    """Loads drawn from their errors: the mean by which the busier of node `a` and the node beside it gets busier."""
    random = Random(1)
    node = busiest(a=0.4, b=0.5, c=0.1)
    total, draws = 0.0, 200_000
    for _ in range(draws):
        own = random.gauss(0.4, error_of(40) / 100)
        beside = random.gauss(0.5, error_of(50) / 100)
        total += max(own + random.gauss(12.0, 6.0) / 100, beside) - max(own, beside)
    assert node.rise("a", 12.0, 6.0) == pytest.approx(total / draws, rel=0.02)


def test_rise_is_whole_load_on_busiest_node_and_nothing_far_below_it() -> None:
    assert busiest(a=0.9, b=0.1, c=0.1).rise("a", 10.0, 5.0) == pytest.approx(0.1)
    assert busiest(a=0.9, b=0.1, c=0.1).rise("c", 5.0, 2.0) == pytest.approx(0.0, abs=1e-9)


def test_rise_is_more_than_by_means_just_below_busiest_node() -> None:
    assert busiest(a=0.4, b=0.5, c=0.0).rise("a", 10.0, 5.0) > 0.01
    assert busiest(a=0.4, b=0.5, c=0.0).rise("c", 5.0, 2.5) < 1e-6


def test_node_alone_gets_busier_by_load() -> None:
    assert BusiestNode({"a": 0.5}, CAPACITIES.__getitem__).rise("a", 20.0, 4.0) == pytest.approx(0.2)


def test_any_load_and_capacity_gives_a_number() -> None:
    """Whatever an entry has."""
    for load, capacity in ((1e200, 1.0), (1.0, 1e-200), (1e300, 1e-5)):
        node = BusiestNode({"a": load / capacity, "b": 1.0}, {"a": capacity, "b": 1.0}.__getitem__)
        assert node.rise("b", 1.0, 1.0) >= 0 and error_of(load) > 0


@given(
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 2), min_size=1),
    st.data(),
    st.floats(0, 200),
    st.floats(0, 100),
)
def test_rise_is_never_negative_nor_beyond_load_and_error(
    uses: dict[str, float], data: st.DataObject, load: float, error: float
) -> None:
    node = data.draw(st.sampled_from(sorted(uses)))
    rise = BusiestNode(uses, CAPACITIES.__getitem__).rise(node, load, error)
    assert -1e-9 <= rise <= (load + error) / CAPACITIES[node] + 1e-9
