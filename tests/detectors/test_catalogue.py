"""What is detected already is found again, wherever it stands, and the cheapest cover is taken."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from distced.detectors.canonical.form import canonical_form
from distced.detectors.compiler import compile_pattern
from distced.detectors.cutting.candidates import candidates
from distced.detectors.cutting.catalogue import Catalogue, Entry
from distced.detectors.cutting.cut import DetectorGraph, cut, full, none
from distced.detectors.cutting.part_index import PartIndex
from distced.detectors.cutting.reuse import for_reuse
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.printer import format_pattern
from tests.support.comparison import compiled
from tests.support.random_patterns import PatternMaker


def running(*texts: str) -> Catalogue:
    """Detectors of whole patterns."""
    catalogue = Catalogue()
    for text in texts:
        for plan in cut([compile_pattern(text)], none, running=catalogue.plans).plans.values():
            catalogue.add(plan)
    return catalogue


def planned(text: str, catalogue: Catalogue) -> DetectorGraph:
    """A pattern planned for reuse."""
    return cut([compile_pattern(text)], for_reuse(catalogue), running=catalogue.plans)


def reused(text: str, *texts: str) -> set[str]:
    """Which of the running patterns a new one reuses, by their text."""
    graph = planned(text, running(*texts))
    return {graph.plans[each].compiled.text for each in graph.reused}


@pytest.mark.parametrize(
    ("text", "there", "taken"),
    [
        ("[A];[B];[C]", ["[A];[B]"], {"[A] ; [B]"}),
        ("[C];[A];[B]", ["[A];[B]"], {"[A] ; [B]"}),
        ("[A];[B];[C];[D]", ["[A];[B]", "[B];[C]", "[C];[D]"], {"[A] ; [B]", "[C] ; [D]"}),
        ("[A];[B];[C];[D]", ["[A];[B]", "[B];[C];[D]"], {"[B] ; [C] ; [D]"}),
        ("[A];[B];[C]", ["[A][B]", "[B] [C]"], set()),
        ("[A];[B];[C]", ["[A]", "[C]"], set()),
        ("[X];([C] | [D];[E])", ["[C] | [D];[E]"], {"[D] ; [E] | [C]"}),
        ("([E];[D] | [C]);[X]", ["[C] | [E];[D]"], {"[E] ; [D] | [C]"}),
        ("([A];[B] | [C]);[X]", ["[A];[B]"], {"[A] ; [B]"}),
        ("[X];([A];[B] & [C])", ["[A];[B]", "[C];[D]"], {"[A] ; [B]"}),
        ("([A];[B], [T]) @ T = 5s", ["[A];[B]"], {"[A] ; [B]"}),
        ("[X];([A];[B], [T]) @ T = 5s", ["([A];[B], [Z]) @ Z = 5s"], {"([A] ; [B], [T_0]) @ T_0 = 5s"}),
        # Inside an iteration nothing is taken.
        ("([A];[B])+", ["[A];[B]"], set()),
        # Of these the second ends in an iteration, the first only begins with one.
        ("[A][B]*[C];[D]", ["[B]*[C]", "[A][B]*"], {"[B]* [C]"}),
        # Variables and registers, whatever they are called.
        ("[X];[A as y];[B where v == y.v]", ["[A as x];[B where v == x.v]"], {"[A as x0] ; [B where v == x0.v]"}),
        (
            "[X as p];[A as y];[B where v == y.v];[C where w == p.w]",
            ["[A as x];[B where v == x.v]"],
            {"[A as x0] ; [B where v == x0.v]"},
        ),
        # What is needed is not handed on.
        ("[A as y];[B where v == y.v];[C where w == y.w]", ["[A as x];[B where v == x.v]"], set()),
        (
            "(init n = 0 : [A set n = n + 1]+ ; [B where v > n]);[C]",
            ["init m = 0 : [A set m = m + 1]+ ; [B where v > m]"],
            {"init n_0 = 0 : [A set n_0 = 1 + n_0]+ ; [B where v > n_0]"},
        ),
        # An attribute that is called as canonical forms call a register.
        (
            "(init n = 0 : [A set n = n + 1]) [B where v > n] ; [C]",
            ["(init m = 0 : [A set m = m + 1]) [B where v > n_0]"],
            set(),
        ),
        # Keys go down into the parts.
        ("[A];[B];[C] by k", ["[A];[B] by k", "[B];[C]"], {"[A] ; [B] by k"}),
        ("[A];[B];[C] by (k, l)", ["[A];[B] by (l, k)"], {"[A] ; [B] by (k, l)"}),
        ("([A];[B] by k);[C]", ["[A];[B] by k"], {"[A] ; [B] by k"}),
        # A longer window serves, a shorter one does not.
        ("[A];[B];[C] within 5s", ["[A];[B]"], {"[A] ; [B]"}),
        ("[A];[B];[C] within 5s", ["[A];[B] within 9s"], {"[A] ; [B] within 9s"}),
        ("[A];[B];[C] within 5s", ["[A];[B] within 4s"], set()),
        ("[A];[B] within 5s", ["[A];[B]"], {"[A] ; [B]"}),
        ("([A];[B] within 4s);[C] within 5s", ["[A];[B] within 4s"], {"[A] ; [B] within 4s"}),
        ("([A];[B] within 4s);[C] within 5s", ["[A];[B] within 5s"], {"[A] ; [B] within 5s"}),
        ("([A];[B] within 4s);[C]", ["[A];[B] within 5s"], {"[A] ; [B] within 5s"}),
        ("[A];[B];[C]", ["[A];[B] within 5s"], set()),
        # The whole is there, or all of it but for what it publishes.
        ("[A];[B]", ["[A];[B]"], {"[A] ; [B]"}),
        ("[A];[B] -> Out()", ["[A];[B]"], {"[A] ; [B]"}),
        ("[A];[B];[C] -> Out()", ["[A];[B] -> Other()"], set()),
    ],
)
def test_cover_reuses_running_detectors(text: str, there: list[str], taken: set[str]) -> None:
    assert reused(text, *there) == taken


def test_plan_has_at_most_one_new_detector() -> None:
    catalogue = running("[A];[B]", "[C] & [D]", "[E];[F]")
    graph = planned("[A];[B];[G];([C] & [D] | [E];[F]);[H]", catalogue)
    assert len(graph.plans.keys() - graph.reused) == 1
    assert len(planned("[A];[B]", catalogue).plans.keys() - {*catalogue.plans}) == 0


def test_plan_includes_inputs_of_reused_detectors() -> None:
    catalogue = Catalogue()
    for plan in cut([compile_pattern("[A];[B];[C];[D]")], full).plans.values():
        catalogue.add(plan)
    graph = planned("[A];[B];[C];[D];[E]", catalogue)
    assert len(graph.reused) == 3
    assert list(graph.plans)[-1] == graph.roots[0]


def test_unusable_detector_is_not_reused() -> None:
    catalogue = running("[A];[B]", "[C];[D]")
    banned = canonical_form(compile_pattern("[A];[B]").plain).id

    def usable(entry: Entry) -> float | None:
        return None if entry.id == banned else 1.0

    graph = cut([compile_pattern("[A];[B];[C];[D]")], for_reuse(catalogue, usable), running=catalogue.plans)
    assert {graph.plans[each].compiled.text for each in graph.reused} == {"[C] ; [D]"}


def test_detector_that_costs_more_than_it_saves_is_not_reused() -> None:
    catalogue = running("[A];[B]", "[C];[D];[E]")
    graph = cut([compile_pattern("[A];[B];[C];[D];[E]")], for_reuse(catalogue, lambda _: 2.5), running=catalogue.plans)
    assert {graph.plans[each].compiled.text for each in graph.reused} == {"[C] ; [D] ; [E]"}


def test_removed_detector_is_not_found() -> None:
    catalogue = running("[A];[B]", "[A];[B];[C]", "[A] within 5s", "[A as x];[B where v == x.v]")
    for plan in list(catalogue.plans):
        assert plan in catalogue
        catalogue.remove(plan)
        catalogue.remove(plan)
    assert len(catalogue) == 0
    assert catalogue._root.onward == {}
    assert planned("[A];[B];[C]", catalogue).reused == set()


def test_every_sub_pattern_is_found_again(at_length: bool) -> None:
    """Whatever may be cut out of a pattern is found in a catalogue that has it, and only covers it as cheaply."""
    found = 0
    for seed in range(5_000 if at_length else 120):
        random = Random(seed)
        try:
            pattern = compiled(PatternMaker(random).publication(random.randrange(3, 9)))
        except PatternError:
            continue
        if pattern.indivisible:
            continue
        form = canonical_form(pattern.plain)
        for candidate in candidates(form.publication):
            if not candidate.allowed or candidate.size < 2 or candidate.stand == "whole":
                continue
            catalogue, index = Catalogue(), PartIndex()
            choice = _only(pattern, candidate)
            for plan in choice.plans.values():
                if plan.id not in choice.roots:
                    catalogue.add(plan)
                    index.add(plan.id, plan.compiled)
            graph = cut([pattern], for_reuse(catalogue), running=catalogue.plans)
            assert graph.reused, (pattern.text, format_pattern(candidate.pattern))
            assert graph.reused <= set(index.candidates(pattern)), pattern.text
            for each in catalogue.plans:
                index.remove(each)
            assert index.candidates(pattern) == [] and len(index) == 0
            found += 1
    assert found > 25


def _only(pattern, candidate):  # type: ignore[no-untyped-def]
    from distced.detectors.cutting.cut import ChosenCut

    once = iter([[ChosenCut(candidate)]])
    return cut([pattern], lambda _, __: next(once, []))


def test_the_cover_is_the_cheapest() -> None:
    """Against every choice of runs of a plain sequence."""
    names = "ABCDEFGH"
    whole = ";".join(f"[{name}]" for name in names)
    for seed in range(30):
        random = Random(seed)
        runs = {tuple(sorted(random.sample(range(len(names) + 1), 2))) for _ in range(6)}
        runs = {(start, stop) for start, stop in runs if stop - start > 1 and stop - start < len(names)}
        catalogue = running(*(";".join(f"[{name}]" for name in names[start:stop]) for start, stop in runs))
        graph = planned(whole, catalogue)
        lengths = [len(graph.plans[each].compiled.automaton.positions) for each in graph.reused]
        cost = len(names) - sum(lengths) + len(lengths)
        assert cost == min(_cost(names, chosen) for count in range(7) for chosen in combinations(sorted(runs), count))


def _cost(names: str, chosen: tuple[tuple[int, ...], ...]) -> int:
    taken = [place for start, stop in chosen for place in range(start, stop)]
    if len(set(taken)) < len(taken):
        return len(names) + 1
    return len(names) - len(taken) + len(chosen)
