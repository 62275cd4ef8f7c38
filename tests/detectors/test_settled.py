"""`settled` patterns: the end of an instant in batches, snapshots and late events, forms, detection as a whole."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.cutting.cut import cut, full
from distced.detectors.explain.facts import facts_of
from distced.detectors.runtime.engines import make_engine
from distced.detectors.runtime.shared_pass import is_suited
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns import event as binding_event
from tests.support.comparison import assert_alike
from tests.support.random_patterns import FEATURES, PatternMaker, make_events

COUNT = "once init n = 0 : [A set n = n + 1]* -> N(n = n) settled"


def event(type_name: str, at: int, seq: int) -> Event:
    return Event(type_name, at, at, "s", seq, {})


def told(found: list[CompositeEvent]) -> list[tuple[int, ...]]:
    return [tuple(each.seq for each in one.events) for one in found]


def test_instant_may_come_in_several_batches() -> None:
    engine = StepwiseEngine([compile_pattern(COUNT)])
    assert engine.feed([event("A", 1, 0)]) == []
    assert engine.feed([event("A", 1, 1)]) == []
    assert told(engine.feed([event("B", 2, 2)])) == [(0, 1)]
    assert told(engine.feed([event("A", 2, 3)]) + engine.advance(2)) == [(3,)]


def test_snapshot_within_an_instant() -> None:
    engine = StepwiseEngine([compile_pattern(COUNT)])
    engine.feed([event("A", 1, 0)])
    other = StepwiseEngine([compile_pattern(COUNT)])
    restore(other, snapshot(engine))
    assert told(other.feed([event("A", 1, 1)]) + other.finish()) == [(0, 1)]


def test_best_effort_does_not_wait() -> None:
    engine = StepwiseEngine([compile_pattern(COUNT)])
    engine.feed([event("A", 1, 0)])
    assert told(engine.settle()) == [(0,)]


def test_late_event_is_an_instant_of_its_own() -> None:
    engine = StepwiseEngine([compile_pattern("[A] [B]* settled")])
    assert told(engine.feed([event("A", 1, 0), event("B", 5, 1), event("C", 6, 2)])) == [(0,), (0, 1)]
    assert told(engine.feed([event("A", 2, 3)])) == [(3,)]
    assert engine.behind == 1


def test_columnar_engine_runs_it_beside() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    pattern = compile_pattern(COUNT)
    engine = make_engine([pattern, compile_pattern("[A] ; [B]")], engine="columnar")
    found = [*engine.feed([event("A", 1, 0), event("A", 1, 1), event("B", 2, 2)]), *engine.finish()]
    assert sorted(told(found)) == [(0, 1), (0, 2), (1, 2)]
    assert not is_suited(pattern)


def test_canonical_form() -> None:
    plain, settled = compile_pattern("[A] [B]*"), compile_pattern("[A] [B]* settled")
    assert settled.canonical_id != plain.canonical_id
    assert settled.form.text == "[A] [B]* settled"
    assert compile_pattern("[A] ([B])* settled consumed ordered").canonical_id == settled.canonical_id
    assert compile_pattern("[A] [B]* consumed ordered settled").canonical_id == settled.canonical_id
    assert compile_pattern(settled.form.text).canonical_id == settled.canonical_id


def test_places_of_the_word() -> None:
    ids = {
        compile_pattern(f"[A] -> X() {words}").canonical_id
        for words in ("settled consumed epoch", "consumed epoch settled", "consumed epoch settled publish_json = 'a/b'")
    }
    assert len(ids) == 1


def test_it_is_detected_whole() -> None:
    pattern = compile_pattern("[A] ; [B] ; [C] -> Out() settled")
    assert list(cut([pattern], full).plans) == [pattern.canonical_id]


def test_it_is_told() -> None:
    assert [each.split(":")[0] for each in facts_of(compile_pattern(COUNT)).manner] == ["once", "settled"]


def test_binding() -> None:
    a = binding_event("A")
    assert str(a.at_least_once().publish("X").settled()) == "[A]+ -> X() settled"


@pytest.mark.parametrize("seed", range(150))
def test_engine_agrees_with_oracle(seed: int) -> None:
    random = Random(seed)
    maker = PatternMaker(random, FEATURES, always=frozenset({"settled"}))
    for _ in range(4):
        publication = maker.publication(random.randrange(1, 6))
        assert_alike(publication, make_events(random, random.randrange(9), span=4), epochs=random.random() < 0.2)
