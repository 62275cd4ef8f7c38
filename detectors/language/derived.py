"""Derived types in patterns: filtered ones written out, thinned ones as a mark that a stage before the automata sets.

A type may be derived from another: filtered, or thinned to one event per interval and key (design, section 1). An
automaton knows published types only. A filter becomes part of the sets; thinning needs a memory, so a `Thinning` is
run before the automata, in the order of consumption, and marks the events that pass, for the sets to ask after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b

from distced.detectors.language.inlining import rebuild
from distced.detectors.language.parser import parse_expression
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import Atom, Pattern, Scope
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
class Thinning:
    """One event per interval and key.

    Attributes:
        mark: the attribute that tells events that passed; it cannot be an attribute's name.
        type_name: the published type that is thinned.
        condition: which of its events are thinned; the others do not pass.
        every: the interval, ns, aligned to the epoch.
        by: the attributes whose values are thinned separately.
    """

    mark: str
    type_name: str
    condition: Expression
    every: int
    by: tuple[str, ...]


def without_derived(pattern: Pattern, registry: TypeRegistry) -> tuple[Pattern, tuple[Thinning, ...]]:
    """The pattern over published types alone, and the thinnings it needs, each before those that build on it."""
    thinnings: dict[str, Thinning] = {}
    return _rewrite(pattern, lambda described: _published(described, registry, thinnings)), tuple(thinnings.values())


def _rewrite(pattern: Pattern, change: Callable[[DescribableSet], DescribableSet]) -> Pattern:
    match pattern:
        case Atom(label=label, domain=domain):
            return replace(pattern, label=change(label), domain=None if domain is None else change(domain))
        case Scope(body=body, domain=domain):
            return replace(pattern, body=_rewrite(body, change), domain=change(domain))
        case _:
            return rebuild(pattern, lambda part: _rewrite(part, change))


def _published(described: DescribableSet, registry: TypeRegistry, thinnings: dict[str, Thinning]) -> DescribableSet:
    match described:
        case TypeSet(name=name):
            return _written_out(name, registry, thinnings)
        case AnySet():
            return described
        case Union(members=members):
            return replace(described, members=tuple(_published(each, registry, thinnings) for each in members))
        case Filtered(base=base):
            return replace(described, base=_published(base, registry, thinnings))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            sides = (_published(left, registry, thinnings), _published(right, registry, thinnings))
            return replace(described, left=sides[0], right=sides[1])


def _written_out(name: str, registry: TypeRegistry, thinnings: dict[str, Thinning]) -> DescribableSet:
    event_type = registry.find(name)
    if event_type is None or event_type.derived is None:
        return TypeSet(name)
    derived = event_type.derived
    described = _written_out(derived.base, registry, thinnings)
    if derived.where:
        described = Filtered(described, parse_expression(derived.where))
    if not derived.every:
        return described
    condition = _condition(described)
    root = registry.root(name)
    content = f"{root} where {format_expression(condition)} every {derived.every} by {sorted(derived.by)}"
    mark = f"thinned {blake2b(content.encode(), digest_size=8).hexdigest()}"
    thinnings.setdefault(mark, Thinning(mark, root, condition, derived.every, tuple(sorted(derived.by))))
    return Filtered(TypeSet(root), Name(mark))


def _condition(described: DescribableSet) -> Expression:
    return conjunction(_condition(described.base), described.condition) if isinstance(described, Filtered) else TRUE
