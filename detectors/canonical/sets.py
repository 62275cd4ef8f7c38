"""Describable sets in canonical form: one text for each normal form.

A set is a condition for each type and one for all others (`middleware.sets.describable.normal_form`), written as the
members with their types in order, `any` without the types it treats otherwise, and time events, outermost first: `{A, B
where v > 1, any - {B, C}, T}`. A type that is treated as all others is listed, as `A`: `any` has the composite events
of the types that a pattern names, and of no others (design, section 1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from distced.detectors.canonical.conditions import ALWAYS, NEVER, TIMER, Expressions
from distced.detectors.canonical.pieces import NameSlot, Piece, changed, combined, constant, named
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.sets.describable import (
    AnySet,
    ConditionByType,
    DescribableSet,
    Difference,
    Filtered,
    TypeSet,
    Union,
)
from distced.middleware.sets.expressions import FALSE, quote_name

NOTHING = "{}"
"""The text of the empty set."""


def canonical_set(
    form: ConditionByType,
    expressions: Expressions,
    timers: Mapping[str, NameSlot],
    *,
    bare: bool,
    named_already: Collection[str] = (),
) -> Piece:
    """The set with this normal form.

    Args:
        timers: the time events in scope; left out if `bare`, as they are in every domain there.
        named_already: types that need not be named again where they are treated as all others.
    """
    others = expressions.condition(form.others)
    by_type = [(name, expressions.condition(form.by_type[name])) for name in sorted(form.by_type) if name not in timers]
    # No clock is in `any`.
    published = [(name, condition) for name, condition in by_type if not is_clock(name)]
    differing = [(name, condition) for name, condition in published if condition.identity != others.identity]
    members = [
        _filtered(_type(name, expressions), condition)
        for name, condition in by_type
        if condition is not NEVER
        and (condition.identity != others.identity or name not in named_already or is_clock(name))
    ]
    if others is not NEVER:
        members.append(_filtered(_rest([name for name, _ in differing], expressions), others))
    for name, place in timers.items():
        condition = NEVER if bare else expressions.of_timer(form.by_type.get(name, FALSE))
        if condition is not NEVER:
            members.append(_filtered(changed(named(TIMER, place), TIMER, TypeSet), condition))
    if len(members) == 1:
        return members[0]
    return combined("{" + ", ".join(each.text for each in members) + "}", [members], _union)


def _union(members: Sequence[DescribableSet]) -> DescribableSet:
    return Union(tuple(members))


def _type(name: str, expressions: Expressions) -> Piece:
    expressions.given.add(name)
    return constant(quote_name(name), TypeSet(name))


def _rest(names: list[str], expressions: Expressions) -> Piece:
    """`any` without these types."""
    types = [_type(name, expressions) for name in names]
    if not types:
        return constant("any", AnySet())
    left_out = types[0].orderings[0].node if len(types) == 1 else Union(tuple(each.orderings[0].node for each in types))
    return constant(f"any - {{{', '.join(each.text for each in types)}}}", Difference(AnySet(), left_out))


def _filtered(members: Piece, condition: Piece) -> Piece:
    if condition is ALWAYS:
        return members
    text = f"{members.text} where {condition.text}"
    return combined(text, [[members, condition]], lambda nodes: Filtered(nodes[0], nodes[1]))
