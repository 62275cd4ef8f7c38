"""Derived types in patterns: filtered ones are inlined, throttled ones become a mark set before the automata.

A type may be derived from another: filtered, or throttled to one event per interval and key (design, section 1). A
filter becomes part of the sets; throttling needs a memory, so a `Throttling` is run before the automata, in the order
of consumption, and marks the events that pass, for the sets to ask after. Computed attributes are written out where
they are read (`detectors.language.computed`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from distced.detectors.language.computed import (
    NONE_COMPUTED,
    Computation,
    Computed,
    ComputedWriter,
    computation,
    computes,
    key_names,
    substituted,
)
from distced.detectors.language.parser import parse_expression
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import INSTANT_MAX, format_duration
from distced.middleware.patterns.naming import replace_sets
from distced.middleware.patterns.tree import Pattern, Publication
from distced.middleware.sets.aggregates import OVER, is_sliding, slides
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
)
from distced.middleware.sets.expressions import (
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Name,
    conjunction,
    format_expression,
    transform,
)
from distced.middleware.sets.expressions import names as expression_names


@dataclass(frozen=True, slots=True)
class Throttling:
    """One event per interval and key; or an aggregate over a sliding window, which each event passes.

    Attributes:
        mark: the attribute of events that passed, or of the value of the aggregate; no attribute's name.
        type_name, condition: the published type that is throttled, and which of its events; the others do not pass.
        every: the interval, ns, aligned to the epoch; 0 for `quiet`.
        quiet: for how long no other event passes after one, ns; 0 for `every`.
        by: the attributes whose values are throttled separately.
        sliding: the aggregate; None for throttling.
    """

    mark: str
    type_name: str
    condition: Expression
    every: int
    by: tuple[str, ...]
    quiet: int = 0
    sliding: Sliding | None = None


@dataclass(frozen=True, slots=True)
class Sliding:
    """Aggregate of a value over the events of a key in a time, ns, up to the event at hand."""

    function: str
    argument: Expression
    length: int


def reach_of_loss(throttlings: Iterable[Throttling], until: int) -> int:
    """Instant up to which lost events up to `until` make a difference, ns: another event of their interval passes in
    place of one that was lost."""
    for each in throttlings:
        if each.quiet:
            # Each event that passes decides over the next.
            return INSTANT_MAX
        if each.sliding is not None:
            until = min(until + each.sliding.length, INSTANT_MAX)
            continue
        until = min((until // each.every + 1) * each.every - 1, INSTANT_MAX)
    return until


def needed_throttlings(throttlings: Sequence[Throttling], names: Collection[str]) -> tuple[Throttling, ...]:
    """Those of the throttlings whose marks are read, with those that they build on."""
    read = set(names)
    for each in reversed(throttlings):
        if each.mark in read:
            read |= expression_names(each.condition)
    return tuple(each for each in throttlings if each.mark in read)


def without_derived(pattern: Pattern, registry: TypeRegistry) -> tuple[Pattern, tuple[Throttling, ...]]:
    """The pattern over published types alone, and its throttlings, each before those that build on it."""
    written = written_out(Publication(pattern), registry)
    return written.publication.pattern, written.throttlings


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """Pattern over published types alone, and the stages before its automaton, each before those that build on it."""

    publication: Publication
    throttlings: tuple[Throttling, ...]
    computations: tuple[Computation, ...]


def written_out(publication: Publication, registry: TypeRegistry, *, text: str = "") -> WrittenOut:
    """The pattern over published types alone. Raises `PatternError` for an attribute that would be several things."""
    stages = _Stages(registry)
    if computes(publication.pattern, registry):
        publication = ComputedWriter(stages, text).publication(publication)
    else:
        plain = replace_sets(publication.pattern, lambda described: _published(described, stages))
        publication = replace(publication, pattern=plain)
    return WrittenOut(publication, tuple(stages.throttlings.values()), tuple(stages.computations.values()))


def _published(described: DescribableSet, stages: _Stages) -> DescribableSet:
    match described:
        case TypeSet(name=name):
            return stages.type_named(name)[0]
        case AnySet():
            return described
        case Union(members=members):
            return replace(described, members=tuple(_published(each, stages) for each in members))
        case Filtered(base=base):
            return replace(described, base=_published(base, stages))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            return replace(described, left=_published(left, stages), right=_published(right, stages))


class _Stages:
    """Derived types over published ones, with the stages that their events pass."""

    def __init__(self, registry: TypeRegistry) -> None:
        self.registry = registry
        self.throttlings: dict[str, Throttling] = {}
        self.computations: dict[str, Computation] = {}
        self._known: dict[str, tuple[DescribableSet, Computed]] = {}

    def type_named(self, name: str) -> tuple[DescribableSet, Computed]:
        """Events of a type, and its computed attributes."""
        if name not in self._known:
            self._known[name] = self._written_out(name)
        return self._known[name]

    def root(self, name: str) -> str:
        return self.registry.root(name)

    def key(self, name: str, values: Mapping[str, Expression]) -> str:
        """Attribute of the published events that holds a key's value: one of their own, or a mark."""
        if any(each in self.throttlings for value in values.values() for each in expression_names(value)):
            raise PatternError(
                "an aggregate over a window as a key: it is known only when the key is",
                given=name,
                allowed="attributes of the events, and calculations with them",
            )
        texts = {format_expression(each): each for each in values.values()}
        if len(texts) == 1 and isinstance(first := next(iter(texts.values())), Name):
            return first.name
        made = computation(name, values)
        return self.computations.setdefault(made.mark, made).mark

    def _written_out(self, name: str) -> tuple[DescribableSet, Computed]:
        event_type = self.registry.find(name)
        if event_type is None or event_type.derived is None:
            return TypeSet(name), NONE_COMPUTED
        derived = event_type.derived
        described, computed = self.type_named(derived.base)
        if derived.where:
            described = Filtered(described, substituted(parse_expression(derived.where), computed))
        if derived.computed:
            parsed = {each: parse_expression(value) for each, value in derived.computed}
            added = {each: substituted(value, computed) for each, value in parsed.items() if not slides(value)}
            keys = {**computed, **added}
            added |= {
                each: self._with_marks(substituted(value, computed), name, described, keys, derived.by)
                for each, value in parsed.items()
                if slides(value)
            }
            computed = {**computed, **added}
        if not (derived.every or derived.quiet):
            return described, computed
        condition, root = _condition(described), self.root(name)
        by = tuple(sorted(self.key(each, {root: computed.get(each, Name(each))}) for each in derived.by))
        often = f"at most 1 per {derived.quiet}" if derived.quiet else f"every {derived.every}"
        content = f"{root} where {format_expression(condition)} {often} by {list(by)}"
        mark = f"throttled {blake2b(content.encode(), digest_size=8).hexdigest()}"
        self.throttlings.setdefault(mark, Throttling(mark, root, condition, derived.every, by, derived.quiet))
        return Filtered(TypeSet(root), Name(mark)), computed

    def _with_marks(
        self, value: Expression, name: str, described: DescribableSet, keys: Computed, by: Iterable[str]
    ) -> Expression:
        """A computed attribute with marks in place of its aggregates over windows."""
        condition, root = _condition(described), self.root(name)
        named = tuple(sorted(self.key(each, {root: keys.get(each, Name(each))}) for each in by))

        def change(node: Expression) -> Expression:
            if not is_sliding(node):
                return node
            aggregate, length = node.arguments
            assert isinstance(aggregate, Call) and isinstance(length, Literal) and isinstance(length.value, int)
            content = f"{root} where {format_expression(condition)} {format_expression(node)} by {list(named)}"
            mark = f"sliding {blake2b(content.encode(), digest_size=8).hexdigest()}"
            sliding = Sliding(aggregate.function, aggregate.arguments[0], length.value)
            self.throttlings.setdefault(mark, Throttling(mark, root, condition, 0, named, sliding=sliding))
            return Name(mark, span=node.span)

        return transform(value, change)


def _condition(described: DescribableSet) -> Expression:
    return conjunction(_condition(described.base), described.condition) if isinstance(described, Filtered) else TRUE


def throttled_names(
    throttlings: Iterable[Throttling], derived: Mapping[str, str], computations: Iterable[Computation] = ()
) -> dict[str, str]:
    """Names of throttled events by mark: the derived type's if known, else a description of the throttling. With those
    of computed keys."""
    keys = key_names(computations)
    names = dict(keys)
    for each in throttlings:
        if each.sliding is not None:
            aggregate = Call(each.sliding.function, (each.sliding.argument,))
            names[each.mark] = format_expression(Call(OVER, (aggregate, Literal(each.sliding.length))))
            continue
        by = f" by ({', '.join(keys.get(name, name) for name in each.by)})" if each.by else ""
        condition = "" if each.condition == TRUE else f" where {format_expression(each.condition)}"
        often = f"at most 1 per {format_duration(each.quiet)}" if each.quiet else f"every {format_duration(each.every)}"
        described = f"{each.type_name}{condition} {often}{by}"
        names[each.mark] = derived.get(each.mark, described)
    return names


def without_marks(expression: Expression, throttled: Mapping[str, str]) -> Expression:
    """An expression with the names of throttled events in place of their marks."""

    def named(node: Expression) -> Expression:
        match node:
            case Name(name=name):
                shown = throttled.get(name, name)
                return parse_expression(shown) if name in throttled and f" {OVER} " in shown else Name(shown)
            case Field(variable=variable, attribute=attribute):
                return Field(variable, throttled.get(attribute, attribute))
            case _:
                return node

    return transform(expression, named)


def split_mark(condition: Expression, throttled: Mapping[str, str]) -> tuple[str, Expression] | None:
    """The name of the throttled events that a condition asks for, and the rest of it; None if it asks for none."""
    for mark, name in throttled.items():
        rest = TRUE if condition == Name(mark) else _without(condition, Name(mark))
        if rest is not None:
            return name, without_marks(rest, throttled)
    return None


def _without(condition: Expression, conjunct: Expression) -> Expression | None:
    """A conjunction without one of its members; None for a non-member."""
    if not isinstance(condition, Binary) or condition.operator != "and":
        return None
    for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
        if one == conjunct:
            return other
    left = _without(condition.left, conjunct)
    if left is not None:
        return Binary("and", left, condition.right)
    right = _without(condition.right, conjunct)
    return None if right is None else Binary("and", condition.left, right)
