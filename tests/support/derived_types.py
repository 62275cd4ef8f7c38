"""Random patterns over derived types, on both engines and cut, against the oracle."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from distced.detectors.compiler import Compiled, compile_publication, register_derived
from distced.detectors.conformance.case_runner import ENGINES
from distced.detectors.language.parser import parse_file
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns.naming import replace_sets
from distced.middleware.patterns.printer import format_file, format_publication
from distced.middleware.patterns.tree import DerivedType, PatternFile, Publication
from distced.middleware.sets.aggregates import OVER, SLIDING, slides
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
)
from distced.middleware.sets.expressions import Binary, Call, Expression, Literal, Moment, Name
from distced.policies.local_runner import cut_run
from tests.support.comparison import composites, seen
from tests.support.oracle import TooLongError, read
from tests.support.random_patterns import TYPES, PatternMaker, make_events

ATTRIBUTES = ("k", "v")
"""Attributes of the events, which may be computed, too: so the rest of a pattern reads them under their names."""


def random_types(random: Random) -> tuple[DerivedType, ...]:
    """Derived types of the types of random patterns, some of them of one another."""
    made: list[DerivedType] = []
    for number in range(random.randrange(1, 4)):
        base = random.choice((*TYPES, *(each.name for each in made)))
        condition = Binary(random.choice(("<", "!=")), Name("v"), Literal(2)) if random.random() < 0.3 else None
        names = random.sample(ATTRIBUTES, random.choice((0, 1, 1, 2)))
        computed = tuple((name, _value(random, name)) for name in names)
        every = random.choice((2, 3, 5)) if random.random() < 0.3 else 0
        by = tuple(random.sample(ATTRIBUTES, random.randrange(2))) if every else ()
        quiet = every if every and random.random() < 0.5 else 0
        # Drawn apart, so that seeds make the types that they made before.
        apart = Random(f"sliding {number} {base} {condition} {computed} {every} {by}")
        if computed and apart.random() < 0.4:
            computed = tuple((name, _sliding(apart) if apart.random() < 0.7 else value) for name, value in computed)
            plain = [name for name in ATTRIBUTES if not slides(dict(computed).get(name, Literal(1)))]
            by = tuple(apart.sample(plain, apart.randrange(len(plain) + 1)))
            if not (every or any(slides(value) for _, value in computed)):
                by = ()
        made.append(DerivedType(f"D{number}", base, condition, every - quiet, by, computed, quiet))
    return tuple(made)


def _sliding(random: Random) -> Expression:
    """An aggregate over a sliding window."""
    function = random.choice(tuple(SLIDING))
    value = random.choice((Name("v"), Name("v"), Name("k"), Binary("/", Name("v"), Literal(3)), Moment("hi", "")))
    made = Call(OVER, (Call(function, (value,)), Literal(random.choice((1, 2, 4)))))
    return made if random.random() < 0.7 else Binary("-", Name("v"), made)


def _value(random: Random, name: str) -> Expression:
    hour = Call("floor", (Binary("/", Moment("hi", ""), Literal(random.choice((2, 3)))),))
    return random.choice(
        (
            hour,
            Binary("-", Literal(1), Name(name)),
            Binary("+", Name("v"), Literal(1)),
            Binary("%", Binary("+", Name("k"), Moment("lo", "")), Literal(2)),
            Name("v"),
            Name("k"),
            Literal(1),
            Call("if", (Binary("==", Name("k"), Literal(1)), Name("v"), Literal(None))),
        )
    )


def over(random: Random, publication: Publication, types: tuple[DerivedType, ...]) -> Publication:
    """The pattern with derived types in places of those that they are derived from."""
    share = random.choice((0.4, 0.9))

    def changed(described: DescribableSet) -> DescribableSet:
        match described:
            case TypeSet(name=name) if name in TYPES and random.random() < share:
                return TypeSet(random.choice(types).name)
            case Union(members=members):
                return Union(tuple(map(changed, members)))
            case Filtered(base=base, condition=condition):
                return Filtered(changed(base), condition)
            case Intersection(left=left, right=right):
                return Intersection(changed(left), changed(right))
            case Difference(left=left, right=right):
                return Difference(changed(left), changed(right))
            case AnySet() if random.random() < share:
                return Union(tuple(TypeSet(each.name) for each in types))
            case _:
                return described

    pattern = replace_sets(publication.pattern, changed)
    return replace(publication, pattern=pattern)


def registry_of(types: tuple[DerivedType, ...]) -> TypeRegistry:
    """The types, read from their text."""
    registry = TypeRegistry(open=True)
    register_derived(parse_file(format_file(PatternFile(types, (), ()))), registry)
    return registry


def assert_derived_alike(seed: int, features: frozenset[str], *, cut: bool, epochs: bool = False) -> bool:
    """Hold engines, or a cut, to the oracle on a random pattern; False where it is refused or takes too long."""
    random = Random(seed)
    types = random_types(random)
    publication = over(random, PatternMaker(random, features).publication(random.randrange(1, 6)), types)
    events = make_events(random, random.randrange(10), span=random.choice((3, 10)))
    registry = registry_of(types)
    try:
        pattern = compile_publication(publication, registry, consumption="epoch" if epochs else "ordered")
        found = read(publication, map(seen, events), epochs=epochs, steps=200_000, registry=registry)
    except (PatternError, TooLongError):
        return False
    expected = sorted((each.constituents, repr(sorted(each.attributes)), each.lo, each.hi) for each in found)
    runs = {"cut": cut_run("random", seed)} if cut else ENGINES
    for name, run in runs.items():
        given = [tuple(each) for each in composites(run([pattern], events, lambda _: None))]
        assert given == expected, _told(name, seed, types, pattern, events)
    return True


def assert_alike_across_changes(seed: int, features: frozenset[str]) -> bool:
    """Hold the columnar engine to the stepwise one on a random pattern, with late events, time, changes of engine and
    snapshots between events; False where the pattern is refused or the columnar engine leaves it."""
    from distced.detectors.columnar.engine import ColumnarEngine

    random = Random(seed)
    types = random_types(random)
    publication = over(random, PatternMaker(random, features).publication(random.randrange(1, 5)), types)
    events = make_events(random, random.randrange(14), span=random.choice((3, 10)))
    if events and random.random() < 0.5:
        # Late, by best effort.
        place = random.randrange(len(events))
        events.insert(random.randrange(place, len(events)), events.pop(place))
    try:
        pattern = compile_publication(publication, registry_of(types))
    except PatternError:
        return False
    reference, engine = StepwiseEngine([pattern]), ColumnarEngine([pattern])
    if engine.cascade is None:
        return False
    expected: list[CompositeEvent] = []
    found: list[CompositeEvent] = []
    at = 0
    while at < len(events):
        some = events[at : at + random.randrange(1, 4)]
        at += len(some)
        expected += reference.feed(some)
        found += engine.feed(some)
        if random.random() < 0.3:
            watermark = max(each.hi for each in events[:at]) - random.randrange(3)
            expected += reference.advance(watermark)
            found += engine.advance(watermark)
        if random.random() < 0.4:
            restored = StepwiseEngine([pattern])
            restore(restored, snapshot(engine.stepwise()))
            engine = ColumnarEngine([pattern])
            engine.go_on_from(restored)
    expected += reference.finish()
    found += engine.finish()
    assert sorted(map(_exact, found)) == sorted(map(_exact, expected)), _told("changes", seed, types, pattern, events)
    return True


def _exact(event: CompositeEvent) -> str:
    return repr((event.lo, event.hi, event.constituents, sorted(event.attributes.items())))


def _told(name: str, seed: int, types: tuple[DerivedType, ...], pattern: Compiled, events: list[Event]) -> str:
    text = format_file(PatternFile(types, (), ())) + format_publication(pattern.publication)
    return f"{name}, seed {seed}:\n{text}\n{events}"
