"""Random files in which all that a pattern may have stands together, held to the oracle in every way of detection.

Elsewhere each addition has a generator of its own: `random_patterns` for what one publication says and for clocks and
private publications, `derived_types` for computed attributes, windows and throttled types, `states` for states. Here
one seed draws from all of them: a private publication may read a clock beside a state of a type with an aggregate over
a window, in a `once` pattern that consumes what it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

from distced.detectors.columnar.engine import ColumnarEngine
from distced.detectors.compiler import Compiled, register_derived
from distced.detectors.conformance.case_runner import ENGINES, Run
from distced.detectors.cutting.cut import cut
from distced.detectors.language.parser import parse_file
from distced.detectors.language.private import read_by
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.detectors.stepwise.snapshot import restore, snapshot
from distced.middleware.model.clock_rules import every_clock
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.patterns.naming import rebuild
from distced.middleware.patterns.printer import format_file, format_publication
from distced.middleware.patterns.tree import DerivedType, Keyed, Output, Pattern, PatternFile, Publication, Window
from distced.middleware.sets.aggregates import slides
from distced.middleware.sets.expressions import Expression, Field, Literal
from distced.policies.local_runner import LocalRunner, spread
from tests.support import derived_types, states
from tests.support.comparison import Composite, composites
from tests.support.oracle import TooLongError
from tests.support.random_cuts import RestlessRunner, chosen
from tests.support.random_patterns import TYPES, WITH_AGGREGATES, PatternMaker, behind, make_events
from tests.support.shrinking import shrink

WHOLE = frozenset({"once", "settled", "take", "quiet"})
"""What a pattern that is cut does not say of itself; private publications are cut out whatever they say."""

STEPS = 60_000
"""How far the oracle goes; what takes it longer is left out."""


class RandomFile(NamedTuple):
    """Patterns with their derived types; the last pattern is compared, those before it are read by it."""

    types: tuple[DerivedType, ...]
    publications: tuple[Publication, ...]
    epochs: bool

    @property
    def text(self) -> str:
        """The file as text, for messages."""
        return format_file(PatternFile(self.types, (), ())) + "\n".join(map(format_publication, self.publications))


class World(NamedTuple):
    """Types that patterns may read.

    Attributes:
        states: the states among the derived types.
        bases: names of types with events: primitive, derived, published.
    """

    types: tuple[DerivedType, ...]
    states: tuple[DerivedType, ...]
    bases: tuple[str, ...]


def random_world(random: Random, published: tuple[str, ...] = (), *, cuttable: bool = False) -> World:
    """Derived types, throttled, computed and over windows, and states; none of either, too.

    Args: cuttable: leave out what keeps the patterns that read it whole.
    """
    bases = (*TYPES, *published)
    derived: tuple[DerivedType, ...] = ()
    if random.random() < 0.6:
        derived = tuple(map(_renamed, derived_types.random_types(random)))
    if cuttable:
        derived = () if any(slides(value) for each in derived for _, value in each.computed) else derived
    bases += tuple(each.name for each in derived)
    if cuttable or random.random() < 0.5:
        return World(derived, (), bases)
    kept, further = states.random_types(random, bases)
    return World((*derived, *kept, *further), kept, (*bases, *(each.name for each in further)))


def _renamed(derived: DerivedType) -> DerivedType:
    """`E0` for `D0`, the name that derived types beside states have."""
    base = derived.base if derived.base in TYPES else f"E{derived.base[1:]}"
    return replace(derived, name=f"E{derived.name[1:]}", base=base)


def random_features(random: Random) -> tuple[frozenset[str], frozenset[str]]:
    """What may occur, and what is said of the pattern as a whole."""
    features = WITH_AGGREGATES
    if random.random() < 0.6:
        # With fewer at a time more is found.
        features = frozenset(each for each in sorted(features) if random.random() < 0.6) | {"output", "guard"}
    always = frozenset(each for each in ("once", "settled", "take", "quiet") if random.random() < 0.15)
    return features, always


def random_publication(
    random: Random, world: World, size: int, *, private: bool = True, cuttable: bool = False
) -> Publication:
    """A pattern over these types, perhaps with clocks, and with private publications that it and they read."""
    features, always = random_features(random)
    if cuttable:
        features, always = features - WHOLE, always - WHOLE
    clocks: tuple[str, ...] = ()
    if not cuttable and random.random() < 0.4:
        clocks = tuple(every_clock(each) for each in random.sample((1, 2, 3, 4, 7), random.choice((1, 1, 2))))
    privates: list[Publication] = []
    read: tuple[str, ...] = ()
    for name in ("P", "Q") if private and random.random() < 0.5 else ():
        made, shown = _made(random, world, random.randrange(1, max(2, size)), features, always, (*read, *clocks))
        output = made.output or Output(name)
        output = replace(output, type_name=name, attributes=(*output.attributes, *shown))
        privates.append(replace(made, output=output, consumption=random.choice(("", "", "", "epoch", "ordered"))))
        # Read often, so that few are left out.
        read = (*read, name, name)
    made, _ = _made(random, world, size, features, always, (*read, *clocks))
    return replace(made, privates=read_by(made.pattern, privates))


def _made(
    random: Random,
    world: World,
    size: int,
    features: frozenset[str],
    always: frozenset[str],
    further: tuple[str, ...],
) -> tuple[Publication, tuple[tuple[str, Expression], ...]]:
    """A pattern, and attributes for its readers."""
    said = frozenset(each for each in sorted(always) if random.random() < 0.7)
    published = () if world.types else world.bases[len(TYPES) :]
    maker = PatternMaker(random, features, always=said, types=(*TYPES, *published, *further))
    made = maker.publication(random.randrange(1, size + 1))
    if random.random() < 0.15:
        made = replace(made, pattern=_by_two(made.pattern))
    if any(each.startswith("%") for each in further) and random.random() < 0.7:
        made = behind(random, made, TYPES)
    if world.states:
        made = states.over(random, made, world.states, world.bases)
    elif world.types:
        made = derived_types.over(random, made, world.types)
    value: Expression = Field(random.choice(maker.variables), "v") if maker.variables else Literal(1)
    shown = (("v", value), ("k", Literal(random.choice((0, 1, 1, None)))))
    return made, tuple(each for each in shown if random.random() < 0.95)


def _by_two(pattern: Pattern) -> Pattern:
    """The pattern with keys of two attributes in place of those of one."""
    if isinstance(pattern, Keyed):
        pattern = replace(pattern, attributes=("k", "v"))
    made: Pattern = rebuild(pattern, _by_two)
    return made


def random_file(random: Random, size: int = 5, *, cuttable: bool = False) -> RandomFile:
    """A file; it may be one that is refused."""
    pair: list[Publication] = []
    if random.random() < 0.3:
        made = random_publication(random, World((), (), TYPES), 2, private=random.random() < 0.3)
        output = replace(
            made.output or Output(states.PAIR),
            type_name=states.PAIR,
            attributes=(("k", Literal(1)), ("v", Literal(random.randrange(3)))),
            condition=None,
            take=(),
            quiet=None,
        )
        pair = [replace(made, output=output)]
    world = random_world(random, (states.PAIR, states.PAIR) if pair else (), cuttable=cuttable)
    publication = random_publication(random, world, size, cuttable=cuttable)
    return RandomFile(world.types, (*pair, publication), random.random() < (0.03 if cuttable else 0.2))


def registry_of(types: Sequence[DerivedType]) -> TypeRegistry:
    """The types, read from their text."""
    registry = TypeRegistry(open=True)
    register_derived(parse_file(format_file(PatternFile(tuple(types), (), ()))), registry)
    return registry


def compiled_with_oracle(made: RandomFile, events: Sequence[Event]) -> tuple[list[Compiled], list[Composite]] | None:
    """The patterns, and what the oracle finds of the last; None where they are refused or it takes too long."""
    try:
        patterns = states.compiled_file(made.publications, made.types, epochs=made.epochs)
        registry = registry_of(made.types)
        found = states.by_oracle(made.publications, patterns, events, registry, epochs=made.epochs, steps=STEPS)
    except (PatternError, TooLongError):
        return None
    expected = [Composite(each.constituents, repr(sorted(each.attributes)), each.lo, each.hi) for each in found]
    return patterns, _comparable(expected)


def in_pieces(seed: int) -> Run:
    """A run whose state moves between engines of both kinds amid instants, as time passes."""

    def run(patterns: Sequence[Compiled], events: Sequence[Event], kinds: object) -> list[CompositeEvent]:
        random = Random(seed)
        found: list[CompositeEvent] = []
        stepwise = StepwiseEngine(patterns)
        rest = list(events)
        while rest:
            size = random.randrange(1, 4)
            piece, rest = rest[:size], rest[size:]
            if random.random() < 0.5:
                found += stepwise.feed(piece)
            else:
                columnar = ColumnarEngine(patterns)
                columnar.go_on_from(stepwise)
                found += columnar.feed(piece)
                stepwise = columnar.stepwise()
            if rest and random.random() < 0.4:
                found += stepwise.advance(min(rest[0].hi - 1, piece[-1].hi + random.randrange(3)))
            if random.random() < 0.7:
                content = snapshot(stepwise)
                stepwise = StepwiseEngine(patterns)
                restore(stepwise, content)
        return found + stepwise.finish()

    return run


class Compared(NamedTuple):
    """What a way of detection has shown: the difference to the oracle, empty without one, and how much there was."""

    difference: str
    found: int


def on_engines(made: RandomFile, events: Sequence[Event], seed: int) -> Compared | None:
    """Hold the engines to the oracle; None where the file is not compared."""
    both = compiled_with_oracle(made, events)
    if both is None:
        return None
    patterns, expected = both
    for name, run in {**ENGINES, "in pieces": in_pieces(seed)}.items():
        every = run(patterns, events, lambda _: None)
        given = _comparable(composites(each for each in every if each.source == patterns[-1].canonical_id))
        if given != expected:
            return Compared(f"{name}: {_difference(given, expected)}", len(expected))
    return Compared("", len(expected))


def cut_up(made: RandomFile, events: Sequence[Event], seed: int) -> Compared | None:
    """Hold a cut to the oracle; None where nothing is cut, too."""
    try:
        patterns = states.compiled_file(made.publications, made.types, epochs=made.epochs)
    except PatternError:
        return None
    graph = cut(patterns, chosen(seed))
    if len(graph.plans) == len(patterns):
        return None
    both = compiled_with_oracle(made, events)
    if both is None:
        return None
    expected = both[1]
    random = Random(seed)
    kind = RestlessRunner if random.random() < 0.3 else LocalRunner
    runner = kind(graph, random, over_wire=random.random() < 0.5)
    runner.run(spread(events, random))
    given = _comparable(composites(runner.composites(patterns[-1].canonical_id)))
    return Compared(f"cut: {_difference(given, expected)}" if given != expected else "", len(expected))


def _comparable(found: Sequence[Composite]) -> list[Composite]:
    """What is found, where 0 and 0.0 are one value of a key: the oracle does not know of which event it is shown."""
    return sorted(
        each._replace(attributes=re.sub(r"\('key', -?(\d+)\.0\)", r"('key', \1)", each.attributes)) for each in found
    )


def _difference(given: Sequence[Composite], expected: Sequence[Composite]) -> str:
    missing = [each for each in expected if each not in given]
    return f"missing {missing}, unexpected {[each for each in given if each not in expected]}"


Way = Callable[[RandomFile, Sequence[Event], int], Compared | None]


def assert_file(seed: int, way: Way = on_engines, size: int = 5) -> bool | None:
    """Hold a way of detection to the oracle on a random file.

    Returns: whether anything was found; None where the file is refused, takes too long, or is not cut.

    Raises `AssertionError`, with the difference made small.
    """
    random = Random(seed)
    made = random_file(random, size, cuttable=way is cut_up and random.random() < 0.8)
    events = make_events(random, random.randrange(1, 11), span=random.choice((3, 6, 10)))
    compared = way(made, events, seed)
    if compared is None:
        return None
    if compared.difference:
        raise AssertionError(f"seed {seed}: {_small(made, events, seed, way) or compared.difference}")
    return bool(compared.found)


def _small(made: RandomFile, events: Sequence[Event], seed: int, way: Way) -> str:
    *before, last = made.publications

    def fails(publication: Publication, fewer: Sequence[Event]) -> bool:
        compared = way(made._replace(publications=(*before, publication)), fewer, seed)
        return compared is not None and bool(compared.difference)

    last, events = shrink(last, events, fails, tries=1_500)
    made = made._replace(publications=(*before, last))
    compared = way(made, events, seed)
    return f"{compared.difference if compared else ''}\n{made.text}\nepochs: {made.epochs}\n{events}"


def replayable(random: Random) -> list[Compiled]:
    """Patterns of a file, often within windows and by a key, so that they are replayed in every way."""
    while True:
        made = random_file(random, 4)
        keyed, length = random.random() < 0.5, random.choice((0, 2, 5, 8))
        *before, last = (_bounded(each, length, keyed=keyed) for each in made.publications)
        privates = tuple(_bounded(each, length, keyed=keyed, private=True) for each in last.privates)
        last = replace(last, privates=privates)
        try:
            patterns = states.compiled_file([*before, last], made.types, epochs=made.epochs)
            for each in patterns:
                each.automaton  # noqa: B018
        except PatternError:
            continue
        return patterns


def _bounded(publication: Publication, length: int, *, keyed: bool, private: bool = False) -> Publication:
    pattern = Window(publication.pattern, length) if length else publication.pattern
    if not keyed or isinstance(pattern, Keyed):
        return replace(publication, pattern=pattern)
    output = publication.output or Output("Out")
    variables = [value for _, value in output.attributes if isinstance(value, Field)]
    if private and variables:
        named = tuple(each for each in output.attributes if each[0] != "k")
        output = replace(output, attributes=(*named, ("k", Field(variables[0].variable, "k"))))
    return replace(publication, pattern=Keyed(pattern, ("k",)), output=output)


def entries_of(world: World, kinds: Sequence[EventType]) -> list[EventType]:
    """Entries of derived types for a directory that has these event types."""
    registry = TypeRegistry(kinds)
    register_derived(parse_file(format_file(PatternFile(world.types, (), ()))), registry)
    # Each behind those that it builds on.
    names = {each.name for each in world.types}
    return [each for each in registry if each.name in names]
