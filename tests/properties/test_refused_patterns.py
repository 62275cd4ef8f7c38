"""No pattern is refused as one that can never match and matches: the oracle finds nothing for it in any events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from distced.detectors.automata.satisfiable import satisfiable
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event
from distced.middleware.sets.evaluation import Scope, compile_condition
from distced.middleware.sets.expressions import Binary, Expression, Literal, Name, Unary
from tests.support.comparison import by_oracle, compiled
from tests.support.oracle import TooLongError
from tests.support.random_patterns import FEATURES, PatternMaker, make_events

ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SEEDS = st.integers(min_value=0, max_value=2**32)


def _refused(seed: int, features: frozenset[str], *, epochs: bool) -> None:
    random = Random(seed)
    for _ in range(30):
        publication = PatternMaker(random, features).publication(random.randrange(1, 7))
        try:
            compiled(publication, epochs=epochs).check_possible()
        except PatternError as error:
            if "can never match" not in str(error):
                continue
        else:
            continue
        for _ in range(20):
            events = make_events(random, random.randrange(4, 10), span=random.choice((4, 10)))
            try:
                assert by_oracle(publication, events, epochs=epochs) == [], publication
            except TooLongError:
                break


@pytest.mark.slow
@given(SEEDS, st.booleans())
@settings(phases=ONE_AFTER_THE_OTHER)
def test_refused_patterns_match_nothing(seed: int, epochs: bool) -> None:
    _refused(seed, FEATURES, epochs=epochs)


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 2)
def test_refused_patterns_match_nothing_in_time(seed: int) -> None:
    _refused(seed, frozenset({"timing", "window", "iteration", "alternation"}), epochs=False)


VALUES = [None, True, False, 0, 1, 2, 1.5, -1, "a", "b"]
CONDITIONS: st.SearchStrategy[Expression] = st.recursive(
    st.builds(
        Binary,
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
        st.sampled_from([Name("v"), Name("w"), Literal(1)]),
        st.sampled_from([*map(Literal, VALUES), Name("v")]),
    ),
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["and", "and", "or"]), inner, inner), st.builds(Unary, st.just("not"), inner)
    ),
    max_leaves=6,
)


@given(CONDITIONS)
def test_conditions_that_cannot_hold_hold_for_no_values(condition: Expression) -> None:
    if satisfiable(condition):
        return
    holds = compile_condition(condition, Scope())
    for v in VALUES:
        for w in VALUES:
            assert not (holds if isinstance(holds, bool) else holds(Event("A", 1, 1, "s", 1, {"v": v, "w": w}), (), ()))
