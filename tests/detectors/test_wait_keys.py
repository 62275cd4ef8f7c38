"""Wait keys of the stepwise engine: an event meets the instances that wait for its value, whatever their number."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.automata.wait_keys import wait_keys
from distced.detectors.compiler import compile_pattern
from distced.detectors.language.parser import parse_publication
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.events import Attribute, Event
from tests.support.comparison import assert_alike
from tests.support.random_patterns import make_events

VALUES: tuple[Attribute, ...] = (None, 0, 1, 1.0, True, False, "1", "", 2**60, float(2**60))

PATTERNS = {
    "[A as a] ; [B where k == a.k]": lambda a, b: same(a, b, "k", "k"),
    "[A as a] ; [B where a.k == k and v == a.v] by w": lambda a, b: same(a, b, "k", "k") and same(a, b, "v", "v"),
    "[A as a] ; [B where v == a.k]": lambda a, b: same(a, b, "k", "v"),
    "[A] ; [B where k == 0]": lambda a, b: same(b, b, "k", "zero"),
}


def same(one: Event, other: Event, left: str, right: str) -> bool:
    """Equality of the language: as Python's, but no boolean is a number."""
    values = one.attributes.get(left), other.attributes.get(right)
    return values[0] == values[1] and (type(values[0]) is bool) == (type(values[1]) is bool)


def event(number: int, random: Random) -> Event:
    attributes = {name: random.choice(VALUES) for name in ("k", "v") if random.random() < 0.9}
    return Event(random.choice("AB"), number, number, "s", number, {**attributes, "w": 1, "zero": 0})


@pytest.mark.parametrize("text", PATTERNS)
@pytest.mark.parametrize("recorded_from", [None, 0, 60])
def test_instances_are_found_by_what_they_wait_for(text: str, recorded_from: int | None) -> None:
    """Also from when on gaps before matches are recorded, which are found by the key of the whole pattern."""
    random = Random(text)
    events = [event(number, random) for number in range(120)]
    engine, found = StepwiseEngine([compile_pattern(text)]), []
    for number, each in enumerate(events):
        if number == recorded_from:
            engine.keep_derivations()
        found += engine.feed([each])
    found += engine.finish()
    expected, waiting = [], list[Event]()
    for each in events:
        matched = [a for a in waiting if each.type == "B" and PATTERNS[text](a, each)]
        expected += [(a.seq, each.seq) for a in matched]
        waiting = [a for a in waiting if a not in matched] + [each] * (each.type == "A")
    assert sorted(tuple(part.seq for part in each.events) for each in found) == sorted(expected)
    assert len(expected) > 5


def test_event_meets_only_instances_with_its_value() -> None:
    engine = StepwiseEngine([compile_pattern("[A as a] ; [B where k == a.k] within 1h")])
    engine.feed([Event("A", at, at, "s", at, {"k": at}) for at in range(1_000)])
    other = StepwiseEngine([compile_pattern("[A as a] ; [B where k == a.k] within 1h")])
    restore(other, snapshot(engine))
    found = other.feed([Event("B", 2_000 + at, 2_000 + at, "s", 2_000 + at, {"k": at}) for at in range(10)])
    assert (len(found), other.touched) == (10, 10)


def test_condition_on_the_event_alone_is_tested_once_for_all_instances() -> None:
    engine = StepwiseEngine([compile_pattern("[A] ; [B where k == 1]")])
    engine.feed([Event("A", at, at, "s", at, {}) for at in range(1_000)])
    before = engine.touched
    assert engine.feed([Event("B", 2_000, 2_000, "s", 2_000, {"k": 2})]) == []
    assert engine.touched == before
    assert len(engine.feed([Event("B", 2_001, 2_001, "s", 2_001, {"k": 1})])) == 1_000


COMPARED = [
    "[A as a] ; [B where v == a.v]",
    "init n = 0 : [A set n = v] ; [B where n == v]",
    "[A as a] [B where v == a.v]* [C where v == a.v]",
    "([A as a] ; [B where v == a.v]) within 4ns",
    "[A as a] ; [B as b where v == a.v] ; [C where v == b.v and a.v == v]",
    "[A as a] ; ([B where v == a.v] | [C where v == a.v]) by k",
    "init n = 0 : [A set n = v] ([B where v == n set n = n + 1])+ [C where v == n]",
    "[A as a] ; (init n = a.v : [B where v == n] [B where v == n])",
    "[A] ; (init n = 1 : [B where v == n set n = 2] ; [B where v == n])",
    "([A as a], [B <= {B where v == a.v, T}]) @ T = 3ns",
    "[A as a] ; ~[B where v == a.v]* [B where v == a.v]",
]


@pytest.mark.parametrize("text", COMPARED)
@pytest.mark.parametrize("epochs", [False, True])
def test_lookup_agrees_with_the_oracle(text: str, epochs: bool) -> None:
    publication = parse_publication(f"{text} -> Out()")
    assert wait_keys(compile_pattern(text).structure) is not None or "init n = a.v" in text or "init n = 1" in text
    random = Random(text)
    compared = sum(
        assert_alike(publication, make_events(random, random.randrange(9), span=8), epochs=epochs) for _ in range(60)
    )
    assert compared > 30
