"""Wanted sets: unions hold what they unite, however small they are kept, and are the same in any order."""

from __future__ import annotations

from itertools import combinations, permutations, product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.model.events import Attribute
from distced.middleware.sets import wanted
from distced.middleware.sets.wanted import (
    EVERY_EVENT,
    Conjunction,
    Test,
    WantedSets,
    between,
    conjunction,
    covers,
    declared,
    holds,
    implies,
    is_wanted,
    one_of,
    read_sets,
    union,
    widened,
)

VALUES: tuple[Attribute, ...] = (None, True, "a", "b", "é", -1, 0, 1, 1.0, 2, 2.5, 3, 2**60)

TESTS: tuple[Test | None, ...] = (
    None,
    one_of(["a"]),
    one_of(["a", "b"]),
    one_of([1, 2]),
    between(1, 2),
    between(2),
    between(most=1.5),
)


def made(**tests: Test | None) -> Conjunction:
    found = conjunction(tests)
    assert found is not None
    return found


SMALL = [made(a=one, b=other) for one, other in product(TESTS, repeat=2)]
EVENTS = [{"a": one, "b": other} for one, other in product(VALUES, repeat=2)]


def passed(conjunctions: tuple[Conjunction, ...]) -> list[bool]:
    return [any(holds(each, event) for each in conjunctions) for event in EVENTS]


def test_implication_is_that_of_events() -> None:
    for one, other in product(SMALL, repeat=2):
        if implies(one, other):
            assert all(holds(other, each) for each in EVENTS if holds(one, each)), (one, other)
    assert implies(made(a=one_of([1])), made(a=between(0, 3))) and not implies(EVERY_EVENT, SMALL[-1])


def test_union_of_two_small_sets_is_exact() -> None:
    for one, other in combinations(SMALL, 2):
        joined = widened([one, other])
        expected = [mine or theirs for mine, theirs in zip(passed((one,)), passed((other,)), strict=True)]
        found = passed(joined)
        # Two conjunctions are few: nothing was dropped, and ranges were joined where they touch.
        assert found == expected, (one, other, joined)
        assert covers({"A": joined}, {"A": (one,)}) and covers({"A": joined}, {"A": (other,)})


@pytest.mark.parametrize("chosen", list(combinations(range(0, len(SMALL), 5), 3)))
def test_union_does_not_depend_on_the_order(chosen: tuple[int, ...]) -> None:
    unions = {widened([SMALL[each] for each in order]) for order in permutations(chosen)}
    assert len(unions) == 1


NUMBERS = st.one_of(st.integers(-50, 50), st.floats(-50, 50, allow_nan=False))
TEXTS = st.text("abcd", min_size=0, max_size=3)
ANY_TEST = st.one_of(
    st.none(),
    st.lists(st.one_of(NUMBERS, TEXTS, st.booleans()), min_size=1, max_size=4).map(one_of),
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: between(min(pair), max(pair))),
    NUMBERS.map(between),
)
CONJUNCTIONS = st.dictionaries(st.sampled_from("abcde"), ANY_TEST, max_size=4).map(conjunction).filter(bool)
SETS = st.dictionaries(st.sampled_from("AB"), st.lists(CONJUNCTIONS, min_size=1, max_size=30).map(tuple), max_size=2)
ATTRIBUTES = st.dictionaries(st.sampled_from("abcde"), st.one_of(st.none(), NUMBERS, TEXTS, st.booleans()))


@given(st.lists(SETS, max_size=4), st.lists(ATTRIBUTES, min_size=1, max_size=20))
def test_union_holds_every_event_of_its_sets(sets: list[WantedSets], events: list[dict[str, Attribute]]) -> None:
    joined = union(sets)
    assert joined is not None
    assert all(len(each) <= wanted.MOST_CONJUNCTIONS for each in joined.values())
    for each in sets:
        assert covers(joined, each)
        for type_name in each:
            for event in events:
                assert not is_wanted(each, type_name, event) or is_wanted(joined, type_name, event)


@given(st.lists(SETS, max_size=3))
def test_union_is_the_same_in_any_order_and_as_it_is_declared(sets: list[WantedSets]) -> None:
    joined = union(sets)
    assert joined is not None and union(reversed(sets)) == joined
    text = msgspec.json.encode(declared(joined))
    back = read_sets(msgspec.json.decode(text, type=dict[str, tuple[dict[str, Test], ...]]))
    assert covers(back, joined) and covers(joined, back)


CASES = [
    ("values of one attribute", [{"room": one_of([f"r{n}"])} for n in range(200)], "200 values"),
    ("too many values", [{"room": one_of([f"r{n}"])} for n in range(1_000)], "every event"),
    (
        "too many conjunctions, one attribute in common",
        [{"room": one_of([f"r{n}"]), f"a{n}": between(n)} for n in range(40)],
        "40 values",
    ),
    ("too many conjunctions, none in common", [{f"a{n}": between(n)} for n in range(40)], "every event"),
    ("ranges that overlap", [{"v": between(n, n + 1)} for n in range(40)], "range 0.0 40.0"),
    ("ranges apart", [{"v": between(3 * n, 3 * n + 1)} for n in range(40)], "range 0.0 118.0"),
    ("one without a test", [{"v": between(1)}, {}], "every event"),
    ("a longer text than is tested for", [{"v": one_of(["x" * 300])}], "every event"),
    ("infinity", [{"v": one_of([float("inf")])}], "every event"),
]


@pytest.mark.parametrize(("tests", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_sets_are_kept_small(tests: list[dict[str, Test | None]], expected: str) -> None:
    (found,) = widened(made(**each) for each in tests)
    described = "every event"
    for _, test in found:
        described = f"range {test.least} {test.most}" if test.values is None else f"{len(test.values)} values"
    assert described == expected


def test_set_that_holds_of_nothing_is_left_out() -> None:
    assert read_sets({"A": ({"v": Test(values=())},), "B": ({"v": Test(least=2, most=1)},)}) == {}
    assert read_sets({"A": ({},) * 2_000}) == {"A": (EVERY_EVENT,)}
