"""Wanted sets of patterns: without the other events a pattern finds the same."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import Compiled, compile_file, compile_pattern
from distced.detectors.runtime.wanted_sets import wanted_sets
from distced.detectors.shapes import ShapedPattern, Shapes
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.event_types import TypeRegistry, event_type
from distced.middleware.model.events import Event
from distced.middleware.sets.wanted import is_wanted, union
from tests.brokers.test_transparency import KINDS, _pattern
from tests.support.event_streams import END, comparable, spread

TYPES = [event_type("A", {"v": "number", "r": "string"}), event_type("B", {"v": "number"})]


def found(pattern: Compiled, events: list[Event]) -> list[object]:
    engine = StepwiseEngine([pattern])
    return comparable([*engine.feed(events), *engine.advance(END)])


@pytest.mark.parametrize("seeds", [150, pytest.param(20_000, marks=pytest.mark.properties)])
def test_pattern_finds_the_same_in_the_events_that_several_want(seeds: int) -> None:
    left_out = matches = 0
    for seed in range(seeds):
        random = Random(seed)
        registry = TypeRegistry(KINDS)
        patterns = [_pattern(random, f"Out{number}", registry) for number in range(2)]
        events = sorted(spread(random, random.randrange(3, 14), 2), key=lambda each: each.key)
        sets = union(map(wanted_sets, patterns))
        sent = [each for each in events if is_wanted(sets, each.type, each.attributes)]
        left_out += len(events) - len(sent)
        for pattern in patterns:
            expected = found(pattern, events)
            matches += len(expected)
            assert found(pattern, sent) == expected, f"seed {seed}: {pattern.text}"
    assert left_out > seeds // 10 and matches > seeds // 2


CASES = [
    ("a constant", "[A where r == 'x'] ; [B]", {"A": "r in x"}),
    ("a strict bound", "[A where v > 3]", {"A": "v from 3.0000000000000004"}),
    ("both bounds", "[A where v >= 3 and v < 4]", {"A": "v from 3.0 to 3.9999999999999996"}),
    ("alternatives of one attribute", "[A where r == 'x' or r == 'y']", {"A": "r in x, y"}),
    ("a choice", "[A where v in (1, 2) and r != 'x']", {"A": "v in 1, 2"}),
    (
        "alternatives inside a conjunction",
        "[A where r == 'x' and (v == 1 or v == 2 and r != 'y')]",
        {"A": "r in x; v in 1, 2"},
    ),
    ("a choice with null", "[A where v in (1, null)]", {"A": "any"}),
    ("alternatives of two attributes", "[A where v > 2 and (r == 'x' or v == 3)]", {"A": "v from 2.0000000000000004"}),
    ("a condition on another event", "[A as a] ; [A where r == a.r and v == 1]", {"A": "any"}),
    ("a register is no attribute", "init n = 0 : [A set n = v] ; [B where v == n]", {"A": "any", "B": "any"}),
    ("a domain", "([A where v > 3], [B <= {B where v == 2, T}]) @ T = 5s", {"B": "any"}),
    ("two atoms of a type", "[A where r == 'x'] ; [A where r == 'y']", {"A": "r in x, y"}),
    ("never", "[A where false] | [B]", {"A": "none"}),
]


@pytest.mark.parametrize(("pattern", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_conditions_are_stated_as_far_as_they_can_be(pattern: str, expected: dict[str, str]) -> None:
    sets = wanted_sets(compile_pattern(pattern, TypeRegistry(TYPES)))
    assert sets is not None
    for name, described in expected.items():
        assert _text(sets.get(name, ())) == described


def _text(conjunctions: tuple) -> str:  # type: ignore[type-arg]
    if not conjunctions:
        return "none"
    (tests,) = conjunctions
    parts = []
    for name, test in tests:
        if test.values is not None:
            parts.append(f"{name} in {', '.join(map(str, test.values))}")
        else:
            bounds = [("from", test.least), ("to", test.most)]
            parts.append(" ".join([name, *(f"{word} {bound}" for word, bound in bounds if bound is not None)]))
    return "; ".join(parts) or "any"


def test_pattern_that_reads_everything_wants_everything() -> None:
    assert wanted_sets(compile_pattern("[any] ; [A where v > 1]")) is None


def test_throttled_type_wants_all_that_its_throttling_counts() -> None:
    (compiled,) = compile_file(
        "type Calm = A where v > 2 every 1min\n[Calm where v > 7 and r == 'x'] -> Seen()", TypeRegistry(TYPES)
    )
    sets = wanted_sets(compiled)
    assert sets is not None and is_wanted(sets, "A", {"v": 3, "r": "y"}) and not is_wanted(sets, "A", {"v": 1})


def test_patterns_of_one_shape_have_their_own_constants() -> None:
    shapes = Shapes()
    registry = TypeRegistry(TYPES)
    texts = [f"[A where r == 'r{n}' and v > {n + 20}] ; [B where v == {n + 40}]" for n in range(3)]
    for n, text in enumerate(texts):
        each = shapes.find(text, registry)
        assert isinstance(each, ShapedPattern)
        sets = wanted_sets(each)
        assert sets == wanted_sets(compile_pattern(each.text, registry))
        assert is_wanted(sets, "A", {"r": f"r{n}", "v": n + 21}) and not is_wanted(sets, "A", {"r": "r9", "v": n + 21})
