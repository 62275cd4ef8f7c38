"""Every small pattern on every small input: the engine, the oracle and the canonical form.

After re2's exhaustive tester. Patterns are built over A and B from four atoms and every operator; inputs are all lists
of events of these types at all intervals between three instants, in every order of ties. What A and B are called makes
no difference, so the first atom of a pattern is an A. On the way, patterns of one canonical id are held to give the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, product
from random import Random

import pytest

from distced.detectors.canonical.form import canonical_id
from distced.middleware.model.events import Event
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Concatenation,
    Hidden,
    Iteration,
    Parallel,
    Pattern,
    Publication,
    Relative,
    Scope,
    Sequence,
    Timing,
    Window,
    walk,
)
from distced.middleware.sets.describable import DescribableSet, TypeSet, Union
from tests.support.comparison import assert_alike, by_engine, compiled

A, B, T = TypeSet("A"), TypeSet("B"), TypeSet("T")
BOTH = Union((A, B))
ATOMS = (Atom(A), Atom(B), Atom(A, BOTH), Atom(B, BOTH))
TIMED = (Atom(T), Atom(T, Union((T, A))), Atom(Union((B, T))))
TIMES = ((0, None), (1, None), (0, 1), (2, 2))
INTERVALS = sorted(((lo, hi) for lo in range(3) for hi in range(lo, 3)), key=lambda each: (each[1], each[0]))


@cache
def patterns(size: int, timed: bool = False) -> tuple[Pattern, ...]:
    """All patterns of this many nodes; `timed` where a time event T may be named."""
    if size == 1:
        return (*ATOMS, *TIMED) if timed else ATOMS
    return (*_over_one(size, timed), *_over_two(size, timed))


def _over_one(size: int, timed: bool) -> Iterator[Pattern]:
    for body in patterns(size - 1, timed):
        for least, most in TIMES:
            yield Iteration(body, least, most)
        yield Hidden(body)
        yield Scope(body, B)
        yield Window(body, 1)


def _over_two(size: int, timed: bool) -> Iterator[Pattern]:
    for first in range(1, size - 1):
        for left, right in product(patterns(first, timed), patterns(size - 1 - first, timed)):
            yield Concatenation((left, right))
            yield Sequence((left, right))
            yield Alternation((left, right))
            if not timed:
                # A side of & sees no time event from outside.
                yield Parallel(left, right)
        if not timed:
            for left, right in product(patterns(first), patterns(size - 1 - first, True)):
                yield Timing(left, right, "T", Relative(1))


def inputs(length: int) -> list[list[Event]]:
    """All lists of this many events, in every order of ties."""
    found = []
    for times in combinations_with_replacement(INTERVALS, length):
        for types in product("AB", repeat=length):
            pairs = enumerate(zip(types, times, strict=True))
            found.append([Event(name, lo, hi, "e", seq, {}) for seq, (name, (lo, hi)) in pairs])
    return found


def _begins_with_a(pattern: Pattern) -> bool:
    labels: list[DescribableSet] = [node.label for node in walk(pattern) if isinstance(node, Atom)]
    return labels[0] == A


def _hold(size: int, tried: list[list[Event]]) -> int:
    """Try all patterns of a size on these inputs; how many patterns were accepted."""
    accepted = 0
    by_id: dict[str, Pattern] = {}
    for pattern in filter(_begins_with_a, patterns(size)):
        publication = Publication(pattern)
        if not all(assert_alike(publication, events) for events in tried):
            continue
        accepted += 1
        same = by_id.setdefault(canonical_id(publication), pattern)
        if same is not pattern:
            for events in tried[:: max(1, len(tried) // 50)]:
                one, other = compiled(publication), compiled(Publication(same))
                assert by_engine(one, events) == by_engine(other, events), (one.text, other.text, events)
    return accepted


def test_enumeration_is_complete() -> None:
    assert len(INTERVALS) == 6
    assert [len(inputs(length)) for length in range(4)] == [1, 12, 84, 448]


def test_engine_agrees_on_patterns_of_one_and_two_nodes() -> None:
    tried = [events for length in range(4) for events in inputs(length)]
    assert _hold(1, tried) == 2
    assert _hold(2, tried) > 10


@pytest.mark.slow
def test_engine_agrees_on_patterns_of_three_nodes(at_length: bool) -> None:
    tried = [events for length in range(5 if at_length else 3) for events in inputs(length)]
    if not at_length:
        tried += inputs(3)[::12]
    assert _hold(3, tried) > 100


@pytest.mark.slow
def test_engine_agrees_on_patterns_of_four_nodes(at_length: bool) -> None:
    tried = [*inputs(2), *inputs(3)] if at_length else inputs(2)[::18]
    assert _hold(4, tried) > 1000


@pytest.mark.slow
def test_engine_agrees_on_patterns_of_five_nodes(at_length: bool) -> None:
    """A sample: all inputs of three events for some patterns in the long run, a few for fewer in the short one."""
    random = Random(5)
    chosen = random.sample([each for each in patterns(5) if _begins_with_a(each)], 20_000 if at_length else 300)
    tried = inputs(3)
    accepted = 0
    for pattern in chosen:
        accepted += all(
            assert_alike(Publication(pattern), events) for events in random.sample(tried, 30 if at_length else 8)
        )
    assert accepted > len(chosen) // 3
