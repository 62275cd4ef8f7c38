"""Which sub-patterns may be cut out, which may not and why, and the graphs that come of it."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.canonical.form import canonical_form
from distced.detectors.compiler import compile_file, compile_pattern
from distced.detectors.cutting.candidates import Candidate, candidates, views
from distced.detectors.cutting.cut import cut, full, none
from distced.detectors.cutting.joints import ends_open, joined, joint_of, opens_parallel, opens_strong
from distced.detectors.language.parser import parse_pattern
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.printer import format_pattern
from tests.support.comparison import compiled
from tests.support.random_patterns import PatternMaker

MEETING = "([BoardOn] [ [Pers][Pers]*[BoardOff] <= {Pers, BoardOff} ], [T <= {T, Login}]) @ T = 5min"


def all_of(text: str) -> dict[str, Candidate]:
    """The candidates of a pattern, by their text."""
    form = canonical_form(compile_pattern(text).plain)
    return {format_pattern(each.pattern): each for each in candidates(form.publication)}


@pytest.mark.parametrize(
    ("text", "part", "stand"),
    [
        ("[A] ; [B] ; [C]", "[A] ; [B]", "prefix"),
        ("[A] ; [B] ; [C]", "[B] ; [C]", "right-hand side"),
        ("[A] ; [B] ; [C]", "[B]", "right-hand side"),
        ("[A] [B] ; [C] [D]", "[B] ; [C]", "right-hand side"),
        ("([A] ; [B] | [C]) [D]", "[A] ; [B]", "branch"),
        ("([A] ; [B] | [C] ; [D]) [D]", "[A]", "prefix"),
        ("[A] ; ([A] ; [B] | [C] ; [D])", "[B]", "right-hand side"),
        ("[A] ; ([B] ; [C] & [D])", "[B] ; [C]", "side"),
        ("[A] ; ([B] ; [C] & [D])", "[B]", "prefix"),
        ("([A] & [B])+", "[A]", "side"),
        ("([A] [B], [T]) @ T = 5s", "[A] [B]", "timed"),
        ("([A], [T] ([B] & [C])) @ T = 5s", "[B]", "side"),
        ("([A] ; [B], [T]) @ T = 5s ; [C]", "([A] ; [B], [T_0]) @ T_0 = 5s", "prefix"),
        ("[A] ; ([B], [T]) @ T = 5s", "([B], [T_0]) @ T_0 = 5s", "right-hand side"),
        ("[A] ; ([B], [T]) @ T = 5s", "[B]", "right-hand side"),
        ("([A] ; [B] within 5s) ; [C]", "[A] ; [B] within 5s", "prefix"),
        ("([A] ; [B]) within 5s", "[A] ; [B]", "whole"),
        ("~([A] ; [B]) [C]", "[A] ; [B]", "prefix"),
        ("([A] & [B]) ; [C]", "[A] & [B]", "prefix"),
        ("[A]{0,1} ; [B] ; [C]", "[A]{0,1} ; [B]", "prefix"),
        ("[C] [A]* [B] [C]", "[A]* [B] [C]", "right-hand side"),
        ("[A] ; [B] [C]*", "[B] [C]*", "right-hand side"),
        ("[A as x] ; [B where v == x.v] ; [C where w == x.w]", "[A as x0] ; [B where v == x0.v]", "prefix"),
        (
            MEETING,
            "[BoardOn] [Pers <= {BoardOff, Pers}] [Pers <= {BoardOff, Pers}]* [BoardOff <= {BoardOff, Pers}]",
            "timed",
        ),
    ],
)
def test_permitted_sub_patterns_are_cut_out(text: str, part: str, stand: str) -> None:
    candidate = all_of(text)[part]
    assert candidate.allowed, candidate.failures
    assert candidate.stand == stand


@pytest.mark.parametrize(
    ("text", "part", "conditions"),
    [
        ("([A] ; [B])+ [C]", "[A] ; [B]", "stand"),
        ("([A] ; [B]){2,2}", "[B]", "stand"),
        ("[C] ; ([A] | [B] ; [D])", "[B] ; [D]", "stand"),
        ("[C] ; ([A] | [B] ; [D])", "[B]", "stand"),
        ("([A], [B] ; [T]) @ T = 5s", "[B] ; [T_0]", "closed"),
        ("([A], [B] ; [C]) @ T = 5s", "[C]", "closed"),
        ("[A as x] ; [B where v == x.v]", "[B where v == x0.v]", "closed"),
        ("init n = 0 : [A set n = n + 1] ; [B where v > n]", "[B where v > n_0]", "closed"),
        ("init n = 0 : [A set n = n + 1] ; [B where v > n]", "[A set n_0 = 1 + n_0]", "closed"),
        ("[A] [B]* [C]", "[B]*", "empty c"),
        ("[A] [B]* [C]", "[C]", "a"),
        ("[A]* [B] [C]", "[B] [C]", "a"),
        ("([A], [T]{0,1}) @ T = 5s [C]", "[C]", "a"),
        ("[C] ([A]{0,1} ; [B])", "[A]{0,1} ; [B]", "b"),
        ("[C] ; ([A] & [B]) [C]", "[A] & [B]", "b"),
        ("[A] [B]* [C]", "[A] [B]*", "c"),
        ("[A] ; [B] [C]{0,1} ; [D]", "[B] [C]{0,1}", "c"),
        ("([A]+, [T]) @ T = 5s", "[A]{1,}", "c"),
        ("(([A] | [B]+) [C]) ; [D]", "[B]{1,}", "c"),
    ],
)
def test_refused_sub_patterns_name_their_conditions(text: str, part: str, conditions: str) -> None:
    texts = {each.replace("{1,}", "+").replace("{0,}", "*"): candidate for each, candidate in all_of(text).items()}
    candidate = texts[part.replace("{1,}", "+")]
    assert " ".join(dict.fromkeys(each.condition for each in candidate.failures)) == conditions
    assert all(each.reason for each in candidate.failures)


@pytest.mark.parametrize(
    ("text", "part", "exports"),
    [
        ("[A as x] ; [B where v == x.v] ; [C where w == x.w]", "[A as x0] ; [B where v == x0.v]", {"x0"}),
        ("[A as x] ; [B where v == x.v] ; [C]", "[A as x0] ; [B where v == x0.v]", set()),
        ("[A as x] ; [B] -> Out(v = x.v)", "[A as x0]", {"x0"}),
        (
            "(init n = 0 : [A set n = n + 1]+ [B]) [C] -> Out(n = n)",
            "init n_0 = 0 : [A set n_0 = 1 + n_0]+ [B]",
            {"n_0"},
        ),
        ("([A as x] & [B as y]) ; [C where v == y.v]", "[A]", set()),
    ],
)
def test_candidates_hand_on_names_read_outside(text: str, part: str, exports: set[str]) -> None:
    assert all_of(text)[part].exports == exports


def test_candidates_know_keys_and_windows_around_them() -> None:
    candidate = all_of("(([A] ; [B] ; [C] within 5s) ; [D]) within 1h by (room, floor)")["[A] ; [B]"]
    assert (candidate.key, candidate.window) == (("floor", "room"), 5_000_000_000)


def test_fast_check_agrees_with_the_list_of_failures() -> None:
    asked = 0
    for seed in range(400):
        random = Random(seed)
        try:
            pattern = compiled(PatternMaker(random).publication(random.randrange(2, 9)))
        except PatternError:
            continue
        for view in views(canonical_form(pattern.plain).publication):
            count = len(view.joint.parts)
            for start in range(count):
                for stop in range(start + 1, count + 1):
                    assert view.allows(start, stop) == (not view.failures(start, stop)), pattern.text
                    asked += 1
    assert asked > 1000


def test_the_ends_of_patterns_are_those_of_their_automata() -> None:
    """Whether a match may go on, and how it may begin, is read off the tree; the automaton knows."""
    asked = 0
    for seed in range(600):
        random = Random(seed)
        publication = PatternMaker(random).publication(random.randrange(1, 8))
        try:
            automaton = compiled(publication).automaton
        except PatternError:
            continue
        pattern = publication.pattern
        final = {place for arrival in automaton.arrivals for place in arrival if automaton.states[place].accepting}
        starts = [move for place in automaton.starts for move in automaton.states[place].moves]
        assert ends_open(pattern) == any(automaton.states[place].moves for place in final), seed
        # A strong item beside the same weak one is dropped from the automaton.
        assert opens_strong(pattern) or not any(move.strong for move in starts)
        assert opens_parallel(pattern) == any(automaton.positions[move.position].part is not None for move in starts)
        asked += 1
    assert asked > 200


def test_joints_are_flat_however_they_are_nested() -> None:
    one, other = parse_pattern("[A] ([B] ; [C]) [D]"), parse_pattern("([A] [B]) ; ([C] [D])")
    assert joint_of(one) == joint_of(other)
    assert joined(joint_of(one).parts, joint_of(one).strong) == other


# Graphs.


def test_uncut_pattern_is_one_detector() -> None:
    pattern = compile_pattern("[A] ; [B] by k -> Out()")
    graph = cut([pattern], none)
    assert graph.roots == list(graph.plans) == [pattern.automaton.canonical_id]
    (plan,) = graph.plans.values()
    assert plan.parts == ()
    assert plan.compiled.automaton.type_names() == {"A", "B"}


def test_patterns_that_begin_alike_share() -> None:
    patterns = compile_file("[A];[B];[C] -> X()\n[A];[B];[D] -> Y()\n[A];[B] -> Z()\n[B];[A] -> W()\n")
    graph = cut(patterns, full)
    both = canonical_form(compile_pattern("[A];[B]").plain).id
    assert both in graph.shared
    assert len(graph.plans) == 5
    # What Z publishes is all that the part of the others finds.
    assert {graph.plans[each].compiled.publishes.name for each in graph.readers(both)} == {"X", "Y", "Z"}


def test_a_key_goes_down_into_the_parts() -> None:
    graph = cut([compile_pattern("[A] ; [B] ; [C] by room")], full)
    assert [plan.compiled.automaton.key for plan in graph.plans.values()] == [("room",), ("room",)]


def test_a_part_publishes_by_the_id_of_its_form() -> None:
    """A part and a pattern of its own with the same form are one detector; with something handed on they are two."""
    alone = compile_pattern("[A as a] ; [B where v == a.v]").automaton.canonical_id
    closed = cut([compile_pattern("[A as x] ; [B where v == x.v] ; [C]")], full)
    handing_on = cut([compile_pattern("[A as x] ; [B where v == x.v] ; [C where v == x.v]")], full)
    assert alone in closed.plans
    assert alone not in handing_on.plans
    (part,) = [plan for plan in handing_on.plans.values() if plan.id not in handing_on.roots]
    assert (part.source, part.exports) == (alone, {"x0"})


def test_a_pattern_consumed_by_epochs_is_not_cut() -> None:
    graph = cut([compile_pattern("[A] ; [B] ; [C]", consumption="epoch")], full)
    assert len(graph.plans) == 1


def test_throttlings_go_to_detectors_that_need_them() -> None:
    (pattern,) = compile_file("type Seen = Pers every 1min by person\n[Seen] ; [A] ; [B] ; ([A] ; [C] & [Seen])\n")
    graph = cut([pattern], full)
    needed = {plan.compiled.text: len(plan.compiled.throttlings) for plan in graph.plans.values()}
    assert needed["[A] ; [C]"] == 0
    assert sum(needed.values()) >= 2


@pytest.mark.parametrize(("atoms", "detectors"), [(64, 63), (65, 1), (1_000, 1)])
def test_large_pattern_is_left_whole(atoms: int, detectors: int) -> None:
    compiled = compile_pattern(" ; ".join(f"[A{each}]" for each in range(atoms)))
    assert len(cut([compiled], full).plans) == detectors


def test_throttlings_come_with_those_they_build_on() -> None:
    text = "type Seen = Pers every 1min by person\ntype Seldom = Seen every 1h by person\n[Seldom] ; [A]\n"
    (pattern,) = compile_file(text)
    for choose in none, full:
        graph = cut([pattern], choose)
        assert {len(plan.compiled.throttlings) for plan in graph.plans.values()} == {2}


def test_computed_keys_go_to_detectors_that_need_them() -> None:
    text = "type Hourly = Pers with (hour = floor(hi() / 1h))\n[X] ; ([Hourly] ; [A] by hour) ; [B]\n"
    (pattern,) = compile_file(text)
    graph = cut([pattern], full)
    needed = {plan.compiled.automaton.key: len(plan.compiled.computations) for plan in graph.plans.values()}
    assert len(graph.plans) > 1
    assert all(bool(count) == bool(key) for key, count in needed.items() if key)
