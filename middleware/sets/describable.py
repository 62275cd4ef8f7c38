"""Describable sets: a type with an optional filter, closed under union, intersection and difference.

composite-event-framework-2004, Appendix A, equation 8: the family of sets of events that the system can tell apart.
Every set has a normal form, a condition for each type: an event is in the set iff the condition of its type holds. The
set operations are then boolean operations type by type, and an engine that knows an event's type has only the condition
left to evaluate. A tree of operators walked for each event was rejected as slower and harder to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

from distced.middleware.model.clock_rules import is_clock
from distced.middleware.sets.expressions import (
    FALSE,
    TRUE,
    Expression,
    Spanned,
    conjunction,
    disjunction,
    format_expression,
    negation,
    quote_name,
)


@dataclass(frozen=True, slots=True)
class TypeSet(Spanned):
    """All events of a type, or a time event by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class AnySet(Spanned):
    """`any`: every event that is published; time events are in it by name only."""


@dataclass(frozen=True, slots=True)
class Union(Spanned):
    """`{A, B}`; of nothing: the empty set."""

    members: tuple[DescribableSet, ...]


@dataclass(frozen=True, slots=True)
class Intersection(Spanned):
    """`A & B`."""

    left: DescribableSet
    right: DescribableSet


@dataclass(frozen=True, slots=True)
class Difference(Spanned):
    """`A - B`."""

    left: DescribableSet
    right: DescribableSet


@dataclass(frozen=True, slots=True)
class Filtered(Spanned):
    """`A where condition`."""

    base: DescribableSet
    condition: Expression


DescribableSet: TypeAlias = TypeSet | AnySet | Union | Intersection | Difference | Filtered


@dataclass(frozen=True, slots=True)
class ConditionByType:
    """Normal form of a describable set.

    Attributes:
        by_type: the condition under which an event of a type is in the set, for the types that it names.
        others: the condition for every other type that is published; false unless `any` is involved.
    """

    by_type: Mapping[str, Expression]
    others: Expression

    def condition(self, type_name: str) -> Expression:
        """Condition under which an event of this type is in the set."""
        found = self.by_type.get(type_name)
        if found is not None:
            return found
        # `any` is what is published.
        return FALSE if is_clock(type_name) else self.others

    @property
    def is_empty(self) -> bool:
        """Whether no event can be in it, as far as the form shows."""
        return self.others == FALSE and all(condition == FALSE for condition in self.by_type.values())

    def types(self) -> frozenset[str] | None:
        """Types whose events can be in it; None where `any` leaves that open."""
        if self.others != FALSE:
            return None
        return frozenset(name for name, condition in self.by_type.items() if condition != FALSE)


EMPTY = ConditionByType({}, FALSE)


def normal_form(described: DescribableSet, timers: Iterable[str] = ()) -> ConditionByType:
    """Condition for each type. `timers` are the names of time events: these are not in `any`."""
    match described:
        case TypeSet(name=name):
            return ConditionByType({name: TRUE}, FALSE)
        case AnySet():
            return ConditionByType(dict.fromkeys(timers, FALSE), TRUE)
        case Union(members=members):
            # Joined in pairs, so that the condition of a thousand members is ten levels deep.
            forms = [normal_form(member, timers) for member in members] or [EMPTY]
            while len(forms) > 1:
                forms = [reduce(union, forms[place : place + 2]) for place in range(0, len(forms), 2)]
            return forms[0]
        case Intersection(left=left, right=right):
            return combine(normal_form(left, timers), normal_form(right, timers), conjunction)
        case Difference(left=left, right=right):
            return combine(
                normal_form(left, timers), normal_form(right, timers), lambda a, b: conjunction(a, negation(b))
            )
        case Filtered(base=base, condition=condition):
            form = normal_form(base, timers)
            return ConditionByType(
                {name: conjunction(each, condition) for name, each in form.by_type.items()},
                conjunction(form.others, condition),
            )


def union(left: ConditionByType, right: ConditionByType) -> ConditionByType:
    """Normal form of the union."""
    return combine(left, right, disjunction)


def combine(
    left: ConditionByType, right: ConditionByType, join: Callable[[Expression, Expression], Expression]
) -> ConditionByType:
    """Join of two normal forms type by type."""
    names = [*left.by_type, *(name for name in right.by_type if name not in left.by_type)]
    return ConditionByType(
        {name: join(left.condition(name), right.condition(name)) for name in names}, join(left.others, right.others)
    )


def set_children(described: DescribableSet) -> tuple[DescribableSet, ...]:
    """Sets directly inside."""
    match described:
        case Union(members=members):
            return members
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            return (left, right)
        case Filtered(base=base):
            return (base,)
        case _:
            return ()


def walk_set(described: DescribableSet) -> Iterator[DescribableSet]:
    """Set and every set inside it, outermost first."""
    yield described
    for child in set_children(described):
        yield from walk_set(child)


def conditions(described: DescribableSet) -> Iterator[Expression]:
    """Conditions a set filters by."""
    for each in walk_set(described):
        if isinstance(each, Filtered):
            yield each.condition


def transform_conditions(described: DescribableSet, change: Callable[[Expression], Expression]) -> DescribableSet:
    """The set with `change` applied to each of its conditions."""
    match described:
        case Union(members=members):
            return replace(described, members=tuple(transform_conditions(each, change) for each in members))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            left, right = transform_conditions(left, change), transform_conditions(right, change)
            return replace(described, left=left, right=right)
        case Filtered(base=base, condition=condition):
            return replace(described, base=transform_conditions(base, change), condition=change(condition))
        case _:
            return described


def format_set(described: DescribableSet) -> str:
    """Text that reads back as the same set, as a member of a list."""
    match described:
        case Filtered(base=base, condition=condition):
            text = format_set(base) if isinstance(base, Filtered) else format_set_primary(base)
            return f"{text} where {format_expression(condition)}"
        case Difference(left=left, right=right):
            text = format_set(left) if isinstance(left, Difference) else _format_factor(left)
            return f"{text} - {_format_factor(right)}"
        case _:
            return _format_factor(described)


def format_set_primary(described: DescribableSet) -> str:
    """Text that reads back as the same set wherever a set may stand."""
    match described:
        case TypeSet(name=name):
            return quote_name(name)
        case AnySet():
            return "any"
        case Union(members=members):
            return "{" + ", ".join(format_set(member) for member in members) + "}"
        case _:
            return f"({format_set(described)})"


def format_filtered_guarded(described: Filtered) -> str:
    """`A where (condition)`, for places where `<=` or `as` may follow."""
    base = described.base
    text = format_filtered_guarded(base) if isinstance(base, Filtered) else format_set_primary(base)
    return f"{text} where ({format_expression(described.condition)})"


def _format_factor(described: DescribableSet) -> str:
    if isinstance(described, Intersection):
        left = described.left
        text = _format_factor(left) if isinstance(left, Intersection) else format_set_primary(left)
        return f"{text} & {format_set_primary(described.right)}"
    return format_set_primary(described)
