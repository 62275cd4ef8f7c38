"""Aggregates are registers that the compiler makes: the same detector as by hand, cut and shown as written."""

from __future__ import annotations

import pytest

from distced.detectors.compiler import compile_pattern
from distced.detectors.cutting.cut import cut, full
from distced.detectors.explain.automaton_view import view_of
from distced.middleware.patterns.printer import format_pattern

BY_HAND = [
    ("[P as p]+ -> X(n = count(p))", "init n = 0 : [P set n = n + 1]+ -> X(n = n)"),
    (
        "[A] ; [P as p]+ [Q] -> X(first = first(p.v))",
        "[A] ; (init n = 0, f = null : [P set f = if(n == 0, v, f), n = n + 1]+) [Q] -> X(first = f)",
    ),
    (
        "[P as p]+ by k -> X(k = k, low = min(p.v))",
        "init low = null : [P set low = if(v < low or low == null, v, low)]+ by k -> X(k = k, low = low)",
    ),
    (
        "[P as p]+ -> X(mean = avg(p.v), sum = sum(p.v))",
        "init n = 0, sum = 0 : [P set n = if(v * 1 == null, n, n + 1), sum = if(v * 1 == null, sum, sum + v)]+"
        " -> X(mean = sum / n, sum = sum)",
    ),
    ("[P as p]+ [Q where v > last(p.v)]", "[P as p]+ [Q where v > p.v]"),
    ("[A as p]+ & [B] -> X(n = count(p))", "(init n = 0 : [A set n = n + 1]+) & [B] -> X(n = n)"),
]


@pytest.mark.parametrize(("text", "by_hand"), BY_HAND, ids=[text for text, _ in BY_HAND])
def test_registers_by_hand_are_the_same_detector(text: str, by_hand: str) -> None:
    assert compile_pattern(text).canonical_id == compile_pattern(by_hand).canonical_id


def test_an_aggregate_is_counted_once_however_often_it_is_read() -> None:
    text = "[P as p]+ [Q where v > count(p)] -> X(n = count(p), first = first(p.v), second = nth(p.v, 2))"
    names = [each.name for each in compile_pattern(text).automaton.registers]
    assert names == ["count(p)", "first(p.v)", "nth(p.v, 2)"]


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        ("[A] ; [P as p]+ ; [Q where v > n]", "[A] ; (init `count(p)` = 0 : {P}+) ; [Q where v > n]"),
        ("[A] [P as p]* [Q where v > n]", "init `count(p)` = 0 : [A] {P}* [Q where v > n]"),
        ("([A] [P as p])+ [Q where v > n]", "(init `count(p)` = 0 : ([A] {P})+) [Q where v > n]"),
        (
            "[P as p] [B] [P as p] [Q where v > count(p)]",
            "(init `count(p)` = 0 : {P} [B] {P}) [Q where v > `count(p)`]",
        ),
        (
            "([A], [P as p <= {P, T}] [T]) @ T = 1s -> X(n = count(p))",
            "([A], (init `count(p)` = 0 : [P as p set `count(p)` = `count(p)` + 1 <= {P, T}]) [T]) @ T = 1s",
        ),
    ],
)
def test_registers_begin_as_near_as_can_be(text: str, begun: str) -> None:
    atom = "[P as p set `count(p)` = `count(p)` + 1]"
    pattern = compile_pattern(text.replace("v > n", "v > count(p)")).plain.pattern
    assert format_pattern(pattern) == begun.replace("{P}", atom).replace("v > n", "v > `count(p)`")


def test_what_is_aggregated_can_be_cut_out_and_shared() -> None:
    patterns = [
        compile_pattern("([A] [P as p]{2}) ; [Q where v > sum(p.v)] -> X(sum = sum(p.v))"),
        compile_pattern("([A] [P as q]{2}) ; [R where v > sum(q.v)] -> Y(sum = sum(q.v))"),
    ]
    graph = cut(patterns, full)
    assert len(graph.plans) == 3
    assert all(graph.plans[root].parts == graph.plans[graph.roots[0]].parts for root in graph.roots)


def test_explain_shows_aggregates_as_they_are_written() -> None:
    text = """[P as p]+ [Q where (v > avg(p.v) and distinct(p.k, 2) == 2) as q <= {Q}]
      -> X(mean = avg(p.v), third = nth(p.v, -3), all = collect(p.k, 9)) where all != '[1]'"""
    view = view_of(compile_pattern(text))
    assert view.registers == ("avg(p.v)", "distinct(p.k, 2)", "nth(p.v, -3)", "collect(p.k, 9)")
    moves = [move for state in view.states for move in state.moves]
    assert {move.sets for move in moves} == {()}
    added = ("adds to avg(p.v)", "adds to distinct(p.k, 2)", "adds to nth(p.v, -3)", "adds to collect(p.k, 9)")
    assert {(move.label, move.opens) for move in moves} == {
        ("P", added),
        ("Q where v > avg(p.v) and distinct(p.k, 2) == 2", ()),
    }


def test_registers_of_the_pattern_itself_keep_their_names() -> None:
    text = "init `count(p)` = 7 : [P as p]+ -> X(n = count(p), own = `count(p)`)"
    names = [each.name for each in compile_pattern(text).automaton.registers]
    assert names == ["count(p)", "count(p)'"]


def test_the_order_in_which_aggregates_are_read_makes_no_difference() -> None:
    one = "[P as p]+ [Q as q]+ -> X(a = count(p), b = sum(p.v), c = nth(p.v, -3), d = count(q))"
    other = "[P as p]+ [Q as q]+ -> X(d = count(q), c = nth(p.v, -3), b = sum(p.v), a = count(p))"
    assert compile_pattern(one).canonical_id == compile_pattern(other).canonical_id
