"""Relief of the busiest node by ejections, on loads alone."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.policies.distribution.choose.relief import MOST_MOVES, Relief, relief

CASES = {
    # name: (capacity by node, loads by node, greatest use afterwards; None for no relief)
    "two change places": ({"p": 1, "q": 1}, {"p": [3, 2, 2], "q": [3, 2]}, 6),
    "a third node takes what is ejected": ({"p": 1, "q": 1, "r": 1}, {"p": [5, 5], "q": [4], "r": [3]}, 7),
    "one move": ({"p": 1, "q": 1}, {"p": [3, 2], "q": []}, 3),
    "a faster node": ({"p": 1, "q": 4}, {"p": [4], "q": [10, 2]}, 3.5),
    "balanced": ({"p": 1, "q": 1}, {"p": [3, 3], "q": [2, 2, 2]}, None),
    "one detector": ({"p": 1, "q": 1}, {"p": [7], "q": [1]}, None),
    "no other node": ({"p": 1}, {"p": [1, 2]}, None),
    "no detector": ({"p": 1, "q": 1}, {"p": [], "q": []}, None),
    "not worth two moves": ({"p": 1, "q": 1}, {"p": [100, 51], "q": [99, 50]}, None),
    "ties": ({"p": 1, "q": 1, "r": 1}, {"p": [2, 2], "q": [2, 2], "r": [2]}, None),
}


def asked(
    capacities: dict[str, float], on: dict[str, list[float]], per_move: float = 0.01, least: float = 0.02
) -> tuple[Relief | None, dict[str, float], dict[str, str]]:
    loads = {f"{node}{place}": load for node, own in on.items() for place, load in enumerate(own)}
    at = {name: name[0] for name in loads}
    return relief(loads, at, uses_of(loads, at, capacities), capacities, per_move, least), loads, at


def uses_of(loads: dict[str, float], at: dict[str, str], capacities: dict[str, float]) -> dict[str, float]:
    return {
        node: sum(loads[name] for name, place in at.items() if place == node) / capacity
        for node, capacity in capacities.items()
    }


@pytest.mark.parametrize(("capacities", "on", "after"), CASES.values(), ids=CASES)
def test_relief(capacities: dict[str, float], on: dict[str, list[float]], after: float | None) -> None:
    found, loads, at = asked(capacities, on)
    if after is None:
        assert found is None
        return
    assert found is not None and found.after == pytest.approx(after)
    assert max(uses_of(loads, at | dict(found.nodes), capacities).values()) == pytest.approx(after)


def test_detectors_that_stay_are_in_the_uses() -> None:
    found = relief({"a": 3.0}, {"a": "p"}, {"p": 10.0, "q": 8.0, "r": 9.0}, {"p": 1.0, "q": 1.0, "r": 1.0}, 0.01, 0.02)
    assert found is None
    found = relief({"a": 3.0}, {"a": "p"}, {"p": 10.0, "q": 6.0, "r": 9.0}, {"p": 1.0, "q": 1.0, "r": 1.0}, 0.01, 0.02)
    assert found is not None and found.nodes == {"a": "q"} and found.after == 9.0


def test_many_small_detectors_are_left_to_single_moves() -> None:
    found, *_ = asked({"p": 1, "q": 1}, {"p": [1.0] * 300, "q": [1.0] * 280})
    assert found is None


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=7),
)
def test_relief_is_what_it_says_and_no_better_than_the_optimum(
    speeds: list[int], placed: list[tuple[int, int]]
) -> None:
    capacities = {"pqrs"[place]: float(speed) for place, speed in enumerate(speeds)}
    nodes = list(capacities)
    on: dict[str, list[float]] = {node: [] for node in nodes}
    for place, load in placed:
        on[nodes[place % len(nodes)]].append(float(load))
    found, loads, at = asked(capacities, on)
    before = max(uses_of(loads, at, capacities).values())
    if found is None:
        # No single move, and no exchange of two, relieves the busiest node by what it has to.
        for changes in changes_of_two(at, nodes):
            after = max(uses_of(loads, at | changes, capacities).values())
            assert before == 0 or (before - after) / before < max(0.01 * len(changes), 0.02) + 1e-9
        return
    after = max(uses_of(loads, at | dict(found.nodes), capacities).values())
    assert found.before == pytest.approx(before) and found.after == pytest.approx(after) and after < before
    assert 0 < len(found.nodes) <= MOST_MOVES
    assert found.gain >= max(0.01 * len(found.nodes), 0.02)
    best = min(
        max(uses_of(loads, dict(zip(loads, each, strict=True)), capacities).values())
        for each in product(nodes, repeat=len(loads))
    )
    assert after >= best - 1e-9


def changes_of_two(at: dict[str, str], nodes: list[str]) -> list[dict[str, str]]:
    singles = [{name: node} for name in at for node in nodes if node != at[name]]
    exchanged = [{one: at[other], other: at[one]} for one in at for other in at if at[one] < at[other]]
    return singles + exchanged
