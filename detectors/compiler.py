"""From pattern text to what engines run: parse, inline, check, write derived types out, build the automaton."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import dedent
from typing import Literal, TypeAlias

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton
from distced.detectors.automata.builder import build
from distced.detectors.automata.properties import can_match
from distced.detectors.language.check import check
from distced.detectors.language.depth import check_depth, check_output_depth
from distced.detectors.language.derived import Thinning, without_derived
from distced.detectors.language.inlining import inline, inline_file
from distced.detectors.language.names import sets_of
from distced.detectors.language.parser import parse_file, parse_pattern, parse_publication
from distced.detectors.language.scanner import error_at
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry, derive
from distced.middleware.patterns.printer import format_pattern, format_publication
from distced.middleware.patterns.tree import Atom, DerivedType, Pattern, PatternFile, Publication, Timing, walk
from distced.middleware.sets.describable import Filtered, TypeSet, walk_set
from distced.middleware.sets.expressions import FALSE, format_expression

Consumption: TypeAlias = Literal["ordered", "epoch"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A pattern ready to be run.

    Attributes:
        publication: the tree, definitions inlined, as it was written.
        automaton: what engines run.
        thinnings: what has to be run before it.
        publishes: the type of its composite events, with the kinds of their attributes where these are known.
        plain: the tree over published types alone, derived ones written out.
    """

    publication: Publication
    automaton: Automaton
    thinnings: tuple[Thinning, ...]
    publishes: EventType
    plain: Publication

    def reads(self, registry: TypeRegistry) -> frozenset[str] | None:
        """The published types it looks at, those behind derived ones; None where it looks at `any`."""
        names = self.automaton.type_names()
        return None if names is None else frozenset(registry.root(name) for name in names)

    def names(self) -> frozenset[str]:
        """The published types it names. `any` is every primitive event, and those composite ones that the pattern names
        anywhere, in delegated parts, too."""
        names = _names(self.automaton)
        return names | _read_types(self.plain.pattern) if _reads_any(self.automaton) else names

    @property
    def text(self) -> str:
        """The pattern as the printer writes it."""
        return format_publication(self.publication)


def compile_pattern(
    text: str,
    registry: TypeRegistry | None = None,
    *,
    definitions: Mapping[str, str] | None = None,
    consumption: Consumption = "ordered",
) -> Compiled:
    """A single pattern, checked against the registry; without one every type and attribute is taken as known."""
    named: dict[str, Pattern] = {}
    texts = dict(definitions or {})
    for name, definition in texts.items():
        named[name] = parse_pattern(definition, texts)
    publication = parse_publication(text, texts)
    inlined = Publication(inline(publication.pattern, named, text=text), publication.output)
    return compile_publication(inlined, registry, consumption=consumption, text="" if texts else text)


def compile_file(
    text: str, registry: TypeRegistry | None = None, *, consumption: Consumption = "ordered"
) -> tuple[Compiled, ...]:
    """The publications of a pattern file; one may read what another publishes."""
    # Indentation common to all lines says nothing; taken away here, places in errors are right.
    text = dedent(text)
    file = parse_file(text)
    known = TypeRegistry(registry or (), open=registry is None or registry.open)
    register_derived(file, known, text=text)
    compiled: dict[int, Compiled] = {}
    for place, publication in _readers_last(inline_file(file, text=text)):
        compiled[place] = compile_publication(publication, known, consumption=consumption, text=text)
        if publication.output is not None:
            known.register(compiled[place].publishes)
    return tuple(compiled[place] for place in sorted(compiled))


def compile_publication(
    publication: Publication,
    registry: TypeRegistry | None = None,
    *,
    consumption: Consumption = "ordered",
    text: str = "",
) -> Compiled:
    """A pattern whose definitions are inlined."""
    known = TypeRegistry(open=True) if registry is None else registry
    check_depth(publication.pattern, text=text)
    check_output_depth(publication.output, text=text)
    publishes = check(publication, known, text=text)
    plain, thinnings = without_derived(publication.pattern, known)
    whole = Publication(plain, publication.output)
    automaton = build(whole, epochs=consumption == "epoch")
    if not can_match(automaton):
        raise error_at(
            text,
            publication.pattern.span,
            "a pattern that can never match: no event is in a label and in its domain on every way through",
            given=format_pattern(publication.pattern),
        )
    return Compiled(publication, automaton, thinnings, publishes, whole)


def types_read(patterns: Iterable[Compiled]) -> frozenset[str] | None:
    """The published types whose events patterns look at; None where one of them looks at every event."""
    found: set[str] = set()
    for each in patterns:
        names = each.automaton.type_names()
        if names is None:
            return None
        found |= names
    return frozenset(found)


def register_derived(file: PatternFile, registry: TypeRegistry, *, text: str = "") -> None:
    """Make the derived types of a file known, their conditions checked."""
    for each in file.types:
        registry.register(_event_type(each, registry))
        if each.condition is not None:
            filtered = Atom(Filtered(TypeSet(each.base, each.span), each.condition, each.span))
            check(Publication(filtered), registry, text=text)


def _event_type(derived: DerivedType, registry: TypeRegistry) -> EventType:
    if registry.open and derived.base not in registry:
        registry.register(EventType(derived.base, {}))
    where = format_expression(derived.condition) if derived.condition is not None else ""
    return derive(registry.get(derived.base), derived.name, where=where, every=derived.every, by=derived.by)


def _readers_last(publications: tuple[Publication, ...]) -> list[tuple[int, Publication]]:
    """Publications with their places, each after those whose composite events it reads."""
    ordered: list[tuple[int, Publication]] = []
    waiting = list(enumerate(publications))
    while waiting:
        unpublished = {each.output.type_name for _, each in waiting if each.output is not None}
        ready = [(place, each) for place, each in waiting if not unpublished & _read_types(each.pattern)]
        if not ready:
            circle = ", ".join(sorted(unpublished))
            raise PatternError("patterns that read each other's composite events in a circle", given=circle)
        ordered += ready
        waiting = [pair for pair in waiting if pair not in ready]
    return ordered


def _names(automaton: Automaton) -> frozenset[str]:
    named = {name for position in automaton.positions for name in position.domain.by_type}
    inside = (_names(part) for part in automaton.inner)
    return frozenset(name for name in named if name[0] not in (TIMER_PREFIX, PART_PREFIX)).union(*inside)


def _reads_any(automaton: Automaton) -> bool:
    """Whether it looks at types that it does not name."""
    return any(position.domain.others != FALSE for position in automaton.positions) or any(
        map(_reads_any, automaton.inner)
    )


def _read_types(pattern: Pattern) -> set[str]:
    sets = [described for node in walk(pattern) for described in sets_of(node)]
    timers = {node.timer for node in walk(pattern) if isinstance(node, Timing)}
    return {each.name for described in sets for each in walk_set(described) if isinstance(each, TypeSet)} - timers
