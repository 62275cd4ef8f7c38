"""States of types, the last value by key: what they keep, for how long, and what plans and explanations say of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.compiler import Compiled, compile_file, compile_pattern
from distced.detectors.cutting.cut import cut, full
from distced.detectors.explain.automaton_view import view_of
from distced.detectors.explain.facts import facts_of
from distced.detectors.limits import LIMITS
from distced.detectors.runtime.wanted_sets import wanted_sets
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.detectors.stepwise.state_size import VALUE, state_size
from distced.middleware.model.errors import LimitError, PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry, derive
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import INSTANT_MAX

ABOVE = "type Inside = last P by k\n[Q as q where v > last(Inside.v, k)] -> Above(v = q.v)\n"


def event(kind: str, hi: int, value: Any = None, key: Any = 1) -> Event:
    return Event(kind, hi, hi, "s", hi, {"v": value, "k": key})


def found(engine: StepwiseEngine | ColumnarEngine, *events: Event) -> list[int]:
    return [each.hi for each in (*engine.feed(events), *engine.settle())]


@pytest.mark.parametrize("engine", [StepwiseEngine, ColumnarEngine])
def test_a_late_event_does_not_replace_the_value_of_a_later_one(engine: type[StepwiseEngine | ColumnarEngine]) -> None:
    made = engine(compile_file(ABOVE))
    assert found(made, event("P", 10, 5), event("P", 20, 9)) == []
    # Late ones read what is known, and a late value counts where there is no later one.
    assert found(made, event("P", 15, 1), event("Q", 21, 7), event("Q", 12, 10)) == [12]
    assert found(made, event("P", 11, 1, key=2), event("Q", 22, 2, key=2)) == [22]


@pytest.mark.parametrize("engine", [StepwiseEngine, ColumnarEngine])
def test_values_count_against_the_limit_on_instances(engine: type[StepwiseEngine | ColumnarEngine]) -> None:
    made = engine(compile_file(ABOVE))
    made.limit(replace(LIMITS, instances=3))
    made.feed([event("P", hi, hi, key=hi % 3) for hi in range(30)])
    with pytest.raises(LimitError, match="more instances of a pattern than nodes hold"):
        made.feed([event("P", 30, 1, key="one more")])


def test_values_are_part_of_the_memory_of_a_state() -> None:
    stepwise, columnar = StepwiseEngine(compile_file(ABOVE)), ColumnarEngine(compile_file(ABOVE))
    events = [event("P", hi, "x" * 100, key=hi) for hi in range(1, 11)]
    before = state_size(stepwise).memory, columnar.size().memory
    stepwise.feed(events)
    columnar.feed(events)
    assert state_size(stepwise).memory - before[0] == 10 * VALUE + 1000
    assert columnar.size().memory - before[1] >= 10 * VALUE + 1000


def test_values_continue_after_a_snapshot() -> None:
    text = "type Last = last P by (k, v)\n[Q as q where hi() - last(hi(Last), k, v) < 5ns] -> X(was = q.v)\n"
    (pattern,) = compile_file(text)
    events = [event("PQ"[hi % 2], hi, (True, 1, "x", None)[hi % 4 // 2], hi % 3 == 0) for hi in range(40)]
    whole, engine, fresh = StepwiseEngine([pattern]), StepwiseEngine([pattern]), StepwiseEngine([pattern])
    expected = whole.feed(events)
    before = engine.feed(events[:20])
    restore(fresh, snapshot(engine))
    assert before + fresh.feed(events[20:]) == expected
    assert len(expected) > 5


def test_a_pattern_that_reads_a_state_is_not_cut() -> None:
    text = "type S = last A by k\ntype B2 = B with (was = last(S.v, k))\n{} -> X(n = {})\n"
    for pattern, shown in ("([B2 as b] ; [B]) ; [C]", "b.was"), ("([B where v > last(S.v, k)] [B]) ; [C]", "1"):
        graph = cut(compile_file(text.format(pattern, shown)), full)
        (plan,) = graph.plans.values()
        assert len(plan.compiled.throttlings) == 1
        assert plan.compiled.names() == {"A", "B", "C"}


def test_a_pattern_reads_the_type_of_its_state() -> None:
    (pattern,) = compile_file(ABOVE)
    assert pattern.automaton.type_names() == {"P", "Q"}
    assert wanted_sets(pattern) == {"P": ((),), "Q": ((),)}


def test_sources_are_not_asked_for_values_of_a_state() -> None:
    (pattern,) = compile_file("type S = last P where v > 1\n[Q where last(S.v) == 3 and v == 2]")
    wanted = wanted_sets(pattern)
    assert wanted is not None
    assert [[name for name, _ in each] for one in ("P", "Q") for each in wanted[one]] == [["v"], ["v"]]


def test_a_state_that_is_not_read_costs_nothing() -> None:
    plain, (with_state,) = compile_file("[Q where v > 1]")[0], compile_file("type S = last P\n[Q where v > 1]")
    assert with_state.throttlings == ()
    assert with_state.canonical_id == plain.canonical_id


def test_equal_states_are_one_stage_and_one_detector() -> None:
    first = "type S = last P where v > 1 by k\n[Q where v > last(S.v, k)] ; [Q where v < last(S.v, k)]"
    second = (
        "type T = last Some by k\ntype Some = P where v > 1\n[Q where v > last(T.v, k)] ; [Q where v < last(T.v, k)]"
    )
    patterns = [compile_file(text)[0] for text in (first, second)]
    assert [len(each.throttlings) for each in patterns] == [1, 1]
    assert patterns[0].canonical_id == patterns[1].canonical_id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("last(S.v, k)", "current(S.v, k)"),
        ("last(S.v, k)", "last(S.v, v)"),
        ("last(S.v, k)", "last(S.w, k)"),
        ("last(S.v, k)", "last(R.v, k)"),
        ("last(S.v, k)", "last(U.v, k)"),
    ],
)
def test_what_a_state_is_of_is_part_of_the_canonical_form(one: str, other: str) -> None:
    text = "type S = last P by k\ntype R = last P where v > 1 by k\ntype U = last P by w\n[Q where v > {}]"
    assert _pattern(text.format(one)).canonical_id != _pattern(text.format(other)).canonical_id


def test_explain_shows_the_state() -> None:
    pattern = _pattern("type Inside = last P where v > 1 by k\n[Q where v > last(Inside.v, k) + 1]")
    labels = [move.label for state in view_of(pattern).states for move in state.moves]
    assert labels == ["Q where v > last(Inside.v, k) + 1"]
    whole = _pattern("type Here = last P by k\n[P where all(Here.v) and v]")
    labels = [move.label for state in view_of(whole).states for move in state.moves]
    assert labels == ["P where all(Here.v) and v"]
    assert facts_of(pattern).states == ("last(Inside.v, k) = last v of P where v > 1 by (k)",)
    assert (facts_of(pattern).throttled, facts_of(pattern).windows) == ((), ())


def test_a_loss_counts_for_all_that_follows() -> None:
    assert _pattern(ABOVE).reach_of_loss(5) == INSTANT_MAX


def _pattern(text: str) -> Compiled:
    (pattern,) = compile_file(text)
    return pattern


T = EventType("T", {"x": "number", "r": "number"})


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([derive(T, "I", computed=[("a", "last(I.a, r)")], by=["r"], last=True)], "depends on itself"),
        ([derive(T, "D", where="x > last(I.x, r)"), ("I", "D")], "depends on itself"),
        ([("J", "T"), derive(T, "I", where="x > last(J.x, r, r)", by=["r"], last=True)], "the state J is kept by r"),
        ([derive(T, "I", where="x > current(", by=["r"], last=True)], "derived type I"),
        ([derive(T, "I", where="x > last(T.x, r)", by=["r"], last=True)], "no state of this name.*derived type I"),
        ([derive(T, "I", where="x", by=["r"], last=True)], "a condition is wanted.*derived type I"),
        (
            [derive(T, f"I{n}", where=f"x > last(I{n + 1}.x, r)", by=["r"], last=True) for n in range(2_000)]
            + [derive(T, "I", where="x > last(I0.x, r)", by=["r"], last=True)],
            "within one another too often",
        ),
    ],
)
def test_entries_of_types_that_nobody_has_checked(types: list[EventType | tuple[str, str]], message: str) -> None:
    registry = TypeRegistry([T, EventType("A", {"x": "number", "r": "number"})])
    for each in types:
        registry.register(
            each if isinstance(each, EventType) else derive(registry.get(each[1]), each[0], by=["r"], last=True)
        )
    with pytest.raises(PatternError, match=message):
        compile_pattern("[A where x > last(I.x, r)]", registry)


def test_kinds_of_states_are_checked() -> None:
    registry = TypeRegistry(
        [
            EventType("T", {"x": "string", "r": "number"}),
            EventType("A", {"x": "number", "r": "string", "n": "number"}),
        ]
    )
    registry.register(derive(registry.get("T"), "I", by=["r"], last=True))
    for guard, message in (
        ("x > last(I.x, n)", "compares a number with a string"),
        ("x > last(length(I.x), r)", "the key r of I is a number: a string"),
        ("x > last(I.y, n)", "no such attribute"),
        ("x > last(I.x, m)", "unknown attribute: m"),
    ):
        with pytest.raises(PatternError, match=message):
            compile_pattern(f"[A where {guard}]", registry)
    assert compile_pattern("[A where x > last(length(I.x), n)]", registry).automaton.type_names() == {"A", "T"}


def test_groups_continue_after_a_snapshot_and_a_change_of_engine() -> None:
    text = "type Here = last P by (k, v)\n[Q as q where count(Here, k) == 3 or all(Here.v == 1, k)] -> X(k = q.k)\n"
    patterns = compile_file(text)
    events = [event("PPQ"[hi % 3], hi, (True, 1, "x", None)[hi % 4], hi % 2) for hi in range(60)]
    expected = StepwiseEngine(patterns).feed(events)
    engine = StepwiseEngine(patterns)
    found = engine.feed(events[:20])
    fresh, columnar = StepwiseEngine(patterns), ColumnarEngine(patterns)
    restore(fresh, snapshot(engine))
    found += fresh.feed(events[20:30])
    columnar.go_on_from(fresh)
    found += columnar.feed(events[30:45])
    found += columnar.stepwise().feed(events[45:])
    assert found == expected
    assert len(expected) > 5


def test_what_is_left_out_of_a_key_is_part_of_the_canonical_form() -> None:
    text = "type S = last P by (k, v)\n[Q where {}]"
    reads = ("all(S.v == 1, k)", "all(S.v == 1)", "count(S.v == 1, k) == 1", "count(S.v, k) == 1")
    assert len({_pattern(text.format(each)).canonical_id for each in reads}) == 4
    assert facts_of(_pattern(text.format("all(S.v == 1, k)"))).states == (
        "all(S.v == 1, k) = last v == 1 of P by (k, v)",
    )
