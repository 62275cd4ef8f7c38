"""CEDR queries on the simulated network: what subscriptions get does not depend on nodes, moves and links."""

from __future__ import annotations

import pytest

from tests.simulations.test_network_transparency import check
from tests.support.random_cedr import translated


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [16, pytest.param(1_000, marks=pytest.mark.properties)])
def test_composite_events_of_queries_do_not_depend_on_the_network(seeds: int) -> None:
    checked = [check(seed, make=translated, lose=seed % 4 == 0) for seed in range(seeds)]
    assert sum(each.found for each in checked) > seeds // 2
    assert sum(each.moved for each in checked) > seeds // 2
