"""Aggregates over sliding windows: exact, whatever came before, in memory that is bounded by the window."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.detectors.compiler import compile_file
from distced.detectors.cutting.cut import cut, full
from distced.detectors.explain.automaton_view import view_of
from distced.detectors.explain.facts import facts_of
from distced.detectors.language.derived import Sliding, Throttling
from distced.detectors.stepwise.sliding import SlidingAggregate
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MAX
from distced.middleware.sets.expressions import TRUE, Name


def stage(function: str, length: int = 10, by: tuple[str, ...] = ("k",)) -> SlidingAggregate:
    return SlidingAggregate(Throttling("m", "A", TRUE, 0, by, sliding=Sliding(function, Name("v"), length)))


def event(hi: int, value: Any, key: Any = 1) -> Event:
    return Event("A", hi, hi, "s", hi, {"v": value, "k": key})


FLOATS = st.floats(allow_nan=False)


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), FLOATS), min_size=1, max_size=30), st.integers(1, 5))
def test_sums_are_exact_and_rounded_once(values: list[float], length: int) -> None:
    total, mean = stage("sum", length), stage("avg", length)
    for hi, value in enumerate(values):
        found = total.value(event(hi, value)), mean.value(event(hi, value))
        window = values[max(0, hi - length) : hi + 1]
        infinite = {each for each in window if abs(each) == inf}
        if infinite:
            only = infinite.pop() if len(infinite) == 1 else None
            assert found == (only, only)
            continue
        exact = sum(map(Fraction, window), Fraction(0))
        whole = all(type(each) is int for each in window)
        if whole and abs(exact) <= INSTANT_MAX:
            assert (type(found[0]), found[0]) == (int, int(exact))
        else:
            assert (type(found[0]), found[0]) == (float, rounded(exact))
        assert (type(found[1]), found[1]) == (float, rounded(exact / len(window)))


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


@pytest.mark.parametrize("function", ["count", "sum", "avg", "min", "max", "first", "distinct"])
def test_a_window_depends_on_its_own_events_alone(function: str) -> None:
    random = Random(1)
    events = [
        event(hi, random.choice((None, True, "x", random.random(), random.randrange(3))), hi % 2) for hi in range(400)
    ]
    before, fresh = stage(function), stage(function)
    for each in events[:300]:
        before.value(each)
    for each in events[280:300]:
        fresh.value(each)
    assert [before.value(each) for each in events[300:]] == [fresh.value(each) for each in events[300:]]


@pytest.mark.parametrize("function", ["count", "sum", "avg", "min", "max", "first", "distinct"])
def test_what_has_left_the_windows_is_forgotten(function: str) -> None:
    made = stage(function)
    for hi in range(10_000):
        made.value(event(hi, hi % 7, hi // 3))
        assert len(made.passed) <= 12
        assert sum(len(each.kept) for each in made.passed.values()) <= 32


def test_an_event_without_a_key_has_no_window() -> None:
    made = stage("count")
    assert made.value(event(1, 1, None)) is None
    assert made.passed == {}


def test_a_pattern_that_reads_a_window_is_not_cut() -> None:
    text = "type W = A with (n = count() over 1min)\n{} -> X(n = {})\n"
    for pattern, shown in ("([W as w] ; [B]) ; [C]", "w.n"), ("([W where n > 2] [B]) ; [C]", "1"):
        assert len(cut(compile_file(text.format(pattern, shown)), full).plans) == 1


def test_explain_shows_the_aggregate() -> None:
    (pattern,) = compile_file(
        "type W = A where v > 1 with (n = count() over 1min, m = avg(v) over 1h) by k\n[W where n > m]"
    )
    labels = [move.label for state in view_of(pattern).states for move in state.moves]
    assert labels == ["A where v > 1 and count() over 1min > avg(v) over 1h"]


def test_equal_windows_are_one_stage() -> None:
    text = """
        type W = A with (n = count() over 1min, more = 2 * count() over 60s) by k
        type V = A with (number = count() over 1min) by k
        [W where n > 1] [V where number > more]
        """
    (pattern,) = compile_file(text)
    assert len(pattern.throttlings) == 1


def test_a_loss_counts_for_the_length_of_the_window() -> None:
    (pattern,) = compile_file("type W = A with (n = count() over 10ns)\n[W where n > 1]")
    assert pattern.reach_of_loss(5) == 15


def test_facts_have_windows_apart_from_throttling() -> None:
    (pattern,) = compile_file("type W = A with (n = count() over 1min) every 1h by k\n[W as w] -> X(n = w.n)")
    facts = facts_of(pattern)
    assert facts.windows == ("count() over 1min",)
    assert facts.throttled == ("A every 1h by (k)",)
