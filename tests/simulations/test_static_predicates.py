"""The baseline of Cayuga's benchmark counts as numpy does without an index, and as the engine does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the baseline is compiled")

from distced.detectors.columnar.loop import Loop
from distced.detectors.compiler import compile_pattern
from distced.middleware.sets.expressions import format_expression
from distced.simulations.benchmarks.cayuga_queries import Parameters, queries, stream
from distced.simulations.benchmarks.patterns import arrays
from distced.simulations.benchmarks.static_predicates import Row, StaticPredicates, read


@pytest.mark.parametrize("domain", [2, 5, 100])
def test_predicates_count_as_numpy(domain: int) -> None:
    parameters = Parameters(domain=domain)
    batch = arrays(stream(2000, 3, domain=domain))
    rows = [read(query.steps[0]) for query in queries(parameters, 500)]
    expected = sum(_by_numpy(row, batch) for row in rows)
    assert StaticPredicates(rows).count(batch) == expected > 10


def test_predicates_count_as_the_engine() -> None:
    parameters = Parameters(domain=4)
    batch = stream(1000, 5, domain=4)
    conditions = [query.steps[0] for query in queries(parameters, 80)]
    loop = Loop(compile_pattern(f"[S where {format_expression(each)}]").automaton for each in conditions)
    assert StaticPredicates(map(read, conditions)).count(arrays(batch)) == len(loop.feed(batch)) > 100


def test_bounds_belong_to_ranges_and_equal_predicates_count_each() -> None:
    rows: list[Row] = [((("a", 1), ("b", 2)), (("w", 0.25, 0.5), ("x", 0.0, 1.0)))]
    # The bounds, beyond either, another value, and the values the other way round.
    batch = {
        "a": np.array([1, 1, 1, 1, 1, 2]),
        "b": np.array([2, 2, 2, 2, 3, 1]),
        "w": np.array([0.25, 0.5, 0.2499, 0.3, 0.3, 0.3]),
        "x": np.array([0.0, 1.0, 0.5, 1.0001, 0.5, 0.5]),
    }
    assert StaticPredicates(rows).count(batch) == 2
    assert StaticPredicates(3 * rows).count(batch) == 6
    assert StaticPredicates([]).count(batch) == 0


@pytest.mark.parametrize(
    "text",
    [
        "a == 1 and b == 2 and w >= 0.1 and w <= 0.2",
        "a == 1 and b == 2 and w >= 0.1 and x <= 0.2",
        "a == 1 and b == 2 and w >= 0.1 and w <= 0.2 and x >= 0.1 and x <= 0.2 and c != 3",
        "a == 1 and a == 2 and w >= 0.1 and w <= 0.2 and x >= 0.1 and x <= 0.2",
    ],
)
def test_other_conditions_are_refused(text: str) -> None:
    automaton = compile_pattern(f"[S where {text}]").automaton
    with pytest.raises(ValueError, match=r"^not "):
        read(automaton.positions[0].label.by_type["S"])


def _by_numpy(row: Row, batch: Mapping[str, Any]) -> int:
    values, ranges = row
    holds = np.ones(len(batch["a"]), bool)
    for name, value in values:
        holds &= batch[name] == value
    for name, least, most in ranges:
        holds &= (batch[name] >= least) & (batch[name] <= most)
    return int(holds.sum())
