"""The engine finds what the oracle finds: constituents, attributes, timestamps, on random patterns and events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.comparison import assert_alike
from tests.support.random_patterns import FEATURES, WITH_AGGREGATES, PatternMaker, make_events

# A seed has nothing to be made smaller by; what fails is shrunk by the tree.
ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SEEDS = st.integers(min_value=0, max_value=2**32)
SHARE = 12
"""How many patterns are tried for each seed: making one is quicker than drawing its seed."""


def _try(seed: int, features: frozenset[str], *, epochs: bool, most: int, span: int = 10) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        publication = PatternMaker(random, features).publication(random.randrange(1, most + 1))
        events = make_events(random, random.randrange(9), span=span)
        assert_alike(publication, events, epochs=epochs)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engine_agrees_with_oracle_in_order(seed: int) -> None:
    _try(seed, FEATURES, epochs=False, most=6)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engine_agrees_with_oracle_by_epochs(seed: int) -> None:
    _try(seed, FEATURES, epochs=True, most=6, span=5)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engine_agrees_with_oracle_on_ties(seed: int) -> None:
    _try(seed, FEATURES, epochs=False, most=5, span=3)


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [False, True])
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engine_aggregates_as_the_oracle(epochs: bool, seed: int) -> None:
    _try(seed, WITH_AGGREGATES, epochs=epochs, most=6, span=5)


@pytest.mark.parametrize("feature", sorted(FEATURES - {"output"}))
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 8)
def test_engine_agrees_with_oracle_on_one_feature(feature: str, seed: int) -> None:
    _try(seed, frozenset({feature, "output"}), epochs=False, most=8)
