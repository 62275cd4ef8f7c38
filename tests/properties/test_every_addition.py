"""All that a pattern may have, drawn together: engines, cuts and engines that hand over amid find what the oracle
finds, and replays in every way what a run finds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.every_addition import assert_file, cut_up, replayable
from tests.support.replay_runs import replay_differs

pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")

# A seed has nothing to be made smaller by; what fails is shrunk by the tree.
ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SEEDS = st.integers(min_value=0, max_value=2**32)
SHARE = 8
"""How many files are tried for each seed; two of five are compared."""


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_engines_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        assert_file(random.randrange(2**32))


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_cuts_agree_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        assert_file(random.randrange(2**32), cut_up)


def test_much_is_found() -> None:
    """So that the others compare more than empty lists."""
    found = [assert_file(seed) for seed in range(300)]
    assert sum(each is not None for each in found) > 100
    assert sum(each is True for each in found) > 30
    assert sum(assert_file(seed, cut_up) is True for seed in range(300)) > 15


@pytest.mark.slow
def test_replays_find_what_a_run_finds(at_length: bool) -> None:
    pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")
    found, ways = 0, ""
    for seed in range(10_000 if at_length else 300):
        count, how = replay_differs(seed, replayable)
        found += count
        ways += how
    assert found > 500
    assert min(ways.count(each) for each in "wtk") > 15
