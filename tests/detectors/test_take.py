"""`take` and `consuming`: selection and consumption with snapshots, indexes, shapes, forms, detection as a whole."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.cutting.cut import cut, full
from distced.detectors.explain.facts import facts_of
from distced.detectors.language.parser import parse_publication
from distced.detectors.runtime.engines import make_engine
from distced.detectors.runtime.shared_pass import is_suited
from distced.detectors.shapes import Shapes
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import INSTANT_MAX
from distced.middleware.patterns import event as binding_event
from tests.support.comparison import assert_alike, by_engine, by_oracle
from tests.support.random_patterns import FEATURES, PatternMaker, make_events

PAIRS = "[A as a] ; ~[B]* [B as b] -> Pair() take first a consuming"
RUNS = "[A]{3} -> Run() consuming all"


def event(type_name: str, at: int, seq: int, **attributes: int) -> Event:
    return Event(type_name, at, at, "s", seq, attributes)


def told(found: list[CompositeEvent]) -> list[tuple[int, ...]]:
    return [tuple(each.seq for each in one.events) for one in found]


def many(random: Random, count: int) -> list[Event]:
    return [event(random.choice("AB"), at, at) for at in range(count)]


@pytest.mark.parametrize("text", [PAIRS, RUNS])
def test_snapshot_at_any_event(text: str) -> None:
    pattern, events = compile_pattern(text), many(Random(7), 40)
    whole = told(StepwiseEngine([pattern]).feed(events))
    assert len(whole) > 5
    for place in range(0, len(events), 3):
        before, behind = StepwiseEngine([pattern]), StepwiseEngine([pattern])
        found = before.feed(events[:place])
        restore(behind, snapshot(before))
        assert told([*found, *behind.feed(events[place:])]) == whole


def test_instances_that_have_ended_are_kept_by_nothing() -> None:
    engine = StepwiseEngine([compile_pattern("[A as a] ; [B <= {B, C}] -> Pair() consuming")])
    (unit,) = engine.units
    sizes = []
    for round_ in range(4):
        # A match makes the index; instances that fail stay in it.
        engine.feed([event("A", 10_000 * round_, 0), event("B", 10_000 * round_ + 1, 1)])
        for at in range(10_000 * round_ + 2, 10_000 * round_ + 8000, 2):
            engine.feed([event("A", at, at), event("C", at + 1, at + 1)])
            sizes.append(len(unit.matcher._holders or ()))  # type: ignore[attr-defined]
        assert engine.live_instances() == 0
    assert 500 < max(sizes) < 1100


def test_index_is_made_once_more() -> None:
    # The A of many a pair wait long for their end, so that the index is dropped with instances in it.
    pattern = compile_pattern("[A as a] ; [B where v == a.v as b] -> Pair() consuming")
    events = [event("A", at, at, v=at % 5000) for at in range(5000)]
    events += [event("B", 5000 + at, 5000 + at, v=at // 2) for at in range(4000)]
    found = StepwiseEngine([pattern]).feed(events)
    assert told(found) == [(at, 5000 + 2 * at) for at in range(2000)]


def test_instances_are_found_where_a_guard_looks_them_up() -> None:
    text = "[A as a] ; [B where v == a.v as b] ; [C] -> Out() consuming all"
    events = [event("A", 1, 0, v=1), event("A", 2, 1, v=2), event("B", 3, 2, v=1), event("C", 4, 3)]
    events += [event("B", 5, 4, v=2), event("C", 6, 5)]
    assert told(StepwiseEngine([compile_pattern(text)]).feed(events)) == [(0, 2, 3)]


def test_time_events_in_several_calls() -> None:
    pattern = compile_pattern("([A as a] ; ~[B]* [B as b], [T]) @ T = 5ns -> Out() take first a consuming")
    events = [event("A", 1, 0), event("A", 2, 1), event("B", 3, 2), event("B", 3, 3), event("B", 4, 4)]
    one, other = StepwiseEngine([pattern]), StepwiseEngine([pattern])
    found = other.feed(events)
    for instant in range(4, 12):
        found += other.advance(instant)
    assert told(found) == told([*one.feed(events), *one.finish()]) == [(0, 2), (1, 3)]


def test_time_events_that_sides_hand_on_are_not_consumed() -> None:
    text = "(([A as a], [T as t]) @ T = 2ns & [B]) ; [C where v == a.v] -> Out() consuming"
    events = [event("A", 1, 0, v=1), event("A", 1, 1, v=2), event("B", 4, 2), event("C", 5, 3, v=1)]
    events.append(event("C", 6, 4, v=2))
    found = by_engine(compile_pattern(text), events)
    assert found == by_oracle(parse_publication(text), events)
    assert len(found) == 2


def test_columnar_engine_runs_it_beside() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    pattern = compile_pattern(PAIRS)
    engine = make_engine([pattern, compile_pattern("[A] [A]")], engine="columnar")
    events = [event("A", 1, 0), event("A", 2, 1), event("B", 3, 2), event("B", 4, 3)]
    found = [*engine.feed(events[:3]), *engine.feed(events[3:]), *engine.finish()]
    assert sorted(told(found)) == [(0, 1), (0, 2), (1, 3)]
    assert not is_suited(pattern)


def test_canonical_form() -> None:
    assert compile_pattern(PAIRS).form.text == "[A as x0] ; ~[B]* [B as x1] -> Pair() take first x0 consuming"
    alike = ("a", "b", "first b, each a, last a"), ("c", "d", "first d, last c, c where 1 < 2")
    forms = {compile_pattern(f"[A as {a}] ; [B as {b}] -> X() take {take}").form.text for a, b, take in alike}
    assert forms == {"[A as x0] ; [B as x1] -> X() take first x1, last x0"}
    # What selects nothing is not in the form.
    plain = compile_pattern("[A] ; [B] -> X()")
    each = compile_pattern("[A as a] ; [B] -> X() take each a, a where true")
    assert each.canonical_id == plain.canonical_id
    ids = [compile_pattern(f"[A as a] ; [B as b] -> X(){words}").canonical_id for words in ("", " consuming")]
    ids += [compile_pattern(f"[A as a] ; [B{words}] -> X() consuming all").canonical_id for words in ("", " as b")]
    ids += [compile_pattern("[A as a] ; [B] -> X() consuming").canonical_id]
    # Variables count where their events are consumed, and not where all is.
    assert [ids.index(each) for each in ids] == [0, 1, 2, 2, 4]


def test_shape_of_a_pattern() -> None:
    shapes, registry = Shapes(), TypeRegistry(open=True)
    for least in (3, 4):
        text = f"[A as a where v > 1] ; ~[B]* [B as b] by k -> Out() take a where v > {least}, first a consuming"
        text = text.replace("where v > 1", "where (v > 1)").replace(f"where v > {least}", f"where a.v > {least}")
        found = shapes.find(text, registry)
        assert found is not None
        assert (found.selects, found.endless, found.indivisible) == (True, True, True)
        whole = compile_pattern(text)
        assert (found.canonical_id, found.text) == (whole.canonical_id, whole.text)
        events = [event("A", at, at, k=1, v=at) for at in range(2, 7)]
        events += [event("B", at, at, k=1) for at in range(7, 9)]
        assert told(StepwiseEngine([found]).feed(events)) == [(least + 1, 7), (least + 2, 8)]


def test_it_is_detected_whole() -> None:
    for words in ("take first a", "consuming all"):
        pattern = compile_pattern(f"[A as a] ; [B] ; [C] -> Out() {words}")
        assert list(cut([pattern], full).plans) == [pattern.canonical_id]
    assert len(cut([compile_pattern("[A as a] ; [B] ; [C] -> Out() take each a")], full).plans) > 1


def test_loss_has_no_end_where_events_are_consumed() -> None:
    assert compile_pattern(PAIRS).reach_of_loss(5) == INSTANT_MAX
    assert compile_pattern("[A as a] -> X() take first a").reach_of_loss(5) == 5


def test_it_is_told() -> None:
    manner = facts_of(compile_pattern(PAIRS)).manner
    assert [each.split(":")[0] for each in manner] == ["take first a", "consuming"]
    assert facts_of(compile_pattern(RUNS)).manner[0].startswith("consuming all: ")
    assert [each.split(":")[0] for each in facts_of(compile_pattern("[A as a] -> X() take last a")).manner] == [
        "take last a"
    ]
    assert facts_of(compile_pattern("[A as a] -> X() take each a")).manner == ()


def test_binding() -> None:
    a, b = binding_event("A"), binding_event("B")
    pair = a.then(b).publish("X")
    assert str(pair.take_first(a).take_where(b, b.v > a.v).consuming()) == (
        "[A as a] ; [B as b] -> X() take first a, b where b.v > a.v consuming"
    )
    assert (
        str(pair.take_last(b).consuming(all=True).settled())
        == "[A] ; [B as b] -> X() take last b consuming all settled"
    )
    with pytest.raises(PatternError, match="publish"):
        a.once().consuming()
    with pytest.raises(PatternError, match="does not match"):
        str(a.publish("X").take_first(b))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[A] -> X() consuming", "nothing to consume"),
        ("[A as a] -> X() take first b", "nothing is bound to this variable: b"),
        ("[A as a] -> X() take a where b.v", "nothing is bound to this variable: b"),
        ("[A as a] -> X() take a where 3", "a number where a condition is wanted"),
        ("[A as a] -> X() take a", "unexpected"),
        ("[A as a] -> X() take", "unexpected"),
        ("[A as a] consuming", "unexpected"),
        ("[A as a] -> X() consuming take first a", "unexpected"),
    ],
)
def test_errors(text: str, problem: str) -> None:
    with pytest.raises(PatternError, match=problem):
        compile_pattern(text)


@pytest.mark.parametrize("seed", range(150))
def test_engine_agrees_with_oracle(seed: int) -> None:
    random = Random(seed)
    maker = PatternMaker(random, FEATURES, always=frozenset({"take"}))
    for _ in range(4):
        publication = maker.publication(random.randrange(1, 6))
        assert_alike(publication, make_events(random, random.randrange(9), span=4), epochs=random.random() < 0.2)


def way(random: Random) -> str:
    """All matches of a few events in one order, perhaps until a time event."""
    types = [random.choice("ABC") for _ in range(random.randrange(1, 4))]
    parts = [f"[{types[0]} as x0]"]
    for place, each in enumerate(types[1:], 1):
        guard = f" where v == x{random.randrange(place)}.v" if random.random() < 0.3 else ""
        skipped = f"~[{each}{guard}]* " if random.random() < 0.7 else ""
        parts.append(f"{skipped}[{each}{guard} as x{place}]")
    text = random.choice([" ; ", " "]).join(parts)
    timer = random.random()
    if timer < 0.5:
        first = random.randrange(1, len(parts) + 1) if random.random() < 0.3 else len(parts)
        before, behind = " ".join(parts[:first]), " ".join(parts[first:])
        text = f"({before}, {behind} [T <= {{T, D}}]) @ T = {random.randrange(4)}ns"
    return text


@pytest.mark.parametrize("seed", range(150))
def test_ways_through_events_agree_with_oracle(seed: int) -> None:
    random = Random(f"ways {seed}")
    for _ in range(6):
        ways = [way(random) for _ in range(random.choice([1, 1, 2, 3]))]
        takes = [f"{random.choice(['first', 'last', 'each'])} x0"] if random.random() < 0.6 else []
        if random.random() < 0.3:
            takes.append("x0 where x0.v < 1")
        text = f"({' | '.join(ways)}){' by k' if random.random() < 0.3 else ''} -> Out(at = hi())"
        text += f" take {', '.join(takes)}" if takes else ""
        text += random.choice(["", " consuming", " consuming", " consuming all"]) + random.choice(["", "", " settled"])
        publication = parse_publication(f"once {text}" if random.random() < 0.1 else text)
        assert_alike(publication, make_events(random, random.randrange(3, 12), span=6), epochs=random.random() < 0.2)
