"""Automata: states, moves, domains, as the article's figures draw them and Appendix B builds them."""

from __future__ import annotations

import pytest

from distced.detectors.automata.automaton import Automaton, part_type, timer_type
from distced.detectors.automata.builder import build
from distced.detectors.automata.reachability import can_match
from distced.detectors.compiler import compile_pattern
from distced.detectors.language.parser import parse_publication
from distced.middleware.model.timestamps import MINUTE
from distced.middleware.patterns.tree import Relative
from distced.middleware.sets.expressions import FALSE, TRUE


def automaton(text: str) -> Automaton:
    return build(parse_publication(text), "")


def drawn(text: str) -> list[tuple[list[str], list[str], str]]:
    """Each state as its moves (`;` before a strong one), its domain, and what it is: `start`, `emits`."""
    made = automaton(text)
    states = []
    for index, state in enumerate(made.states):
        moves = [("; " if move.strong else "") + made.positions[move.position].text for move in state.moves]
        domain = made.domain(state)
        names = sorted(name for name, condition in domain.by_type.items() if condition != FALSE)
        names += ["any"] if domain.others != FALSE else []
        kind = "start" if index in made.starts else ""
        states.append((moves, names, kind + ("emits" if state.accepting else "")))
    return states


def test_automaton_of_one_atom_has_a_start_and_an_end() -> None:
    assert drawn("[A <= {A, B}]") == [(["[A <= {A, B}]"], ["A", "B"], "start"), ([], [], "emits")]


def test_moves_are_weak_or_strong_by_the_sign() -> None:
    assert drawn("[A] ; [B] [C]") == [
        (["[A]"], ["A"], "start"),
        (["; [B]"], ["B"], ""),
        (["[C]"], ["C"], ""),
        ([], [], "emits"),
    ]


def test_an_iteration_is_merged_with_what_follows() -> None:
    # The article's [A][A <= {A, B}]*[C]: the middle state looks at A, B and C.
    assert drawn("[A][A <= {A, B}]*[C]") == [
        (["[A]"], ["A"], "start"),
        (["[A <= {A, B}]", "[C]"], ["A", "B", "C"], ""),
        ([], [], "emits"),
    ]


def test_an_alternation_forks() -> None:
    made = automaton("[X]([A] | [B])")
    assert [len(arrivals) for arrivals in made.arrivals] == [2, 1, 1]
    assert len(automaton("[A] | [B]").starts) == 2
    assert len(automaton("[A, B]").starts) == 1


def test_figure_11_the_meeting() -> None:
    assert drawn("[BoardOn] [ [Pers][Pers]*[BoardOff] <= {Pers, BoardOff} ]") == [
        (["[BoardOn]"], ["BoardOn"], "start"),
        (["[Pers]"], ["BoardOff", "Pers"], ""),
        (["[Pers]", "[BoardOff]"], ["BoardOff", "Pers"], ""),
        ([], [], "emits"),
    ]


def test_figure_11_no_log_in() -> None:
    made = automaton("([C1], [T1 <= {T1, Login}]) @ T1 = 5min")
    assert [(timer.name, timer.when) for timer in made.timers] == [("T1", Relative(5 * MINUTE))]
    start, waiting, end = made.states
    assert (start.arms, start.timers) == (frozenset(), frozenset())
    assert (waiting.arms, waiting.timers) == ({0}, {0})
    assert (end.accepting, end.timers) == (True, frozenset())
    assert set(made.domain(waiting).by_type) == {timer_type(0), "Login"}
    # Inside the automaton the time event goes by a name that no type can have.
    assert made.positions[1].label.by_type == {timer_type(0): TRUE}


def test_automaton_of_scenario_1_waits_for_its_time_event() -> None:
    made = automaton("([Pers] | [Door], [Temp]) @ T = 5min")
    assert len(made.starts) == 2
    # Both branches come to the same state.
    assert made.arrivals[0] == made.arrivals[1]
    (waiting,) = made.arrivals[0]
    assert set(made.domain(made.states[waiting]).by_type) == {"Temp", timer_type(0)}


def test_sides_of_figure_14g_are_parts() -> None:
    made = automaton("[A] & [B]")
    assert [part.type_names() for part in made.parts] == [{"A"}, {"B"}]
    (start,) = made.starts
    assert len(made.states[start].moves) == 2
    assert set(made.domain(made.states[start]).by_type) == {part_type(0), part_type(1)}
    seconds = [made.states[arrivals[0]] for arrivals in made.arrivals if made.states[arrivals[0]].moves]
    assert sorted(list(made.domain(state).by_type) for state in seconds) == [[part_type(0)], [part_type(1)]]
    assert made.joints == 1


def test_bounded_iteration_is_repeated() -> None:
    assert len(automaton("[A]{3}").positions) == 3
    assert len(automaton("[A]{2,4}").positions) == 4
    # Without a limit the last copy leads back to itself.
    assert len(automaton("[A]*").positions) == 1
    assert len(automaton("[A]{3,}").positions) == 3
    made = automaton("[A]{2,}")
    assert [made.states[arrivals[0]].accepting for arrivals in made.arrivals] == [False, True]


def test_the_start_is_never_generative() -> None:
    made = automaton("[A]*")
    assert not any(made.states[index].accepting for index in made.starts)
    assert any(state.accepting for state in made.states)


def test_strong_move_beside_the_same_weak_one_is_dropped() -> None:
    # D is reached by no round at all, weakly, and by an empty round past the semicolon, strongly.
    _, after_a, *_ = drawn("[A] ([B]* ; [C]*)* [D]")
    assert after_a[0] == ["[B]", "; [C]", "[D]"]


def test_key_and_window_of_the_whole_are_no_parts_of_states() -> None:
    made = automaton("([A][B] by k) within 5ns within 9ns")
    assert (made.key, made.whole_window, made.windows, made.inner_keys) == (("k",), 5, (), ())
    made = automaton("[X] ([A][B] by k within 5ns)")
    assert (made.key, made.whole_window, made.windows, made.inner_keys) == ((), None, (5,), (("k",),))
    # Keys of the whole are handed on to the sides of `&`.
    assert [part.key for part in automaton("[A] & ([B] by l) by k").parts] == [("k",), ("k", "l")]


def test_unread_variables_are_not_kept() -> None:
    assert automaton("[A as x][B as y][C where v == y.v]").variables == ("y",)
    assert automaton("[A as x][B] -> Out(v = x.v)").variables == ("x",)


def test_registers_of_one_name_are_one() -> None:
    made = automaton("(init n = 0 : [A set n = n + 1]){2} (init n = 5, m = 1 : [B])")
    assert [(register.name, len(register.initials)) for register in made.registers] == [("n", 3), ("m", 1)]


def test_sides_hand_on_what_is_read_behind_them() -> None:
    made = automaton("([A as x] & (init n = 0 : [B as y set n = n + 1])) [C where v == x.v + n]")
    assert [part.exports for part in made.parts] == [{"x"}, {"n"}]
    assert made.variables == ("x",)
    assert [register.name for register in made.registers] == ["n"]


def test_automaton_names_the_types_it_reads() -> None:
    assert automaton("([A], [B <= {B, C, T}]) @ T = 5s").type_names() == {"A", "B", "C"}
    assert automaton("[A] & [B]").type_names() == {"A", "B"}
    assert automaton("[A] [any - B]").type_names() is None


def test_an_automaton_is_a_value() -> None:
    one, other = automaton("([A] & [B]) [C where v > 1]"), automaton("([A]&[B])[C where v>1]")
    assert one == other
    assert one != automaton("([A] & [B]) ; [C where v > 1]")


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("[A]", True),
        ("[A <= B]", False),
        ("[A][B <= C]", False),
        ("[A]([B <= C] | [D])", True),
        ("[A][B <= C]*", True),
        ("[A, B <= B]", True),
        ("[A] & [B <= C]", False),
        ("[A] | [B] & [B <= C]", True),
        ("[any <= A]", True),
        ("[A <= any]", True),
        ("[any - A <= A]", False),
        ("[any - A <= any]", True),
        # In a merged state the domain of the one serves the other.
        ("[A <= B]*[B]", True),
    ],
)
def test_types_show_whether_a_position_can_match(text: str, possible: bool) -> None:
    assert can_match(automaton(text)) is possible


def test_compiling_keeps_the_tree_as_it_was_written() -> None:
    compiled = compile_pattern("Pair ; [C] -> Out()", definitions={"Pair": "[A][B]"})
    assert compiled.text == "[A] [B] ; [C] -> Out()"
    assert compiled.publishes.name == "Out"
    assert compiled.automaton.epochs is False
    assert compile_pattern("[A]", consumption="epoch").automaton.epochs is True


@pytest.mark.parametrize(
    "text", ["([A]*){300} [C]", " ; ".join(f"[A{each}]*" for each in range(300)) + " ; [C]"], ids=["copies", "parts"]
)
def test_many_optional_parts_are_followed_by_each_later_one(text: str) -> None:
    made = automaton(text)
    # The state behind each part, from which it may be repeated, or a later one follow; that behind the first part is
    # the start, too, where the same parts may follow.
    assert sorted(len(each.moves) for each in made.states) == [0, *range(2, 302)]
