"""Patterns over derived types: engines and cuts find what the oracle finds, on random types, patterns and events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.derived_types import assert_alike_across_changes, assert_derived_alike
from tests.support.random_patterns import FEATURES

# A seed has nothing to be made smaller by.
ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SEEDS = st.integers(min_value=0, max_value=2**32)
SHARE = 8
"""How many patterns are tried for each seed."""


def _try(seed: int, *, cut: bool = False, epochs: bool = False) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        assert_derived_alike(random.randrange(2**32), FEATURES, cut=cut, epochs=epochs)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engines_agree_with_oracle_in_order(seed: int) -> None:
    _try(seed)


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 4)
def test_engines_agree_with_oracle_by_epochs(seed: int) -> None:
    _try(seed, epochs=True)


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 4)
def test_engines_agree_across_changes_of_engine(seed: int) -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    random = Random(seed)
    for _ in range(SHARE):
        assert_alike_across_changes(random.randrange(2**32), FEATURES)


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 4)
def test_cuts_agree_with_oracle(seed: int) -> None:
    _try(seed, cut=True)
