"""Derived types in patterns: filtered ones are inlined, throttled ones become a mark set before the automata.

A type may be derived from another: filtered, or throttled to one event per interval and key (design, section 1). A
filter becomes part of the sets; throttling needs a memory, so a `Throttling` is run before the automata, in the order
of consumption, and marks the events that pass, for the sets to ask after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from distced.detectors.language.parser import parse_expression
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import INSTANT_MAX, format_duration
from distced.middleware.patterns.naming import replace_sets
from distced.middleware.patterns.tree import Pattern
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
    Expression,
    Name,
    conjunction,
    format_expression,
    transform,
)


@dataclass(frozen=True, slots=True)
class Throttling:
    """One event per interval and key.

    Attributes:
        mark: the attribute of events that passed; no attribute's name.
        type_name, condition: the published type that is throttled, and which of its events; the others do not pass.
        every: the interval, ns, aligned to the epoch.
        by: the attributes whose values are throttled separately.
    """

    mark: str
    type_name: str
    condition: Expression
    every: int
    by: tuple[str, ...]


def reach_of_loss(throttlings: Iterable[Throttling], until: int) -> int:
    """Instant up to which lost events up to `until` make a difference, ns: another event of their interval passes in
    place of one that was lost."""
    for each in throttlings:
        until = min((until // each.every + 1) * each.every - 1, INSTANT_MAX)
    return until


def without_derived(pattern: Pattern, registry: TypeRegistry) -> tuple[Pattern, tuple[Throttling, ...]]:
    """The pattern over published types alone, and its throttlings, each before those that build on it."""
    throttlings: dict[str, Throttling] = {}
    return replace_sets(pattern, lambda described: _published(described, registry, throttlings)), tuple(
        throttlings.values()
    )


def _published(described: DescribableSet, registry: TypeRegistry, throttlings: dict[str, Throttling]) -> DescribableSet:
    match described:
        case TypeSet(name=name):
            return _written_out(name, registry, throttlings)
        case AnySet():
            return described
        case Union(members=members):
            return replace(described, members=tuple(_published(each, registry, throttlings) for each in members))
        case Filtered(base=base):
            return replace(described, base=_published(base, registry, throttlings))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            sides = (_published(left, registry, throttlings), _published(right, registry, throttlings))
            return replace(described, left=sides[0], right=sides[1])


def _written_out(name: str, registry: TypeRegistry, throttlings: dict[str, Throttling]) -> DescribableSet:
    event_type = registry.find(name)
    if event_type is None or event_type.derived is None:
        return TypeSet(name)
    derived = event_type.derived
    described = _written_out(derived.base, registry, throttlings)
    if derived.where:
        described = Filtered(described, parse_expression(derived.where))
    if not derived.every:
        return described
    condition = _condition(described)
    root = registry.root(name)
    content = f"{root} where {format_expression(condition)} every {derived.every} by {sorted(derived.by)}"
    mark = f"throttled {blake2b(content.encode(), digest_size=8).hexdigest()}"
    throttlings.setdefault(mark, Throttling(mark, root, condition, derived.every, tuple(sorted(derived.by))))
    return Filtered(TypeSet(root), Name(mark))


def _condition(described: DescribableSet) -> Expression:
    return conjunction(_condition(described.base), described.condition) if isinstance(described, Filtered) else TRUE


def throttled_names(throttlings: Iterable[Throttling], derived: Mapping[str, str]) -> dict[str, str]:
    """Names of throttled events by mark: the derived type's if known, else a description of the throttling."""
    names = {}
    for each in throttlings:
        by = f" by ({', '.join(each.by)})" if each.by else ""
        condition = "" if each.condition == TRUE else f" where {format_expression(each.condition)}"
        described = f"{each.type_name}{condition} every {format_duration(each.every)}{by}"
        names[each.mark] = derived.get(each.mark, described)
    return names


def without_marks(expression: Expression, throttled: Mapping[str, str]) -> Expression:
    """An expression with the names of throttled events in place of their marks."""

    def named(node: Expression) -> Expression:
        return Name(throttled.get(node.name, node.name)) if isinstance(node, Name) else node

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
