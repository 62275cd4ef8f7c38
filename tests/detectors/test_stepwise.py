"""The stepwise engine beyond the cases: order of what is found, time passing, late events, what is forgotten."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from distced.detectors.compiler import compile_file, compile_pattern
from distced.detectors.stepwise import plans
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND


def event(name: str, at: int, seq: int | None = None, lo: int | None = None, **attributes: object) -> Event:
    return Event(name, at if lo is None else lo, at, "e", at if seq is None else seq, attributes)  # type: ignore[arg-type]


def engine_of(*texts: str) -> StepwiseEngine:
    return StepwiseEngine([compile_pattern(text) for text in texts])


def seqs(found: list[CompositeEvent]) -> list[list[int]]:
    return [[each.seq for each in one.events] for one in found]


def test_composite_events_come_in_order_with_the_completing_event() -> None:
    engine = engine_of("[A] ; [B]")
    assert engine.feed([event("A", 1), event("A", 2)]) == []
    found = engine.feed([event("B", 3), event("A", 4), event("B", 5)])
    assert seqs(found) == [[1, 3], [2, 3], [4, 5]]
    assert [each.hi for each in found] == [3, 3, 5]
    assert engine.finish() == []


def test_a_composite_event_is_an_event() -> None:
    (compiled,) = patterns = compile_file("[A as x] ; [B] -> Pair(v = x.v)\n")
    (found,) = StepwiseEngine(patterns).feed([event("A", 1, v=7), event("B", 5, lo=3)])
    assert (found.type, found.lo, found.hi, found.attributes) == ("Pair", 1, 5, {"v": 7})
    assert found.source == compiled.automaton.canonical_id
    assert found.constituents == (("e", 1), ("e", 5))
    (nameless,) = engine_of("[A]").feed([event("A", 1)])
    assert nameless.type == nameless.source


def test_time_events_fire_when_time_has_passed() -> None:
    engine = engine_of("([A], [T <= {T, B}]) @ T = 5ns")
    assert engine.feed([event("A", 10)]) == []
    assert engine.advance(14) == []
    (found,) = engine.advance(15)
    assert (found.lo, found.hi) == (10, 15)
    assert engine.advance(15) == []
    assert engine.advance(3) == []


def test_time_events_fire_before_a_later_event_is_consumed() -> None:
    engine = engine_of("([A], [T <= {T, B}]) @ T = 5ns")
    assert seqs(engine.feed([event("A", 10), event("B", 16)])) == [[10]]
    # But not before one at the same instant.
    assert seqs(engine.feed([event("A", 20), event("B", 25)])) == []


def test_composite_events_of_several_patterns_come_in_order_of_detection() -> None:
    engine = engine_of("[B] -> Second()", "[A] -> First()", "[A] ; [B] -> Both()")
    found = engine.feed([event("A", 1), event("B", 2)])
    assert [each.hi for each in found] == [1, 2, 2]
    assert Counter(each.type for each in found) == {"First": 1, "Second": 1, "Both": 1}


def test_published_composite_events_are_read_at_once() -> None:
    # Publications that others read have to see the whole of an instant: they are told when it is over.
    engine = StepwiseEngine(compile_file("[Pair] ; [C] -> Triple()\n[A] ; [B] -> Pair()\n"))
    found = engine.feed([event("A", 1), event("B", 2), event("C", 3)])
    assert [each.type for each in found] == ["Pair"]
    assert [each.type for each in engine.advance(3)] == ["Triple"]


def test_settling_does_not_wait_for_the_instant() -> None:
    engine = engine_of("[A] & [B]")
    assert engine.feed([event("A", 1), event("B", 2)]) == []
    assert seqs(engine.settle()) == [[1, 2]]
    # What comes at the same instant afterwards is late.
    assert engine.behind == 0
    engine.feed([event("B", 2, seq=9)])
    assert engine.behind == 1


def test_patterns_in_a_circle_are_refused() -> None:
    one, other = compile_pattern("[Two] -> One()"), compile_pattern("[One] -> Two()")
    with pytest.raises(ValueError, match="in a circle"):
        StepwiseEngine([one, other])


def test_late_events_are_counted_and_offered_to_instances_they_follow() -> None:
    engine = engine_of("[A] ; [B]")
    engine.feed([event("A", 10), event("C", 30)])
    assert seqs(engine.feed([event("B", 20)])) == [[10, 20]]
    assert engine.behind == 1
    # Before the A: it does not follow.
    assert engine.feed([event("B", 5)]) == []
    # A late beginning is followed by what comes from now on.
    engine.feed([event("A", 25)])
    assert seqs(engine.feed([event("B", 40)])) == [[25, 40]]
    assert engine.behind == 3


def test_repeated_event_of_one_instant_counts_once() -> None:
    engine = engine_of("[A]+")
    assert len(engine.feed([event("A", 1), event("A", 1), event("A", 1)])) == 1
    assert engine.behind == 0


def test_instances_end_where_nothing_can_follow() -> None:
    engine = engine_of("[A] ; [B]")
    engine.feed([event("A", 1), event("A", 2)])
    assert engine.live_instances() == 2
    engine.feed([event("B", 3)])
    assert engine.live_instances() == 0


def test_instances_that_fail_are_gone() -> None:
    engine = engine_of("[A][B <= {B, C}]")
    engine.feed([event("A", 1), event("C", 2)])
    assert engine.live_instances() == 0


def test_equal_instances_are_one() -> None:
    # After A and B, whatever came in between, the same: it is the constituents that make instances differ.
    engine = engine_of("[A] ~([B] | [B])* [C]")
    engine.feed([event("A", 1), *(event("B", at) for at in range(2, 12))])
    assert engine.live_instances() < 5


@pytest.mark.parametrize("key", ["", " by k"])
def test_instances_outside_the_window_are_forgotten(key: str) -> None:
    engine = engine_of(f"[A] ; [B] within 100ns{key}")
    for at in range(60_000):
        engine.feed([event("A", at, k=at % 500)])
    assert engine.live_instances() < 20_000
    found = engine.feed([event("B", 60_000, k=59_990 % 500)])
    assert len(found) == (1 if key else 100)


def test_time_events_of_forgotten_instances_have_no_effect() -> None:
    engine = engine_of("([A], [B, T]) @ T = 1000000ns within 100ns")
    for at in range(40_000):
        engine.feed([event("A", at)])
    assert engine.live_instances() < 20_000
    assert engine.finish() == []


def test_ids_that_cannot_come_again_are_forgotten() -> None:
    # A hidden end may bring the same constituents again, so what was found is remembered, for as long as it may come.
    engine = engine_of("[A] ~[B]+ within 50ns")
    found = 0
    for at in range(0, 40_000, 2):
        found += len(engine.feed([event("A", at), event("B", at + 1)]))
    assert found == 20_000
    assert sum(len(unit.matcher.composites.reported) for unit in engine.units) < 15_000


@pytest.mark.parametrize(
    "text",
    [
        "~[A] | [C]",
        "~[A] | [C] within 5ns -> Out()",
        "~[A] | [C] within 5ns -> Out(one = 2 - 1)",
        "init m = 1 : ~[A] | [C set m = m + 1] within 5ns -> Out(count = m)",
    ],
)
def test_composite_event_without_constituents_is_the_same_at_any_time(text: str) -> None:
    engine, found = engine_of(text), 0
    for at in range(0, 1_000, 100):
        found += len(engine.feed([event("A", at)]))
        engine.sweep(at + 50)
    assert found == 1


def test_engine_finds_as_many_pairs_as_counted() -> None:
    """A stream long enough for everything that is swept now and then, against plain arithmetic."""
    random = Random(3)
    events = [event(random.choice("AB"), at, k=random.randrange(3), v=at) for at in range(1, 40_001)]
    engine = engine_of("[A] ; [B] within 40ns by k")
    found = [*engine.feed(events), *engine.finish()]
    expected = 0
    waiting: dict[object, list[int]] = {0: [], 1: [], 2: []}
    for each in events:
        key = each.attributes["k"]
        if each.type == "A":
            waiting[key].append(each.hi)
        else:
            expected += sum(each.hi - start <= 40 for start in waiting[key])
            waiting[key] = []
    assert len(found) == expected


def test_kinds_of_registered_types_change_nothing() -> None:
    random = Random(4)
    kinds: dict[str, Kind] = {"v": "number", "s": "string", "b": "boolean"}
    events = [
        event(
            random.choice("AB"),
            at,
            v=random.choice((None, 0, 1, 1.5)),
            s=random.choice((None, "a", "b")),
            b=random.choice((None, True, False)),
        )
        for at in range(300)
    ]
    for text in (
        "[A as x where v > 0] ; [B where v == x.v and s == x.s]",
        "[A where b] ; [B where not b]",
        "[A as x] [B where s != x.s or v <= x.v]",
        "init n = 0 : [A set n = n + v]{2} [B where v < n] -> Out(n = n)",
    ):
        compiled = compile_pattern(text)
        one = StepwiseEngine([compiled]).feed(events)
        other = StepwiseEngine([compiled], lambda _: kinds).feed(events)
        assert one == other
        assert one


def test_a_long_match_does_not_exhaust_the_stack() -> None:
    engine = engine_of("[A] [B]* ; [C]")
    found = engine.feed([event("A", 1), *(event("B", at) for at in range(2, 20_002)), event("C", 30_000)])
    assert [len(each.constituents) for each in found] == [20_002]


def test_instants_far_apart_are_compared() -> None:
    engine = engine_of("([A], [B]) @ T = 100d")
    far = 200 * 365 * 86_400 * SECOND
    assert len(engine.feed([event("A", -far), event("B", -far + 5), event("A", far), event("B", far + 5)])) == 2


def test_composite_events_are_throttled_as_others() -> None:
    patterns = compile_file("[A] ; [B] -> Seen()\ntype Rare = Seen every 10ns\n[Rare] ; [C] -> Y()\n")
    found = StepwiseEngine(patterns)
    events = [event(name, at) for at, name in enumerate("ABABC", start=1)]
    composites = found.feed(events) + found.finish()
    assert [each.type for each in composites] == ["Seen", "Seen", "Y"]
    (inner, last) = composites[-1].events
    assert (type(inner), inner.id, last.type) == (CompositeEvent, composites[0].id, "C")
    assert inner.attributes == {}


def test_planners_are_shared_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of one process make engines on threads of their own, of more shapes than are kept."""
    monkeypatch.setattr(plans, "_SHARED", 3)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    automata = [compile_pattern(f"[A where k == {number}]").automaton for number in range(4)]

    def make(first: int) -> int:
        return sum(plans.planner_of(automata[(first + each) % 4], _no_kinds) is not None for each in range(2_000))

    try:
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(make, range(40))) == [2_000] * 40
    finally:
        sys.setswitchinterval(interval)


def _no_kinds(name: str) -> None:
    return None


def test_matcher_without_instances_holds_the_place_of_its_latest_event_alone() -> None:
    engine = StepwiseEngine([compile_pattern("[A] ; [B]")])
    first, last = event("A", 1, v=1), event("B", 2, v=1)
    engine.feed([first])
    (unit,) = engine.units
    assert unit.matcher.latest is first
    assert len(engine.feed([last])) == 1
    assert unit.matcher.latest == Event("B", 2, 2, last.source, last.seq, {})
    # The same once more changes nothing, and one before it is late.
    assert engine.feed([last]) == []
    assert engine.behind == 0
    assert engine.feed([first]) == []
    assert engine.behind == 1
