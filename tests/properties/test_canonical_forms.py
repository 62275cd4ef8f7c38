"""The canonical form keeps the meaning, is its own canonical form, and is the same in whatever way it is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from distced.detectors.canonical.form import canonical_form, canonical_id
from distced.detectors.compiler import Compiled
from distced.detectors.language.names import all_variables
from distced.detectors.language.parser import parse_publication
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event
from distced.middleware.patterns.printer import format_pattern, format_publication
from distced.middleware.patterns.tree import Iteration, Pattern, Publication, Sequence, walk
from distced.middleware.sets.describable import DescribableSet, Filtered
from distced.middleware.sets.expressions import COMPARISONS, Binary, Expression, Field, Literal, Moment, Name, Unary
from tests.support.comparison import Composite, by_engine, by_oracle, compiled
from tests.support.equivalent_rewrites import Rewriter
from tests.support.oracle import TooLongError
from tests.support.random_patterns import FEATURES, PatternMaker, make_events
from tests.support.shrinking import shrink

# A seed has nothing to be made smaller by; what fails is shrunk by the tree.
ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)
SEEDS = st.integers(min_value=0, max_value=2**32)
SHARE = 4
"""How many patterns are tried for each seed: making one is quicker than drawing its seed."""


class Maker(PatternMaker):
    """Makes patterns with longer conditions, in which names tie."""

    def guarded(self, described: DescribableSet) -> DescribableSet:
        return Filtered(described, self.condition(self.random.choice((1, 1, 2, 3))))

    def condition(self, size: int) -> Expression:
        random = self.random
        if size > 1:
            sides = self.condition(size - 1), self.condition(1)
            return Binary(random.choice(("and", "or")), *sides)
        if random.random() < 0.2:
            return Unary("not", self.condition(1))
        return Binary(random.choice(COMPARISONS), self.value(), self.value())

    def value(self) -> Expression:
        random = self.random
        choices: list[Expression] = [Name("v"), Name("v"), Name("k"), Literal(random.randrange(3)), Moment("hi", "")]
        choices += [Field(name, random.choice("vk")) for name in self.variables]
        choices += [Moment("lo", name) for name in self.variables]
        choices += [Name(name) for name in self.registers]
        value = random.choice(choices)
        if random.random() < 0.2:
            return Binary(random.choice("+*-"), value, random.choice(choices))
        return value


def _made(random: Random, most: int = 8) -> Publication:
    maker = random.choice((PatternMaker, Maker))
    return maker(random, FEATURES).publication(random.randrange(1, most + 1))


def _compiled(publication: Publication, *, epochs: bool = False) -> Compiled | None:
    try:
        return compiled(publication, epochs=epochs)
    except PatternError:
        return None


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_canonical_form_is_a_fixed_point_and_reads_back(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        publication = _made(random)
        form = canonical_form(publication)
        again = canonical_form(form.publication)
        assert (again.publication, again.text, again.id) == (form.publication, form.text, form.id), format_publication(
            publication
        )
        assert parse_publication(format_publication(form.publication)) == form.publication, form.text


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_any_has_the_canonical_form_of_its_types(seed: int) -> None:
    """What a pattern with `any` names is named in its form, too: composite events of other types are not in it."""
    random = Random(seed)
    for _ in range(SHARE):
        publication = _made(random)
        made = _compiled(publication)
        again = None if made is None else _compiled(canonical_form(publication).publication)
        if made is not None and again is not None and again.automaton.type_names() is None:
            assert again.names() == made.names(), format_publication(publication)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_canonical_form_detects_the_same(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        publication = _made(random, 6)
        epochs = random.random() < 0.2
        events = make_events(random, random.randrange(10), span=random.choice((4, 10)))
        if _compiled(publication, epochs=epochs) is None:
            continue
        _hold_alike(publication, events, epochs)
        if random.random() < 0.1:
            _hold_alike_to_the_oracle(publication, events, epochs)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_equivalent_patterns_have_one_canonical_form(seed: int) -> None:
    random = Random(seed)
    for _ in range(SHARE):
        publication = _made(random, 6)
        if _compiled(publication) is None:
            continue
        other = Rewriter(random).publication(publication)
        assert canonical_form(other).text == canonical_form(publication).text, (
            f"{format_publication(publication)}\n{format_publication(other)}"
        )
        if random.random() < 0.3 and (pattern := _compiled(other)) is not None:
            events = make_events(random, random.randrange(10))
            assert by_engine(pattern, events) == by_engine(compiled(publication), events), format_publication(other)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_part_has_the_canonical_form_of_its_place(seed: int) -> None:
    """What is closed and cut out is equal to itself where it was, but for the numbers of names, and is found again."""
    random = Random(seed)
    for _ in range(SHARE):
        publication = _made(random)
        if _compiled(publication) is None:
            continue
        whole = canonical_form(publication).publication
        closed = list(_closed_parts(whole))
        for part in closed:
            alone = canonical_form(Publication(part)).publication.pattern
            assert _numbered(alone) == _numbered(part), format_publication(whole)
        if not closed:
            continue
        part = random.choice(closed)
        other = parse_publication("([A as y] ; [B where v == y.v] | [C])").pattern
        around = canonical_form(Publication(Sequence((other, Iteration(part, 2, 2))))).publication.pattern
        assert _numbered(part) in map(_numbered, walk(around)), format_publication(whole)


def _hold_alike(publication: Publication, events: list[Event], epochs: bool) -> None:
    """Hold the canonical tree to what the pattern detects as given; a difference is made small before it is told."""
    found = _both(publication, events, epochs)
    if found is not None and found[0] != found[1]:
        publication, events = shrink(publication, events, lambda p, e: _differ(p, list(e), epochs))
        raise AssertionError(
            f"{format_publication(publication)}\n{canonical_form(publication).text}\n{events}\n"
            f"given, canonical: {_both(publication, events, epochs)}"
        )


def _differ(publication: Publication, events: list[Event], epochs: bool) -> bool:
    found = _both(publication, events, epochs)
    return found is not None and found[0] != found[1]


def _both(
    publication: Publication, events: list[Event], epochs: bool
) -> tuple[list[Composite], list[Composite]] | None:
    given = _compiled(publication, epochs=epochs)
    if given is None:
        return None
    form = canonical_form(given.plain).publication
    # Not checked: in canonical form it may show that an atom can never match, and such atoms the check refuses.
    known = canonical_form(form, epochs=epochs)
    canonical = replace(given, publication=form, plain=form, cut=form, known_form=known)
    assert given.automaton.canonical_id == canonical.automaton.canonical_id
    assert canonical_id(given.plain, epochs=epochs) == given.automaton.canonical_id
    return by_engine(given, events), by_engine(canonical, events)


def _hold_alike_to_the_oracle(publication: Publication, events: list[Event], epochs: bool) -> None:
    """The same for the oracle, which reads trees and knows no automata."""
    try:
        found = [
            by_oracle(each, events, epochs=epochs, steps=20_000)
            for each in (publication, canonical_form(publication).publication)
        ]
    except TooLongError:
        return
    assert found[0] == found[1], format_publication(publication)


# Names in canonical text: without an output, nothing else in these patterns looks like them.
CANONICAL_NAME = re.compile(r"\b(x|n_|T_)\d+\b")


def _closed_parts(publication: Publication) -> Iterator[Pattern]:
    """The parts whose names occur nowhere else."""
    everywhere = Counter(_names(format_publication(publication)))
    if publication.output is not None and publication.output.consuming == "variables":
        # Each variable is read by what is consumed.
        everywhere.update(all_variables(publication.pattern))
    for part in walk(publication.pattern):
        inside = Counter(_names(format_pattern(part)))
        if all(everywhere[name] == count for name, count in inside.items()):
            yield part


def _names(text: str) -> list[str]:
    return [match.group() for match in CANONICAL_NAME.finditer(text)]


def _numbered(pattern: Pattern) -> str:
    """The printed pattern with names by the order in which they come."""
    text = format_pattern(pattern)
    numbers: dict[str, int] = {}
    for name in _names(text):
        numbers.setdefault(name, len(numbers))
    return CANONICAL_NAME.sub(lambda match: f"{match.group(1)}#{numbers[match.group()]}", text)
