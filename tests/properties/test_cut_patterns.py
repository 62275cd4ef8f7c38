"""The promise: however a pattern is cut, delayed and interleaved, the composite events are the same.

Design, section 2. A case is a pattern, a cut, an input whose events come from several sources and partly out of order,
and an interleaving of everything that is under way; ids, constituents, attributes and timestamps are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from distced.detectors.canonical.form import canonical_form
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.candidates import CONDITIONS, Candidate, candidates
from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.cut import ChosenCut, cut
from distced.detectors.cutting.reuse import for_reuse
from distced.detectors.language.parser import parse_publication
from distced.middleware.model.errors import PatternError
from distced.middleware.patterns.tree import (
    Alternation,
    Concatenation,
    Keyed,
    Parallel,
    Pattern,
    Publication,
    Sequence,
    Window,
)
from tests.properties.test_exhaustive import inputs, patterns
from tests.support.comparison import compiled
from tests.support.random_cuts import assert_transparent, chosen, cut_by, described, differ, in_parts, whole
from tests.support.random_patterns import FEATURES, WITH_AGGREGATES, PatternMaker, make_events

# A seed has nothing to be made smaller by; what fails is shrunk by the tree.
ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SEEDS = st.integers(min_value=0, max_value=2**32)
SHARE = 6
"""How many cases are tried for each seed."""


def _try(seed: int, features: frozenset[str], *, most: int, span: int = 10, share: int = SHARE) -> None:
    random = Random(seed)
    tried = 0
    while tried < share:
        publication = PatternMaker(random, features).publication(random.randrange(2, most + 1))
        cut_seed = random.randrange(2**32)
        for _ in range(3):
            events = make_events(random, random.randrange(1, 11), span=span, width=random.choice((2, 4)))
            if not assert_transparent(publication, events, cut_seed):
                break
            tried += 1


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_cuts_detect_the_same(seed: int) -> None:
    _try(seed, FEATURES, most=7)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 2)
def test_cuts_detect_the_same_on_ties(seed: int) -> None:
    _try(seed, FEATURES, most=6, span=3)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 2)
def test_cuts_aggregate_the_same(seed: int) -> None:
    _try(seed, WITH_AGGREGATES, most=7)


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 4)
def test_cuts_of_larger_patterns_detect_the_same(seed: int) -> None:
    _try(seed, FEATURES, most=14, share=2)


@pytest.mark.parametrize("feature", sorted(FEATURES - {"output"}))
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 10)
def test_cuts_detect_the_same_on_one_feature(feature: str, seed: int) -> None:
    _try(seed, frozenset({feature, "output"}), most=8)


# Several patterns, one graph.


def _related(random: Random, count: int) -> list[Compiled]:
    """Patterns that have parts in common, no two of them equal."""
    shared: list[Pattern] = []
    while len(shared) < 2:
        made = PatternMaker(random, FEATURES - {"output"}).publication(random.randrange(2, 6))
        if _is_pattern(made):
            shared.append(made.pattern)
    related: dict[str, Compiled] = {}
    while len(related) < count:
        part: Pattern = random.choice(shared)
        other = PatternMaker(random, FEATURES - {"output"}).publication(random.randrange(1, 4)).pattern
        roll = random.random()
        if roll < 0.4:
            part = random.choice((Concatenation, Sequence))((part, other))
        elif roll < 0.6:
            part = random.choice((Concatenation, Sequence))((other, part))
        elif roll < 0.7:
            part = Alternation((part, other))
        elif roll < 0.8:
            part = Parallel(part, other)
        if random.random() < 0.2:
            part = Window(part, random.randrange(1, 8))
        if random.random() < 0.2:
            part = Keyed(part, ("k",))
        if _is_pattern(Publication(part)):
            pattern = compiled(Publication(part))
            related.setdefault(pattern.automaton.canonical_id, pattern)
    return list(related.values())


def _is_pattern(publication: Publication) -> bool:
    try:
        compiled(publication)
    except PatternError:
        return False
    return True


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 2)
def test_patterns_share_their_detectors(seed: int) -> None:
    random = Random(seed)
    every = _related(random, 3)
    graph = cut(every, chosen(random.randrange(2**32)))
    for _ in range(2):
        events = make_events(random, random.randrange(1, 11))
        assert in_parts(graph, events, random.randrange(2**32)) == whole(every, events), described(graph)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER, max_examples=settings().max_examples // 2)
def test_running_detectors_are_reused(seed: int) -> None:
    random = Random(seed)
    *before, last = _related(random, 4)
    catalogue = Catalogue()
    for pattern in before:
        for plan in cut([pattern], chosen(random.randrange(2**32)), running=catalogue.plans).plans.values():
            catalogue.add(plan)
    graph = cut([last], for_reuse(catalogue), running=catalogue.plans)
    assert len(graph.plans.keys() - graph.reused) <= 1
    for _ in range(2):
        events = make_events(random, random.randrange(1, 11))
        assert in_parts(graph, events, random.randrange(2**32)) == whole([last], events), described(graph)


# Small things, all of them.


def _every_cut(size: int) -> Iterator[tuple[Compiled, Candidate]]:
    """Every pattern of this many nodes, equal ones once, with every sub-pattern that may be cut out of it."""
    met: set[str] = set()
    for pattern in patterns(size):
        publication = Publication(pattern)
        if not _is_pattern(publication):
            continue
        form = canonical_form(publication)
        if form.id not in met:
            met.add(form.id)
            for candidate in candidates(form.publication):
                if candidate.allowed and candidate.stand != "whole":
                    yield compiled(publication), candidate


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 4])
def test_every_cut_of_every_small_pattern_detects_the_same(size: int, at_length: bool) -> None:
    """In a long run all cuts of all patterns of three nodes on all inputs of up to three events, and many of four."""
    if size > 3 and not at_length:
        pytest.skip("patterns of four nodes are tried in long runs")
    random = Random(size)
    every = [*inputs(1), *inputs(2), *inputs(3)]
    for pattern, candidate in _every_cut(size):
        chosen_once = iter([[ChosenCut(candidate)]])
        graph = cut([pattern], lambda _, __, chosen_once=chosen_once: next(chosen_once, []))
        assert len(graph.plans) == 2
        for events in every if at_length and size == 3 else random.sample(every, 30):
            assert in_parts(graph, events, random.randrange(100)) == whole([pattern], events), (
                described(graph),
                events,
            )


# Each condition of the rule is needed.


MUTATIONS = [
    ("stand", "([A] [B])+ [C]", "inside an iteration the first part shares its state with what comes behind"),
    ("closed", "[A as x] ; [B where (v == x.v) as x] ; [C]", "the guard of B reads what was bound before it"),
    ("closed", "([A], [B] ; [C, T]) @ T = 2ns", "the time event is in the domain of all that follows it"),
    (
        "closed",
        "(init n = 0 : [A set n = v]) ; [B where v >= n] (init n = 5 : [C where v < n])",
        "the first guard reads the register that another part has begun",
    ),
    ("empty", "[A] ([B]{0,1} [C]{0,1})", "a part without events finds nothing, where the whole goes on"),
    ("a", "[A] [B]* [C] [A]", "the B that goes on and the C that comes next share one state"),
    ("a", "[A] [B]{0,1} ([C] ; [A])", "the same with one that is left out"),
    ("b", "[C] ([A]{0,1} ; [B])", "a state with weak and strong ways fails where one of strong ways alone ignores"),
    ("b", "[C] ; ([A] & [B])", "what the sides find may lie before the end of C"),
    ("c", "[A] [B]* ; [C] [B]", "the B that goes on fails what waits for C"),
    ("c", "[A] ; ([B] [C]{0,1}) [A]", "the same with one that may be left out"),
]


def test_mutations_cover_every_condition() -> None:
    assert {condition for condition, _, _ in MUTATIONS} == set(CONDITIONS)


@pytest.mark.parametrize(("condition", "text", "why"), MUTATIONS, ids=[f"{c}: {t}" for c, t, _ in MUTATIONS])
def test_each_condition_of_the_cutting_rule_is_needed(condition: str, text: str, why: str) -> None:
    """With the rule every cut of these patterns is transparent; with one condition left out some cut is not."""
    publication = parse_publication(text)
    broken = 0
    for seed in range(400):
        random = Random(seed)
        events = make_events(random, random.randrange(2, 9), span=7, width=4)
        assert differ(publication, events, seed) is None
        with suppress(KeyError):
            # Some of what may be cut then cannot even be built; that does not count.
            broken += differ(publication, events, seed, without=frozenset({condition})) is not None
        if broken:
            break
    cut_by.cache_clear()
    assert broken, why
