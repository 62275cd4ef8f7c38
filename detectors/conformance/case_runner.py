"""Runs of conformance cases on an engine, with a report of differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from distced.detectors.compiler import (
    Compiled,
    DerivedTypes,
    compile_pattern,
    compile_translation,
    read_pattern,
    register_published,
)
from distced.detectors.conformance.cases import Case, ConformanceError, Constituents, Match, clock_at
from distced.detectors.frontends.languages import CORE, LANGUAGES, translate
from distced.detectors.language.parser import parse_file
from distced.detectors.runtime.engines import Kinds, make_engine
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Attribute, CompositeEvent, Event
from distced.middleware.patterns.tree import DerivedType

Status: TypeAlias = Literal["passed", "failed", "unsupported"]

Run: TypeAlias = Callable[[Sequence[Compiled], Sequence[Event], Kinds], list[CompositeEvent]]
"""Detection of patterns in events given in the order of consumption, until every time event has fired."""

SUPPORTED: Final = (CORE, *LANGUAGES)
"""The languages this version supports."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Outcome of a case.

    Attributes:
        status: `unsupported` where this version does not know the case's language.
        problem: description of the difference, in one clause; empty without one.
        missing, unexpected, found: composite events expected only, detected only, and all detected.
    """

    case: Case
    status: Status
    problem: str = ""
    missing: tuple[Match, ...] = ()
    unexpected: tuple[Match, ...] = ()
    found: tuple[Match, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the case holds."""
        return self.status == "passed"

    def report(self) -> str:
        """The case and its differences as text."""
        case = self.case
        lines = [f"{self.status}: {case.name} ({case.where})"]
        if self.passed:
            return lines[0]
        lines += _indented("pattern", case.pattern.strip().splitlines())
        lines += _indented("let", [f"{name} = {text}" for name, text in case.let.items()])
        lines += _indented("derived", case.derive)
        lines += _indented("published", case.publications)
        lines += _indented("consumption", [case.consumption] if case.consumption != "ordered" else [])
        lines += _indented("events", [f"{position}: {text}" for position, text in enumerate(case.texts)])
        lines += _indented("problem", self.problem.splitlines())
        lines += _indented("missing", map(str, self.missing))
        lines += _indented("unexpected", map(str, self.unexpected))
        return "\n".join(lines)


def run_case(case: Case, engine: str = "stepwise", run: Run | None = None) -> CaseOutcome:
    """Run a case on one of the `ENGINES`, or with a given function."""
    if engine not in ENGINES:
        raise ConformanceError("no engine of this name", given=engine, allowed=", ".join(ENGINES))
    run = run or ENGINES[engine]
    if case.language not in SUPPORTED:
        problem = f"the language {case.language!r} is not supported in this version (supported: {', '.join(SUPPORTED)})"
        return CaseOutcome(case, "unsupported", problem)
    try:
        patterns = compile_case(case)
    except DistcedError as error:
        return _refused(case, str(error))
    if case.error:
        return CaseOutcome(case, "failed", f"the pattern was accepted, and should have been refused with: {case.error}")
    events = sorted(case.events, key=lambda event: event.key)
    source = patterns[0].canonical_id
    composites = [each for each in run(patterns, events, _kinds(case)) if each.source == source]
    return compare(case, composites)


def compile_case(case: Case) -> tuple[Compiled, ...]:
    """The case's pattern, of a text in another language its last query, followed by the publications it may read."""
    derived = derived_types(case, TypeRegistry((case.types or {}).values(), open=case.types is None))
    registry = derived.registry
    beside: list[Compiled] = []
    for text in case.publications:
        derived.register(beside)
        compiled = compile_pattern(text, registry, definitions=case.let, consumption=case.consumption)
        if compiled.publication.output is None:
            raise ConformanceError("a publication without a name", given=text, advice="write -> Name() behind it")
        register_published(compiled, registry)
        beside.append(compiled)
    derived.register(beside)
    if case.language != CORE:
        translation = translate(case.pattern, case.language, registry)
        *others, last = compile_translation(translation, registry, consumption=case.consumption)[0]
        return (last, *others, *beside)
    pattern = compile_pattern(case.pattern, registry, definitions=case.let, consumption=case.consumption)
    return (pattern, *beside)


def compare(case: Case, composites: Iterable[CompositeEvent]) -> CaseOutcome:
    """The outcome of a case with these composite events."""
    found = tuple(_match(each) for each in composites)
    wanted = Counter(_comparable(each, each) for each in case.expect)
    like = case.expect[0] if case.expect else Match(())
    given = Counter(_comparable(each, like) for each in found)
    missing = _leftover(case.expect, wanted - given, like)
    unexpected = _leftover(found, given - wanted, like)
    if not missing and not unexpected:
        return CaseOutcome(case, "passed", found=found)
    problem = f"{len(missing)} missing, {len(unexpected)} unexpected of {len(case.expect)} expected"
    return CaseOutcome(case, "failed", problem, missing, unexpected, found)


def registry_of(case: Case) -> TypeRegistry:
    """The event types of a case, derived ones among them, for the oracle, which checks nothing."""
    derived = derived_types(case, TypeRegistry(open=True))
    derived.register(compile_case(case))
    return derived.registry


def derived_types(case: Case, registry: TypeRegistry) -> DerivedTypes:
    """The derived types of a case, to be registered as their bases are."""
    types: tuple[DerivedType, ...] = ()
    if case.derive:
        types = parse_file("\n".join(case.derive)).types
        if len(types) != len(case.derive):
            raise ConformanceError("not a derived type", allowed="type Name = Base where ... every ... by ...")
    publications = [read_pattern(each, case.let).output for each in case.publications]
    return DerivedTypes(types, registry, (each.type_name for each in publications if each is not None))


def _refused(case: Case, message: str) -> CaseOutcome:
    if not case.error:
        return CaseOutcome(case, "failed", f"the pattern was refused: {message}")
    if case.error in message:
        return CaseOutcome(case, "passed", message)
    return CaseOutcome(case, "failed", f"the pattern was refused, but without {case.error!r} in the message: {message}")


def _kinds(case: Case) -> Kinds:
    types = case.types or {}
    return lambda name: types[name].attributes if name in types else None


def _stepwise(patterns: Sequence[Compiled], events: Sequence[Event], kinds: Kinds) -> list[CompositeEvent]:
    engine = make_engine(patterns, kinds, engine="stepwise")
    return engine.feed(events) + engine.finish()


def _columnar(patterns: Sequence[Compiled], events: Sequence[Event], kinds: Kinds) -> list[CompositeEvent]:
    engine = make_engine(patterns, kinds, engine="columnar")
    return engine.feed(events) + engine.finish()


ENGINES: Final[dict[str, Run]] = {"stepwise": _stepwise, "columnar": _columnar}


def _match(composite: CompositeEvent) -> Match:
    return Match(_constituents(composite), composite.attributes, composite.timestamp)


def _constituents(composite: CompositeEvent) -> Constituents:
    return tuple(map(_constituent, composite.events))


def _constituent(event: Event) -> Constituents | int | str:
    if isinstance(event, CompositeEvent):
        return _constituents(event)
    return clock_at(event.hi) if is_clock(event.type) else event.seq


def _comparable(match: Match, like: Match) -> tuple[object, ...]:
    """The compared properties of a match, as `like` selects, in an order-independent form."""
    return (
        _unordered(match.constituents),
        None if like.attributes is None else _values(match.attributes or {}),
        None if like.timestamp is None else match.timestamp,
    )


def _unordered(constituents: Constituents) -> tuple[object, ...]:
    parts = [_unordered(each) if isinstance(each, tuple) else each for each in constituents]
    return tuple(sorted(parts, key=repr))


def _values(attributes: Mapping[str, Attribute]) -> frozenset[tuple[str, bool, Attribute]]:
    """Attribute values for comparison: missing ones are null, and true is no number."""
    return frozenset((name, type(value) is bool, value) for name, value in attributes.items() if value is not None)


def _leftover(matches: Iterable[Match], surplus: Counter[tuple[object, ...]], like: Match) -> tuple[Match, ...]:
    left = Counter(surplus)
    result = []
    for match in matches:
        key = _comparable(match, like)
        if left[key] > 0:
            left[key] -= 1
            attributes = None if like.attributes is None else match.attributes
            result.append(Match(match.constituents, attributes, None if like.timestamp is None else match.timestamp))
    return tuple(result)


def _indented(label: str, lines: Iterable[str]) -> list[str]:
    return [f"  {label if not index else '':12} {line}" for index, line in enumerate(lines)]
