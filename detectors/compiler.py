"""Compilation of pattern text to automata.

Text is parsed, definitions are inlined, it is checked, and derived types are written out: a `Compiled` pattern. The
canonical form with the id, and the automaton, which takes far longer, are computed on demand, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from textwrap import dedent
from typing import Literal, TypeAlias, TypeVar

from msgspec.structs import replace as replace_type

from distced.detectors.automata.automaton import INSIDE, PART_PREFIX, Automaton
from distced.detectors.automata.builder import build
from distced.detectors.automata.reachability import can_match
from distced.detectors.automata.satisfiable import satisfiable
from distced.detectors.canonical.form import CanonicalForm, canonical_form
from distced.detectors.frontends.languages import IN_CORE, Written, place_of_query, translate
from distced.detectors.frontends.translation import Translation
from distced.detectors.language.aggregates import with_aggregates
from distced.detectors.language.check import check, check_computed, check_private_name, computed_kinds
from distced.detectors.language.computed import Computation, key_names
from distced.detectors.language.constants import Constant, constants_in
from distced.detectors.language.consulted_types import ConsultedTypes
from distced.detectors.language.depth import check_depth, check_output_depth
from distced.detectors.language.derived import Throttling, needed_throttlings, reach_of_loss, written_out
from distced.detectors.language.inlining import inline_file, inline_publication
from distced.detectors.language.key_output import with_key_registers
from distced.detectors.language.names import attributes_read
from distced.detectors.language.parser import (
    is_private,
    parse_constant,
    parse_expression,
    parse_file,
    parse_pattern,
    parse_private,
    parse_publication,
)
from distced.detectors.language.private import WithPrivates, marked, output_of, read_by, types_named, without_name
from distced.detectors.language.scanner import error_at, place_of
from distced.detectors.language.states import states_of, states_read, types_behind
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.errors import DistcedError, PatternError, TypeRegistryError
from distced.middleware.model.event_types import EventType, TypeRegistry, clock_type, derive
from distced.middleware.model.events import Attribute
from distced.middleware.model.published_types import PublishedType, known_type, publish
from distced.middleware.model.timestamps import INSTANT_MAX
from distced.middleware.patterns.printer import format_pattern, format_publication
from distced.middleware.patterns.statements import behind_bases
from distced.middleware.patterns.tree import Atom, Delegated, DerivedType, Output, Pattern, PatternFile, Publication
from distced.middleware.sets.describable import Filtered, TypeSet
from distced.middleware.sets.expressions import FALSE, format_expression

Consumption: TypeAlias = Literal["ordered", "epoch"]

_Stage = TypeVar("_Stage", Throttling, Computation)


@dataclass(frozen=True)
class Compiled:
    """A checked pattern; its canonical form and its automaton are computed on demand and cached.

    Attributes:
        publication: the tree, definitions inlined, as it was written.
        throttlings, computations: the stages before the automaton, and those of its private publications.
        publishes: the type of its composite events, with the known kinds of attributes.
        plain: the tree over published types alone, derived ones written out.
        cut: `plain` with sub-patterns delegated to detectors of their own; the automaton is built of it.
        epochs: whether events are consumed by epochs.
        exports: variables and registers that are read outside the pattern.
        source: the text it was read from, for errors; empty for a tree.
        known_form: its canonical form where known.
        privates: private publications that it reads itself, in the order of their marks.
        away: those of them that other detectors detect.
    """

    publication: Publication
    throttlings: tuple[Throttling, ...]
    publishes: EventType
    plain: Publication
    cut: Publication
    epochs: bool = False
    exports: frozenset[str] = frozenset()
    source: str = field(default="", compare=False, repr=False)
    computations: tuple[Computation, ...] = ()
    known_form: CanonicalForm | None = field(default=None, compare=False, repr=False)
    privates: tuple[Compiled, ...] = ()
    away: tuple[Delegated, ...] = ()

    @cached_property
    def form(self) -> CanonicalForm:
        """The canonical form."""
        return self.known_form or canonical_form(self.plain, exports=self.exports, epochs=self.epochs)

    @property
    def published(self) -> PublishedType:
        """The type of its composite events, with the attributes of an unknown kind."""
        output, known = self.publication.output, self.publishes.attributes
        names = () if output is None else (name for name, _ in output.attributes)
        return PublishedType(self.publishes.name, known, frozenset(names) - known.keys())

    @property
    def canonical_id(self) -> str:
        """The id of the canonical form; the source of its composite events."""
        return self.form.id

    @cached_property
    def automaton(self) -> Automaton:
        """The automaton that engines run. Raises `PatternError` for a pattern that is too large or can never match."""
        parts: dict[str, Automaton | Delegated] = {each.mark: each.automaton for each in self.inside}
        parts |= {PART_PREFIX + each.source: each for each in self.away}
        beside = self.types_beside
        automaton = build(
            self.cut, self.canonical_id, epochs=self.epochs, exports=self.exports, privates=parts, beside=beside
        )
        if automaton.clocks and automaton.begins_by_clock:
            raise error_at(
                self.source,
                self.publication.pattern.span,
                "a match that begins with a clock",
                given=format_pattern(self.publication.pattern),
                allowed="clocks behind an event",
                advice="let it begin with an event; once [A] ([A]* [Hour])+ goes on from the first, hour after hour",
            )
        # What was cut out of a canonical form was part of a pattern that can match.
        if self.known_form is None and not can_match(automaton, in_full=False):
            raise self._never("no event is in a label and in its domain on every way through")
        return automaton

    @property
    def own_stages(self) -> tuple[Throttling, ...]:
        """The stages before its automaton, those of its private publications left out."""
        if not self.throttlings:
            return ()
        return needed_throttlings(self.throttlings, attributes_read(self.plain.pattern, self.plain.output))

    @property
    def types_beside(self) -> frozenset[str]:
        """The published types of the states that it reads."""
        return frozenset(each.type_name for each in self.own_stages if each.state is not None)

    @property
    def mark(self) -> str:
        """The type of its composite events in those that read it as a private publication."""
        return PART_PREFIX + self.canonical_id

    @property
    def inside(self) -> tuple[Compiled, ...]:
        """Private publications that are detected with the pattern."""
        away = {PART_PREFIX + each.source for each in self.away}
        return tuple(each for each in self.privates if each.mark not in away)

    def check_possible(self) -> None:
        """Raise `PatternError` for a pattern that no events can match, as a search of its automaton shows."""
        for each in self.privates:
            each.check_possible()
        output = self.form.publication.output
        if output is not None and output.condition is not None and not satisfiable(output.condition):
            raise self._never("no values pass the final filter")
        if not can_match(self.automaton):
            raise self._never("no way through has an event for each label, in time")

    def _never(self, reason: str) -> PatternError:
        span, given = self.publication.pattern.span, format_pattern(self.publication.pattern)
        return error_at(self.source, span, f"a pattern that can never match: {reason}", given=given)

    @property
    def once(self) -> bool:
        """Whether one instance for each key stands in the start, instead of a start that is always active."""
        return self.plain.once

    @property
    def settled(self) -> bool:
        """Whether composite events are emitted at the end of an instant, for what then stands."""
        return self.plain.settled

    @property
    def selects(self) -> bool:
        """Whether its matches depend on others (`take`, `consuming`)."""
        return self.plain.output is not None and self.plain.output.selects

    @property
    def quiet(self) -> bool:
        """Whether a composite event depends on those emitted before (`at most`)."""
        return self.plain.output is not None and self.plain.output.quiet is not None

    @property
    def endless(self) -> bool:
        """Whether each event may make a difference for all that is detected later."""
        own = self.once or self.quiet or (self.plain.output is not None and bool(self.plain.output.consuming))
        return own or any(each.endless for each in self.privates)

    def reach_of_loss(self, until: int) -> int:
        """Instant up to which lost events up to `until` make a difference, ns."""
        return INSTANT_MAX if self.endless else reach_of_loss(self.throttlings, until)

    @property
    def indivisible(self) -> bool:
        """Whether it is detected whole: never cut, and no part of another pattern."""
        beside = any(each.sliding is not None or each.state is not None for each in self.throttlings)
        return self.epochs or self.once or self.settled or self.selects or beside or self.clocked

    @cached_property
    def clocked(self) -> bool:
        """Whether it reads clocks, in a private publication, too."""
        named = any(map(is_clock, types_named(self.plain.pattern)))
        return named or any(each.clocked for each in self.privates)

    @property
    def is_no_part(self) -> bool:
        """Whether others read its composite events only, without derivations: it may be cut, but is no part."""
        return self.indivisible or self.quiet

    @property
    def structure(self) -> Automaton:
        """The automaton, or that of the pattern's shape: equal but for constants and the id."""
        return self.automaton

    @property
    def constants(self) -> tuple[Attribute, ...]:
        """The constants of the pattern, in the order of the parameters of its structure."""
        return self.automaton.constants

    def reads(self, registry: TypeRegistry) -> frozenset[str] | None:
        """The published types read, those behind derived ones; None where the pattern reads `any`."""
        names = self.automaton.type_names()
        return None if names is None else frozenset(registry.root(name) for name in names)

    def named(self) -> frozenset[str]:
        """The published types in the pattern's text, without building the automaton: at least `names`."""
        return self._named_here.union(*(each.named() for each in self.privates))

    @property
    def _named_here(self) -> frozenset[str]:
        named = frozenset(each for each in types_named(self.plain.pattern) if each[0] not in INSIDE)
        return named | self.types_beside

    def names(self) -> frozenset[str]:
        """The published types named, in domains that let them in. `any` covers every primitive event, and the composite
        ones that the pattern names anywhere, in delegated parts, too.
        """
        return self.own_names().union(*(each.names() for each in self.inside))

    def own_names(self) -> frozenset[str]:
        """`names` without those of its private publications."""
        names = _names(self.automaton) | self.automaton.beside
        return names | self._named_here if self.reads_any else names

    @property
    def reads_any(self) -> bool:
        """Whether the pattern reads types it does not name, other than by its private publications."""
        return _reads_any(self.automaton)

    @property
    def text(self) -> str:
        """The pattern in the printer's form."""
        return format_publication(self.publication)

    @property
    def plain_text(self) -> str:
        """The tree over published types as text, which reads back as a pattern of this id."""
        return format_publication(replace(self.plain, consumption="epoch") if self.epochs else self.plain)

    @property
    def publish_json(self) -> str:
        """Topic on which its composite events leave as JSON, as it was written; empty for none."""
        return self.publication.publish_json

    def without_json(self) -> Compiled:
        """The same pattern without that topic, which is a subscription's and not a detector's."""
        return self.written_as(replace(self.publication, publish_json="")) if self.publish_json else self

    def written_as(self, publication: Publication) -> Compiled:
        """The same pattern in another spelling, with the form and the automaton computed so far."""
        other = copy(self)
        object.__setattr__(other, "publication", publication)
        return other


def check_pattern(
    text: str,
    registry: TypeRegistry | None = None,
    *,
    definitions: Mapping[str, str] | None = None,
    consumption: Consumption = "ordered",
    written: Written = IN_CORE,
) -> Compiled:
    """A single pattern, checked against the registry (without one every type and attribute is accepted), its automaton
    not built. Of a text in another language it is the query that `written` names."""
    if written.language:
        return check_text(text, written.language, registry, consumption=consumption).query(written.query)
    return _checked(read_pattern(text, definitions), registry, consumption, "" if definitions else text)


def read_pattern(text: str, definitions: Mapping[str, str] | None = None) -> Publication:
    """A single pattern with inlined definitions and constants, unchecked. Definitions may be private publications."""
    named: dict[str, Pattern] = {}
    privates: list[tuple[Publication, str]] = []
    texts = dict(definitions or {})
    constants: dict[str, Constant] = {}
    try:
        for name in constants_in(texts):
            constants[name] = parse_constant(texts.pop(name), name)
        apart = [name for name, each in texts.items() if is_private(each, texts)]
        for name in apart:
            definition = texts.pop(name)
            private = parse_private(definition, texts, constants)
            privates.append((private, definition))
            if name != (given := output_of(private).type_name):
                problem = "a private publication defined under another name"
                raise error_at(definition, output_of(private).span, problem, given=given, allowed=name)
        for name, definition in texts.items():
            named[name] = parse_pattern(definition, texts, constants)
    except PatternError as error:
        error.where = f"definition {name}, {error.where}" if error.where else f"definition {name}"
        raise
    publication = parse_publication(text, texts, constants)
    return inline_publication(publication, named, privates, text=text)


def compile_pattern(
    text: str,
    registry: TypeRegistry | None = None,
    *,
    definitions: Mapping[str, str] | None = None,
    consumption: Consumption = "ordered",
) -> Compiled:
    """A checked pattern with its automaton built."""
    return _built(check_pattern(text, registry, definitions=definitions, consumption=consumption))


def compile_file(
    text: str, registry: TypeRegistry | None = None, *, consumption: Consumption = "ordered"
) -> tuple[Compiled, ...]:
    """The publications of a pattern file; one may read what another publishes."""
    return compile_statements(text, registry, consumption=consumption)[0]


def compile_statements(
    text: str, registry: TypeRegistry | None = None, *, consumption: Consumption = "ordered"
) -> tuple[tuple[Compiled, ...], TypeRegistry]:
    """The publications of a pattern file, and the types with those that it derives and publishes."""
    # Indentation common to all lines says nothing; taken away here, places in errors are right.
    text = dedent(text)
    known = TypeRegistry(registry or (), open=registry is None or registry.open)
    return _built_statements(parse_file(text), known, consumption, text), known


@dataclass(frozen=True, slots=True)
class CheckedText:
    """Text in another language, translated and checked.

    Attributes:
        translation: None where it cannot be translated.
        compiled: its queries by their places, their automata not built.
        published: types of its composite events.
        error: of a faulty text.
    """

    translation: Translation | None
    compiled: Mapping[int, Compiled]
    published: Mapping[str, PublishedType]
    error: DistcedError | None = None

    def query(self, name: str = "") -> Compiled:
        """One query. Raises `DistcedError` for a faulty text, and where it has several queries and none is named, or
        none of that name."""
        place = 0 if self.translation is None else place_of_query(self.translation, name)
        if self.error is not None:
            # Raised again and again, it would have the stacks of all callers.
            raise self.error.with_traceback(None)
        return self.compiled[place]


def check_text(
    text: str, language: str, registry: TypeRegistry | None = None, *, consumption: Consumption = "ordered"
) -> CheckedText:
    """A text in another language, faulty or not, with all of its queries."""
    known = ConsultedTypes(TypeRegistry(open=True) if registry is None else registry)
    translation: Translation | None = None
    try:
        translation = translate(text, language, known)
        compiled = dict(_checked_statements(translation.file, known, consumption, text))
        types = (known_type(known, each.publishes.name) for each in compiled.values() if each.publishes.name)
        return CheckedText(translation, compiled, {each.name: each for each in types if each is not None})
    except DistcedError as error:
        return CheckedText(translation, {}, {}, error.with_traceback(None))
    finally:
        # What was looked up in the copy was looked up in the registry.
        if registry is not None:
            for name in known.consulted:
                registry.find(name)


def compile_translation(
    translation: Translation, registry: TypeRegistry | None = None, *, consumption: Consumption = "ordered"
) -> tuple[tuple[Compiled, ...], TypeRegistry]:
    """The publications of a text in another language, and the types with those that it derives and publishes."""
    known = TypeRegistry(registry or (), open=registry is None or registry.open)
    return _built_statements(translation.file, known, consumption, translation.source), known


def _built_statements(
    file: PatternFile, known: TypeRegistry, consumption: Consumption, text: str
) -> tuple[Compiled, ...]:
    compiled = {place: _built(each) for place, each in _checked_statements(file, known, consumption, text)}
    return tuple(compiled[place] for place in sorted(compiled))


def _checked_statements(
    file: PatternFile, known: TypeRegistry, consumption: Consumption, text: str
) -> Iterator[tuple[int, Compiled]]:
    """The checked publications of a file with their places, each behind those that it reads; the types that they
    publish and those that the file derives are registered."""
    _check_privates(file, known, text)
    publications = inline_file(file, text=text)
    published = (each.output.type_name for each in publications if each.output is not None and each.output.type_name)
    derived = DerivedTypes(file.types, known, published, text=text)
    compiled: list[Compiled] = []
    for place, publication in _readers_last(publications, derived.bases, text):
        derived.register(compiled)
        compiled.append(_checked(publication, known, consumption, text))
        yield place, compiled[-1]
        register_published(compiled[-1], known)
    derived.register(compiled)


class DerivedTypes:
    """Derived types of a file, some perhaps of types that its patterns publish, which are registered when these are.

    Attributes:
        bases: names of the derived types, and of what each is derived from and reads the state of.
        registry: where they are registered.
    """

    def __init__(
        self, types: Iterable[DerivedType], registry: TypeRegistry, published: Iterable[str], *, text: str = ""
    ) -> None:
        self._waiting = behind_bases(types)
        self.bases = {each.name: {each.base} | states_of(each) for each in self._waiting}
        self._roots = {each.name: each.base for each in self._waiting}
        self._check_circles(text)
        self.registry = registry
        self._text = text
        self._counts = Counter(published)

    def _check_circles(self, text: str) -> None:
        """Check that no type is derived from itself."""
        for each in self._waiting:
            path = [each.name]
            while (base := self._roots.get(path[-1])) is not None and base not in path:
                path.append(base)
            if base == each.name:
                raise error_at(
                    text,
                    each.span,
                    "types derived from each other in a circle" if len(path) > 1 else "a type derived from itself",
                    given=", ".join((*path, base)) if len(path) > 1 else base,
                    advice="derive one of them from an event type of another name",
                )

    def register(self, compiled: Iterable[Compiled]) -> None:
        """Register those whose base is known, given the patterns that are compiled so far."""
        missing = self._counts - Counter(each.publishes.name for each in compiled)
        later: dict[str, DerivedType] = {}
        for each in self._waiting:
            base = each.base
            while base in self._roots and base not in self.registry:
                base = self._roots[base]
            if base in missing and (self.registry.open or base not in self.registry):
                later[each.name] = each
        # Those that read the state of one that is later are later, too.
        ready = [each for each in self._waiting if each.name not in later]
        while waits := {each.name: each for each in ready if not later.keys().isdisjoint(self.bases[each.name])}:
            later |= waits
            ready = [each for each in ready if each.name not in waits]
        register_derived(PatternFile(tuple(ready), (), ()), self.registry, text=self._text)
        self._waiting = [each for each in self._waiting if each.name in later]


def register_published(added: Compiled, registry: TypeRegistry) -> None:
    """Register the type that a pattern publishes, beside others that publish it. Attributes of an unknown kind agree
    with any. Raises `TypeRegistryError` where they do not agree."""
    if added.publishes.name:
        try:
            publish(registry, added.published)
        except TypeRegistryError as error:
            output = added.publication.output
            error.where = error.where or place_of(added.source, None if output is None else output.span)
            raise


def compile_publication(
    publication: Publication,
    registry: TypeRegistry | None = None,
    *,
    consumption: Consumption = "ordered",
    text: str = "",
) -> Compiled:
    """Compile a pattern with inlined definitions."""
    return _built(_checked(publication, registry, consumption, text))


def _check_privates(file: PatternFile, registry: TypeRegistry, text: str) -> None:
    """Raise `PatternError` for a type derived from a private publication, or a private one that hides a known type."""
    names = {output_of(each).type_name: output_of(each) for each in file.privates}
    for each in file.types:
        if each.base in names:
            raise error_at(
                text,
                each.span,
                "a type derived from a private publication, which no event outside the file has",
                given=each.base,
                advice="give the private publication a final filter and attributes, or take private away",
            )
    for name, output in names.items():
        if name in registry:
            problem = "a private publication with the name of an event type"
            raise error_at(text, output.span, problem, given=name, advice="choose another name")


def _checked_private(
    private: Publication, registry: TypeRegistry, consumption: Consumption, text: str, beside: Mapping[str, Compiled]
) -> Compiled:
    """A private publication that may read those beside it. What it is called is no part of its canonical form."""
    output = output_of(private)
    check_private_name(output, text=text)
    unnamed = replace(private, output=replace(output, type_name=""), privates=())
    made = _checked(unnamed, registry, consumption, text, beside)
    plain = replace(made.plain, output=without_name(output_of(made.plain)))
    return replace(made, publication=replace(made.publication, output=output), plain=plain, cut=plain)


def _checked(
    publication: Publication,
    registry: TypeRegistry | None,
    consumption: Consumption,
    text: str,
    privates: Mapping[str, Compiled] | None = None,
) -> Compiled:
    """The checked pattern; `privates` are the private publications it may read beside its own, by name."""
    known = TypeRegistry(open=True) if registry is None else registry
    inside = dict(privates or {})
    for each in publication.privates:
        name = output_of(each).type_name
        try:
            inside[name] = _checked_private(each, known, consumption, text, inside)
        except PatternError as error:
            if not text:
                error.where = f"definition {name}, {error.where}" if error.where else f"definition {name}"
            raise
    if inside:
        beside = [replace(each.publication, privates=()) for each in inside.values()]
        publication = replace(publication, privates=read_by(publication.pattern, beside))
        known = WithPrivates(known, [replace_type(each.published, name=name) for name, each in inside.items()])
    check_depth(publication.pattern, text=text)
    check_output_depth(publication.output, text=text)
    behind = types_behind(sorted(types_named(publication.pattern) | states_read(publication.pattern)), known)
    publishes = check(publication, known, text=text)
    for name in behind:
        _check_derived(name, known)
    written = written_out(publication, known, text=text)
    counted = with_aggregates(written.publication, text=text)
    pattern, output = with_key_registers(counted.pattern, counted.output, key_names(written.computations))
    read = tuple(each for name, each in inside.items() if name in types_named(pattern))
    if read:
        for stage in written.computations:
            if names := [name for name, _ in stage.values if name in inside]:
                problem = "a computed key of private publications, which have no computed attributes"
                raise error_at(text, publication.pattern.span, problem, given=", ".join(names))
        pattern = marked(pattern, {name: each.mark for name, each in inside.items()})
    read = tuple(sorted({each.mark: each for each in read}.values(), key=lambda each: each.mark))
    plain = Publication(pattern, output, once=publication.once, settled=publication.settled, privates=under_marks(read))
    epochs = (publication.consumption or consumption) == "epoch"
    return Compiled(
        publication,
        _each_once((written.throttlings, *(each.throttlings for each in read))),
        publishes,
        plain,
        plain,
        epochs,
        source=text,
        computations=_each_once((written.computations, *(each.computations for each in read))),
        privates=read,
    )


def beneath(compiled: Compiled) -> dict[str, Compiled]:
    """Private publications of a pattern by their marks, and those that they read."""
    found: dict[str, Compiled] = {}
    for each in compiled.privates:
        found |= {**beneath(each), each.mark: each} if each.mark not in found else {}
    return found


def private_names(compiled: Compiled) -> dict[str, str]:
    """Names of the private publications of a pattern, and of those that they read, by their marks."""
    return {mark: output_of(each.publication).type_name for mark, each in beneath(compiled).items()}


def under_marks(privates: Iterable[Compiled]) -> tuple[Publication, ...]:
    """Private publications in canonical form, under their marks, each behind those that it reads."""
    found: dict[str, Publication] = {}
    for each in privates:
        for other in each.plain.privates:
            found.setdefault(output_of(other).type_name, other)
        plain = each.form.publication
        output = replace(plain.output or Output(""), type_name=each.mark)
        consumption = "epoch" if each.epochs else ""
        found.setdefault(each.mark, replace(plain, output=output, consumption=consumption, privates=()))
    return tuple(found.values())


def _each_once(stages: Iterable[tuple[_Stage, ...]]) -> tuple[_Stage, ...]:
    return tuple({stage.mark: stage for each in stages for stage in each}.values())


def _check_derived(name: str, registry: TypeRegistry) -> None:
    """Check the expressions of a derived type, which may have been registered unchecked."""
    found = registry.find(name)
    if found is None or found.derived is None:
        return
    derived = found.derived
    try:
        if derived.where:
            filtered = Filtered(TypeSet(derived.base), parse_expression(derived.where))
            check(Publication(Atom(filtered)), registry, text=derived.where)
    except PatternError as error:
        error.where = f"derived type {found.name}, {error.where}" if error.where else f"derived type {found.name}"
        raise
    computed_kinds(found, registry)


def _built(compiled: Compiled) -> Compiled:
    _ = compiled.automaton
    return compiled


def types_read(patterns: Iterable[Compiled]) -> frozenset[str] | None:
    """The published types that patterns read; None where one of them reads every event."""
    found: set[str] = set()
    for each in patterns:
        names = each.automaton.type_names()
        if names is None:
            return None
        found |= names
    return frozenset(found)


def register_derived(file: PatternFile, registry: TypeRegistry, *, text: str = "") -> None:
    """Register the derived types of a file, with checked expressions."""
    for each in behind_bases(file.types):
        registry.register(_event_type(each, registry))
    types_behind((each.name for each in file.types), registry)
    for each in file.types:
        if each.condition is not None:
            filtered = Atom(Filtered(TypeSet(each.base, span=each.span), each.condition, span=each.span))
            check(Publication(filtered), registry, text=text)
        if each.computed:
            check_computed(each, registry, text=text)


def _event_type(derived: DerivedType, registry: TypeRegistry) -> EventType:
    if is_clock(derived.base):
        return clock_type(derived.name, derived.base)
    if registry.open and derived.base not in registry:
        registry.register(EventType(derived.base, {}))
    where = format_expression(derived.condition) if derived.condition is not None else ""
    computed = [(name, format_expression(value)) for name, value in derived.computed]
    often = {"every": derived.every, "quiet": derived.quiet}
    base, name = registry.get(derived.base), derived.name
    return derive(base, name, where=where, by=derived.by, computed=computed, last=derived.last, **often)


def _readers_last(
    publications: tuple[Publication, ...], bases: Mapping[str, AbstractSet[str]], text: str
) -> list[tuple[int, Publication]]:
    """Publications with their places, each after those whose composite events it reads, perhaps by derived types."""

    def reads(publication: Publication) -> set[str]:
        found, names = set[str](), types_named(publication.pattern) | states_read(publication.pattern)
        for each in publication.privates:
            names |= types_named(each.pattern) | states_read(each.pattern)
        while names:
            found |= names
            names = set[str]().union(*(bases[each] for each in names if each in bases)) - found
        return found

    published = ["" if each.output is None else each.output.type_name for each in publications]
    # Once each, as files may be chains of hundreds.
    read = [reads(each).intersection(published) for each in publications]
    ordered: list[tuple[int, Publication]] = []
    waiting = list(range(len(publications)))
    while waiting:
        unpublished = {published[place] for place in waiting}
        later = [place for place in waiting if not unpublished.isdisjoint(read[place])]
        if len(later) == len(waiting):
            circle = ", ".join(sorted(unpublished - {""}))
            outputs = (publications[place].output for place in waiting)
            raise error_at(
                text,
                next(each.span for each in outputs if each is not None and each.type_name),
                "patterns that read each other's composite events in a circle",
                given=circle,
                advice="what one of them reads has to come from outside of the circle",
            )
        ordered += ((place, publications[place]) for place in waiting if unpublished.isdisjoint(read[place]))
        waiting = later
    return ordered


def _names(automaton: Automaton) -> frozenset[str]:
    named = {name for position in automaton.positions for name in position.domain.by_type}
    inside = (_names(part) for part in automaton.sides)
    return frozenset(name for name in named if name[0] not in INSIDE).union(*inside)


def _reads_any(automaton: Automaton) -> bool:
    """Whether the pattern reads types it does not name."""
    return any(position.domain.others != FALSE for position in automaton.positions) or any(
        map(_reads_any, automaton.sides)
    )
