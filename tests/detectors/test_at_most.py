"""`at most` behind an output: instants in batches, snapshots, late events, memory, forms, cuts, other engines."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import Compiled, compile_file, compile_pattern
from distced.detectors.cutting.cut import cut, full
from distced.detectors.explain.facts import facts_of
from distced.detectors.runtime.engines import make_engine
from distced.detectors.runtime.shared_pass import is_suited
from distced.detectors.shapes import ShapedPattern, Shapes
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.detectors.stepwise.state_size import state_size
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns import event as binding_event
from tests.support.comparison import assert_alike
from tests.support.random_patterns import FEATURES, PatternMaker, make_events

BY_USER = "[A as a] -> X(user = a.k) at most 1 per 10ns by user"


def event(type_name: str, at: int, seq: int, k: int | None = 1, lo: int | None = None) -> Event:
    return Event(type_name, at if lo is None else lo, at, "s", seq, {"k": k})


def ends(found: list[CompositeEvent]) -> list[tuple[int, object]]:
    return [(each.events[0].seq, each.attributes.get("user")) for each in found]


def test_instant_may_come_in_several_batches() -> None:
    engine = StepwiseEngine([compile_pattern(BY_USER)])
    assert engine.feed([event("A", 5, 0)]) == []
    # It began earlier, and so comes first.
    assert engine.feed([event("A", 5, 1, lo=2)]) == []
    assert ends(engine.feed([event("A", 6, 2, 2)])) == [(1, 1)]
    assert ends(engine.finish()) == [(2, 2)]


def test_snapshot_has_what_passed() -> None:
    engine, other = (StepwiseEngine([compile_pattern(BY_USER)]) for _ in range(2))
    found = engine.feed([event("A", 1, 0), event("A", 2, 1, 2), event("A", 3, 2, 3)]) + engine.advance(3)
    assert len(found) == 3
    restore(other, snapshot(engine))
    later = [event("A", 10, 3), event("A", 11, 4), event("A", 11, 5, 2), event("A", 12, 6, 2)]
    assert ends(other.feed(later) + other.finish()) == [(4, 1), (6, 2)]


def test_best_effort_does_not_wait() -> None:
    engine = StepwiseEngine([compile_pattern(BY_USER)])
    engine.feed([event("A", 5, 0)])
    assert ends(engine.settle()) == [(0, 1)]
    # What is emitted stays emitted.
    engine.feed([event("A", 5, 1, lo=2)])
    assert engine.settle() == []


def test_late_event_does_not_pass_before_what_passed() -> None:
    engine = StepwiseEngine([compile_pattern(BY_USER)])
    assert ends(engine.feed([event("A", 20, 0), event("B", 30, 1)])) == [(0, 1)]
    assert engine.feed([event("A", 5, 2)]) == []
    assert ends(engine.feed([event("A", 5, 3, 2)])) == [(3, 2)]
    assert engine.behind == 2
    assert ends(engine.feed([event("A", 30, 4), event("C", 31, 5)])) == [(4, 1)]


def test_what_is_over_is_forgotten() -> None:
    engine = StepwiseEngine([compile_pattern(BY_USER)])
    empty = state_size(engine).memory
    found = engine.feed(event("A", at, at, at) for at in range(20_000)) + engine.advance(19_999)
    assert len(found) == 20_000
    (unit,) = engine.units
    assert unit.matcher.quiet is not None
    assert 10 <= len(unit.matcher.quiet.passed) < 4_200
    assert state_size(engine).memory > empty
    assert not engine.sweep(20_000)
    assert len(unit.matcher.quiet.passed) == 9
    assert engine.sweep(20_009)
    assert state_size(engine).memory == empty


def test_columnar_engine_runs_it_beside() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    pattern = compile_pattern(BY_USER)
    engine = make_engine([pattern, compile_pattern("[A] ; [B]")], engine="columnar")
    found = engine.feed([event("A", 1, 0), event("A", 2, 1), event("B", 3, 2)])
    # A late event concerns what it still follows; what passed goes along.
    found += engine.feed([event("B", 2, 3)]) + engine.feed([event("A", 10, 4), event("A", 11, 5)]) + engine.finish()
    assert ends([each for each in found if each.type == "X"]) == [(0, 1), (5, 1)]
    assert not is_suited(pattern)


def test_canonical_form() -> None:
    texts = [
        "[A as a] -> X(u = a.u, v = a.v)",
        "[A as a] -> X(u = a.u, v = a.v) at most 1 per 10ns",
        "[A as a] -> X(u = a.u, v = a.v) at most 1 per 11ns",
        "[A as a] -> X(u = a.u, v = a.v) at most 1 per 10ns by u",
        "[A as a] -> X(u = a.u, v = a.v) at most 1 per 10ns by (u, v)",
    ]
    assert len({compile_pattern(each).canonical_id for each in texts}) == len(texts)
    last = compile_pattern(texts[-1])
    other = compile_pattern("[A as b] -> X(v = b.v, u = b.u) at most 1 per 10ns by (v, u)")
    assert other.canonical_id == compile_pattern(last.form.text).canonical_id == last.canonical_id


def test_its_parts_are_cut_and_it_stays_whole() -> None:
    pattern = compile_pattern("[A as a] ; [B] ; [C] -> X(k = a.k) at most 1 per 10ns by k")
    graph = cut([pattern], full)
    assert len(graph.plans) > 1
    (root,) = graph.roots
    output = graph.plans[root].compiled.automaton.output
    assert output is not None and output.quiet is not None
    assert not any(each.compiled.quiet for each in graph.plans.values() if each.id != root)
    assert not graph.derivations(root)


def test_the_same_pattern_without_it_is_a_part_of_it() -> None:
    plain = compile_pattern("[A as a] ; [B]")
    quiet = compile_pattern("[A as a] ; [B] -> X() at most 1 per 10ns")
    longer = compile_pattern("([A as a] ; [B]) ; [C]")
    for patterns in ([quiet, longer], [longer, quiet], [quiet, longer, plain]):
        graph = cut(patterns, full)
        assert not graph.derivations(quiet.canonical_id)
        assert quiet.canonical_id not in {part for each in graph.plans.values() for part in each.parts}


def test_private_publication_with_it_has_no_derivations() -> None:
    pattern = compile_pattern("private [A] ; [B] -> P() at most 1 per 10ns : [P] ; [C] -> X()")
    (private,) = pattern.privates
    assert private.is_no_part and not private.indivisible
    graph = cut([pattern], full)
    assert not graph.derivations(private.canonical_id)


def test_patterns_of_one_shape_have_times_of_their_own() -> None:
    shapes = Shapes()
    patterns: list[Compiled] = []
    for name in ("a", "b"):
        found = shapes.find(f"[A where k == '{name}'] -> X() at most 1 per 10ns", TypeRegistry(open=True))
        assert isinstance(found, ShapedPattern) and found.quiet and found.endless
        patterns.append(found)
    assert shapes.compiled == 1
    assert patterns[0].canonical_id != patterns[1].canonical_id
    events = [Event("A", at, at, "s", at, {"k": k}) for at, k in enumerate("ababab")]
    for pattern, first in zip(patterns, (0, 1), strict=True):
        engine = StepwiseEngine([pattern])
        assert [each.hi for each in engine.feed(events) + engine.finish()] == [first]


def test_it_is_told() -> None:
    pattern = compile_pattern(BY_USER)
    assert [each.split(":")[0] for each in facts_of(pattern).manner] == ["at most 1 per 10ns by user"]


def test_binding() -> None:
    a = binding_event("A")
    pattern = a.publish("X", user=a.user, room=a.room)
    text = "[A as a] -> X(user = a.user, room = a.room) at most 1 per 10min"
    assert str(pattern.at_most_one_per("10min")) == text
    assert str(pattern.at_most_one_per("10min", by="user")) == f"{text} by user"
    assert str(pattern.at_most_one_per("10min", by=("user", "room")).settled()) == f"{text} by (user, room) settled"
    with pytest.raises(PatternError, match="in no time"):
        pattern.at_most_one_per("0s")


def test_words_are_no_keywords() -> None:
    found = compile_pattern("[at as most] -> per(at = most.per) where at > 1 at most 1 per 5s by at")
    assert found.text == "[at as most] -> per(at = most.per) where at > 1 at most 1 per 5s by at"


DERIVED = """
{plain}
type Q = Plain at most 1 per {length}ns{by}
[Q]
  -> Q1()
"""


@pytest.mark.parametrize("seed", range(60))
def test_it_passes_what_a_derived_type_passes(seed: int) -> None:
    random = Random(seed)
    pattern = random.choice(("[A as a]", "[A as a] ; [B]", "[A as a] ; ~[B]* [B]", "[A as a] [B] by k"))
    by, length = random.choice(("", " by k", " by (k, v)")), random.randrange(1, 6)
    plain = f"{pattern} -> Plain(k = a.k, v = a.v)"
    file = compile_file(DERIVED.format(plain=plain, length=length, by=by))
    quiet = compile_pattern(f"{plain} at most 1 per {length}ns{by}")
    # Of different instants, as ids decide elsewhere between those that begin and end together.
    events = [
        Event(random.choice("AB"), at, at, "s", at, {"k": random.choice((0, 1, None)), "v": random.randrange(3)})
        for at in sorted(random.sample(range(30), 15))
    ]
    derived, own = StepwiseEngine(file), StepwiseEngine([quiet])
    passed = [each.events[0] for each in derived.feed(events) + derived.finish() if each.type == "Q1"]
    emitted = own.feed(events) + own.finish()
    assert sorted(each.constituents for each in emitted) == sorted(
        each.constituents for each in passed if isinstance(each, CompositeEvent)
    )


@pytest.mark.parametrize("seed", range(150))
def test_engine_agrees_with_oracle(seed: int) -> None:
    random = Random(seed)
    maker = PatternMaker(random, FEATURES, always=frozenset({"quiet"}))
    for _ in range(4):
        publication = maker.publication(random.randrange(1, 6))
        assert_alike(publication, make_events(random, random.randrange(9), span=8), epochs=random.random() < 0.2)
