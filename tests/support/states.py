"""Random patterns that read states, on both engines, cut, and moved amid, against the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.compiler import Compiled, compile_publication, register_derived, register_published
from distced.detectors.conformance.case_runner import ENGINES
from distced.detectors.language.parser import parse_file
from distced.detectors.language.states import readers_in
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry, derive, event_type
from distced.middleware.model.events import COMPOSITE, CompositeEvent, Event, composite_digest
from distced.middleware.patterns.naming import replace_sets
from distced.middleware.patterns.printer import format_file, format_publication
from distced.middleware.patterns.tree import Atom, DerivedType, Output, PatternFile, Publication, Timing, walk
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
)
from distced.middleware.sets.expressions import Binary, Call, Expression, Field, Literal, Moment, Name
from distced.middleware.sets.state_reads import ALL, COUNT, CURRENT, LAST
from distced.policies.local_runner import cut_run
from tests.support.comparison import composites, seen
from tests.support.oracle import Found, Seen, TooLongError, read
from tests.support.random_patterns import TYPES, PatternMaker, make_events

PAIR = "Pair"
"""Type of composite events that a pattern may read."""

States = tuple[DerivedType, ...]


def random_types(random: Random, bases: Sequence[str]) -> tuple[States, States]:
    """States of some types, and types derived with them, of which there may be further states."""
    states: list[DerivedType] = []
    derived: list[DerivedType] = []
    for number in range(random.randrange(1, 4)):
        base = random.choice((*bases, *(each.name for each in derived)))
        condition = Binary("!=", Name("v"), Literal(2)) if random.random() < 0.3 else None
        by = tuple(random.sample(("k", "v"), random.choice((0, 1, 1, 1, 2))))
        states.append(DerivedType(f"S{number}", base, condition, by=by, last=True))
        if random.random() < 0.6:
            base = random.choice((*bases, *(each.name for each in derived)))
            condition = Binary("<=", Name("v"), _read(random, states)) if random.random() < 0.3 else None
            computed = (("v", _read(random, states)),) if condition is None or random.random() < 0.5 else ()
            every = random.choice((2, 3)) if random.random() < 0.2 else 0
            quiet = every if random.random() < 0.5 else 0
            derived.append(DerivedType(f"D{number}", base, condition, every - quiet, (), computed, quiet))
    return tuple(states), tuple(derived)


def _read(random: Random, states: Sequence[DerivedType]) -> Expression:
    """A read of a state, or a calculation with one."""
    state = random.choice(states)
    value: Expression = random.choice((
        Field(state.name, "v"), Field(state.name, "v"), Field(state.name, "k"), Moment("hi", state.name),
        Binary("+", Field(state.name, "v"), Field(state.name, "k")),
    ))  # fmt: skip
    at = []
    for name in state.by:
        choice = random.random()
        at.append(Name(name) if choice < 0.7 else Literal(1) if choice < 0.8 else Binary("-", Literal(1), Name("v")))
    function = random.choice((LAST, CURRENT))
    # Drawn apart, so that seeds make the patterns that they made before.
    apart = Random(f"group {state} {value} {at}")
    if state.by and apart.random() < 0.4:
        truth: Expression = Binary(apart.choice(("<", "==", "!=")), value, Literal(1))
        at = at[: apart.randrange(len(at))]
        whole = Call(ALL, (truth, *at)) if apart.random() < 0.5 else Call(COUNT, (value, *at))
        return whole if whole.function == COUNT else Call("if", (whole, Literal(1), Literal(0)))
    read = Call(function, (value, *at))
    return random.choice((read, read, Binary("-", read, Literal(1)), Call("coalesce", (read, Literal(1)))))


def over(random: Random, publication: Publication, states: States, types: Sequence[str]) -> Publication:
    """The pattern with other types in place of some, and with guards and updates that read states."""
    share = random.choice((0.3, 0.7))
    timers = {node.timer for node in walk(publication.pattern) if isinstance(node, Timing)}

    def may_read(described: DescribableSet) -> bool:
        leaves = list(readers_in(described))
        return bool(leaves) and all(isinstance(each, TypeSet) and each.name not in timers for each in leaves)

    def changed(described: DescribableSet) -> DescribableSet:
        match described:
            case TypeSet(name=name) if name in TYPES:
                made: DescribableSet = TypeSet(random.choice(types)) if random.random() < share else described
                return Filtered(made, condition()) if random.random() < share else made
            case Union(members=members):
                made = Union(tuple(map(changed, members)))
                return Filtered(made, condition()) if may_read(made) and random.random() < 0.2 else made
            case Filtered(base=base, condition=given):
                made = changed(base)
                return Filtered(made, Binary("or", given, condition()) if may_read(made) else given)
            case Intersection(left=left, right=right):
                return Intersection(changed(left), changed(right))
            case Difference(left=left, right=right):
                return Difference(changed(left), changed(right))
            case AnySet() | TypeSet():
                return described

    def condition() -> Expression:
        operator = random.choice(("<", "<=", "==", "!="))
        return Binary(operator, random.choice((Name("v"), Literal(1))), _read(random, states))

    pattern = replace_sets(publication.pattern, changed)
    updates = {
        name: Binary("+", value, _read(random, states))
        for node in walk(pattern)
        if isinstance(node, Atom) and may_read(node.label)
        for name, value in node.updates
        if random.random() < share
    }
    return replace(publication, pattern=_updated(pattern, updates, may_read))


def _updated(pattern: object, updates: dict[str, Expression], may_read: Callable[[DescribableSet], bool]) -> object:
    from distced.middleware.patterns.naming import rebuild

    if isinstance(pattern, Atom) and may_read(pattern.label):
        return replace(pattern, updates=tuple((name, updates.get(name, value)) for name, value in pattern.updates))
    return rebuild(pattern, lambda each: _updated(each, updates, may_read))


def random_file(
    seed: int, features: frozenset[str], *, epochs: bool = False
) -> tuple[list[Publication], States, list[Event]] | None:
    """A pattern, behind one whose composite events it may read, with derived types and events."""
    random = Random(seed)
    pair: list[Publication] = []
    bases: tuple[str, ...] = TYPES
    if random.random() < 0.4:
        maker = PatternMaker(random, features - {"output", "quiet", "take", "key", "aggregate"})
        before = maker.publication(random.randrange(1, 3))
        shown = dict.fromkeys(maker.variables)
        value: Expression = Field(next(iter(shown)), "v") if shown else Literal(1)
        pair = [replace(before, output=Output(PAIR, (("k", Literal(1)), ("v", value))))]
        bases = (*TYPES, PAIR, PAIR)
    states, derived = random_types(random, bases)
    publication = PatternMaker(random, features).publication(random.randrange(1, 5))
    publication = over(random, publication, states, (*bases, *(each.name for each in derived)))
    events = make_events(random, random.randrange(10), span=random.choice((3, 10)))
    return [*pair, publication], (*states, *derived), events


def compiled_file(publications: Sequence[Publication], types: States, *, epochs: bool) -> list[Compiled]:
    """The patterns, with the types that are derived from composite events."""
    registry = TypeRegistry(open=True)
    register_derived(parse_file(format_file(PatternFile(types, (), ()))), registry)
    made: list[Compiled] = []
    for each in publications:
        made.append(compile_publication(each, registry, consumption="epoch" if epochs else "ordered"))
        if len(publications) > 1 and PAIR not in registry:
            register_published(made[-1], registry)
    return made


def assert_states_alike(seed: int, features: frozenset[str], *, cut: bool = False, epochs: bool = False) -> bool:
    """Hold engines, or a cut, to the oracle on random patterns that read states; False where they are refused or take
    too long."""
    publications, types, events = random_file(seed, features, epochs=epochs)
    registry = TypeRegistry(open=True)
    register_derived(parse_file(format_file(PatternFile(types, (), ()))), registry)
    try:
        patterns = compiled_file(publications, types, epochs=epochs)
        found = by_oracle(publications, patterns, events, registry, epochs=epochs)
    except (PatternError, TooLongError):
        return False
    expected = sorted((each.constituents, repr(sorted(each.attributes)), each.lo, each.hi) for each in found)
    last = patterns[-1].canonical_id
    runs = {"cut": cut_run("random", seed)} if cut else {**ENGINES, "moved": _moved(seed)}
    for name, run in runs.items():
        every = [each for each in run(patterns, events, lambda _: None) if each.source == last]
        assert [tuple(each) for each in composites(every)] == expected, told(name, seed, types, publications, events)
    return bool(found)


def by_oracle(
    publications: Sequence[Publication],
    patterns: Sequence[Compiled],
    events: Sequence[Event],
    registry: TypeRegistry,
    *,
    epochs: bool,
    steps: int = 200_000,
) -> list[Found]:
    """What the oracle finds of the last pattern, the composite events of those before it among the events."""
    every: list[Seen] = [*map(seen, events)]
    *before, last = publications
    for publication, pattern in zip(before, patterns, strict=False):
        for found in read(publication, every, epochs=epochs, steps=steps, registry=registry):
            attributes = dict(found.attributes)
            seq = composite_digest(found.constituents, attributes)
            every.append(Seen(PAIR, found.lo, found.hi, COMPOSITE, pattern.canonical_id, seq, attributes))
    return read(last, every, epochs=epochs, steps=steps, registry=registry)


def _moved(seed: int) -> Callable[..., list[CompositeEvent]]:
    """A run in which the state moves between engines of both kinds, amid instants."""

    def run(patterns: Sequence[Compiled], events: Sequence[Event], kinds: object) -> list[CompositeEvent]:
        random = Random(seed)
        found: list[CompositeEvent] = []
        content = snapshot(StepwiseEngine(patterns))
        place = 0
        while place < len(events):
            end = min(place + random.randrange(1, 4), len(events))
            stepwise = StepwiseEngine(patterns)
            restore(stepwise, content)
            if random.random() < 0.5:
                found += stepwise.feed(events[place:end])
            else:
                columnar = ColumnarEngine(patterns)
                columnar.go_on_from(stepwise)
                found += columnar.feed(events[place:end])
                stepwise = columnar.stepwise()
            content = snapshot(stepwise)
            place = end
        last = StepwiseEngine(patterns)
        restore(last, content)
        return found + last.finish()

    return run


def told(name: str, seed: int, types: States, publications: Sequence[Publication], events: Sequence[Event]) -> str:
    """Text of a difference."""
    text = format_file(PatternFile(types, (), ())) + "\n".join(map(format_publication, publications))
    return f"{name}, seed {seed}:\n{text}\n{events}"


STATES: States = (
    DerivedType("Now", "A", by=("k",), last=True),
    DerivedType("Once", "B", Binary("!=", Name("v"), Literal(2)), by=("v", "k"), last=True),
    DerivedType("Any", "C", last=True),
)
"""States of the types of random patterns."""

STATE_TYPES = [
    derive(event_type(each.base, {"k": "number", "v": "number"}), each.name, where=where, by=each.by, last=True)
    for each, where in zip(STATES, ("", "v != 2", ""), strict=True)
]
"""Their entries."""


def reading_states(random: Random) -> Publication:
    """A random pattern that reads some of them."""
    made = PatternMaker(random).publication(random.randrange(1, 6))
    return over(random, made, STATES, TYPES)
