"""Derived types in patterns: filtered ones are inlined, throttled ones become a mark set by a stage before the
automata.

A type may be derived from another: filtered, or throttled to one event per interval and key (design, section 1). An
automaton knows published types only. A filter becomes part of the sets; throttling needs a memory, so a `Throttling` is
run before the automata, in the order of consumption, and marks the events that pass, for the sets to ask after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

from distced.detectors.language.parser import parse_expression
from distced.middleware.model.event_types import TypeRegistry
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
from distced.middleware.sets.expressions import TRUE, Expression, Name, conjunction, format_expression


@dataclass(frozen=True, slots=True)
class Throttling:
    """One event per interval and key.

    Attributes:
        mark: the attribute that tells events that passed; it cannot be an attribute's name.
        type_name: the published type that is throttled.
        condition: which of its events are throttled; the others do not pass.
        every: the interval, ns, aligned to the epoch.
        by: the attributes whose values are throttled separately.
    """

    mark: str
    type_name: str
    condition: Expression
    every: int
    by: tuple[str, ...]


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
