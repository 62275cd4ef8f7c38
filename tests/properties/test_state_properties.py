"""Patterns that read states: engines, cuts and moved engines find what the oracle finds, on random ones."""

from __future__ import annotations

import pytest

from tests.support.random_patterns import WITH_AGGREGATES
from tests.support.states import assert_states_alike


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "least"), [("ordered", 12), ("epochs", 8), ("cut", 10)], ids=["in order", "by epochs", "cut"]
)
def test_engines_agree_with_oracle(how: str, least: int, at_length: bool) -> None:
    seeds = range(20_000 if at_length else 120)
    matched = [assert_states_alike(seed, WITH_AGGREGATES, cut=how == "cut", epochs=how == "epochs") for seed in seeds]
    assert sum(matched) > least
