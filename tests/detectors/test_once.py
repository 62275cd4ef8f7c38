"""`once` patterns: standing instances as state, their limits, late events, forms, and where they are detected whole."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import compile_file, compile_pattern
from distced.detectors.cutting.cut import cut, full
from distced.detectors.explain.facts import facts_of
from distced.detectors.limits import Limits
from distced.detectors.runtime.engines import make_engine
from distced.detectors.runtime.shared_pass import is_suited
from distced.detectors.shapes import Shapes
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import LimitError, PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns import event as binding_event
from distced.middleware.patterns.statements import read_statements
from tests.support.comparison import assert_alike
from tests.support.random_patterns import FEATURES, PatternMaker, make_events

COUNT = "once init n = 0 : [A set n = n + 1]* by k -> N(k = k, n = n)"


def event(type_name: str, at: int, seq: int, **attributes: int) -> Event:
    return Event(type_name, at, at, "s", seq, attributes)


def told(found: list[CompositeEvent]) -> list[tuple[object, ...]]:
    return [(tuple(each.seq for each in one.events), dict(one.attributes)) for one in found]


def test_keys_that_have_begun_are_in_a_snapshot() -> None:
    pattern = compile_pattern("once [A <= {A, B}] ; [B] by k")
    engine = StepwiseEngine([pattern])
    assert engine.feed([event("B", 1, 0, k=1), event("A", 2, 1, k=2)]) == []
    other = StepwiseEngine([pattern])
    restore(other, snapshot(engine))
    later = [event("A", 3, 2, k=1), event("A", 4, 3, k=2), event("A", 4, 4, k=3), event("B", 5, 5, k=3)]
    later += [event("B", 6, 6, k=1), event("B", 7, 7, k=2)]
    assert told(other.feed(later)) == told(engine.feed(later)) == [((4, 5), {}), ((1, 7), {})]


def test_instance_that_has_ended_stays_ended_in_a_snapshot() -> None:
    pattern = compile_pattern("once [A]")
    engine = StepwiseEngine([pattern])
    assert len(engine.feed([event("A", 1, 0)])) == 1
    other = StepwiseEngine([pattern])
    restore(other, snapshot(engine))
    assert other.feed([event("A", 2, 1)]) == []
    assert other.live_instances() == 0


def test_engine_that_has_begun_is_not_as_new() -> None:
    engine = StepwiseEngine([compile_pattern("once [A] by k")])
    assert engine.sweep(5)
    engine.feed([event("A", 6, 0, k=1)])
    assert engine.live_instances() == 0
    assert not engine.sweep(10)


def test_keys_count_against_the_limit_on_instances() -> None:
    engine = StepwiseEngine([compile_pattern("once [A] by k")])
    engine.limit(Limits(instances=3))
    engine.feed([event("A", at, at, k=at) for at in range(3)])
    with pytest.raises(LimitError, match="instances"):
        engine.feed([event("A", 4, 4, k=4)])


def test_late_event_concerns_the_standing_instance() -> None:
    engine = StepwiseEngine([compile_pattern("once [A] ; [B]")])
    found = engine.feed([event("C", 5, 0), event("B", 6, 1), event("A", 3, 2), event("B", 7, 3)])
    assert told(found) == [((2, 3), {})]
    assert engine.behind == 1


def test_composite_events_without_constituents_differ_by_attributes() -> None:
    engine = StepwiseEngine([compile_pattern("once init n = 0 : [A] (~[B set n = n + 1])* -> N(n = n)")])
    found = engine.feed([event("A", 1, 0), event("B", 2, 1), event("B", 3, 2)])
    assert told(found) == [((0,), {"n": 0}), ((), {"n": 1}), ((), {"n": 2})]
    assert [(one.lo, one.hi) for one in found] == [(1, 1), (2, 2), (3, 3)]


def test_memory_does_not_grow_with_what_came_before() -> None:
    engine = StepwiseEngine([compile_pattern(COUNT)])
    sizes = []
    for round_ in range(3):
        engine.feed([event("A", at, at, k=at % 5) for at in range(round_ * 1000, round_ * 1000 + 1000)])
        sizes.append(len(snapshot(engine)))
    assert max(sizes) - min(sizes) < 100


def test_columnar_engine_runs_it_beside() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    pattern = compile_pattern(COUNT)
    events = [event("A", at, at, k=at % 2) for at in range(6)]
    engine = make_engine([pattern], engine="columnar")
    found = [*engine.feed(events[:3]), *engine.feed(events[3:]), *engine.finish()]
    assert told(found) == [((at,), {"k": at % 2, "n": at // 2 + 1}) for at in range(6)]
    assert not is_suited(pattern)


def test_canonical_form() -> None:
    plain, once = compile_pattern("[A as x] ; [B]"), compile_pattern("once [A] ; [B]")
    assert once.canonical_id != plain.canonical_id
    assert once.form.text == "once [A] ; [B]"
    assert compile_pattern("once ([A as y] ; [B])").canonical_id == once.canonical_id
    assert compile_pattern(once.form.text).canonical_id == once.canonical_id
    assert not plain.automaton.once


def test_it_is_detected_whole() -> None:
    (pattern,) = compile_file("once [A] ; [B] ; [C] by k -> Out()")
    graph = cut([pattern], full)
    assert list(graph.plans) == [pattern.canonical_id]
    assert len(cut([compile_pattern("[A] ; [B] ; [C] by k -> Out()")], full).plans) > 1


def test_shape_of_a_pattern() -> None:
    shapes, registry = Shapes(), TypeRegistry(open=True)
    found = shapes.find("once [A where v > 3] ; [B] by k", registry)
    assert found is not None
    assert found.once
    assert found.indivisible
    whole = compile_pattern("once [A where v > 3] ; [B] by k")
    assert (found.canonical_id, found.text) == (whole.canonical_id, whole.text)
    engine = StepwiseEngine([found])
    events = [event("A", 1, 0, k=1, v=4), event("A", 2, 1, k=1, v=4), event("B", 3, 2, k=1)]
    assert told(engine.feed(events)) == [((0, 2), {})]


def test_it_is_told() -> None:
    assert facts_of(compile_pattern(COUNT)).manner[0].startswith("once: ")
    assert facts_of(compile_pattern("[A]")).manner == ()


def test_binding() -> None:
    a, b = binding_event("A"), binding_event("B")
    assert str(a.then(b).by("k").publish("X").once()) == "once [A] ; [B] by k -> X()"
    assert str(a.then(b).once()) == "once [A] ; [B]"


def test_statement_of_a_file() -> None:
    statements = read_statements("once [A] ; [B] -> X()\n[X] -> Y()\n")
    assert [each.publishes for each in statements.publications] == ["X", "Y"]


@pytest.mark.parametrize("text", ["(once [A])", "[A] ; once [B]", "once once [A]", "once"])
def test_it_stands_before_a_whole_pattern(text: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(text)


@pytest.mark.parametrize("seed", range(150))
def test_engine_agrees_with_oracle(seed: int) -> None:
    random = Random(seed)
    maker = PatternMaker(random, FEATURES, always=frozenset({"once"}))
    for _ in range(4):
        publication = maker.publication(random.randrange(1, 6))
        assert_alike(publication, make_events(random, random.randrange(9), span=5), epochs=random.random() < 0.2)
