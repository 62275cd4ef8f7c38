"""Rewriting of trees: parts replaced, sets replaced, names replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Concatenation,
    Delegated,
    Init,
    Output,
    Parallel,
    Pattern,
    Reference,
    Scope,
    Sequence,
    Timing,
)
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    Intersection,
    TypeSet,
    Union,
)
from distced.middleware.sets.expressions import Expression, Field, Moment, Name, transform


def rebuild(pattern: Pattern, change: Callable[[Pattern], Pattern]) -> Pattern:
    """Pattern with `change` applied to each pattern directly inside it."""
    match pattern:
        case Atom() | Reference() | Delegated():
            return pattern
        case Concatenation(parts=parts) | Sequence(parts=parts) | Alternation(parts=parts):
            return replace(pattern, parts=tuple(change(part) for part in parts))
        case Parallel(left=left, right=right):
            return replace(pattern, left=change(left), right=change(right))
        case Timing(first=first, second=second):
            return replace(pattern, first=change(first), second=change(second))
        case _:
            return replace(pattern, body=change(pattern.body))


def replace_sets(pattern: Pattern, change: Callable[[DescribableSet], DescribableSet]) -> Pattern:
    """Pattern with `change` applied to every label and domain in it."""
    match pattern:
        case Atom(label=label, domain=domain):
            return replace(pattern, label=change(label), domain=None if domain is None else change(domain))
        case Scope(body=body, domain=domain):
            return replace(pattern, body=replace_sets(body, change), domain=change(domain))
        case _:
            return rebuild(pattern, lambda part: replace_sets(part, change))


def renamed(pattern: Pattern, names: Mapping[str, str]) -> Pattern:
    """Pattern with other names for variables, time events and registers.

    `names` holds every variable that is read and every time event; other variables are left out, other registers keep
    their
    names.
    """

    def expression(node: Expression) -> Expression:
        return renamed_expression(node, names)

    match pattern:
        case Atom(label=label, domain=domain, variable=variable, updates=updates):
            return Atom(
                renamed_set(label, names),
                None if domain is None else renamed_set(domain, names),
                names.get(variable, ""),
                tuple((names.get(name, name), expression(value)) for name, value in updates),
            )
        case Timing(first=first, second=second, timer=timer, when=when):
            return Timing(renamed(first, names), renamed(second, names), names[timer], when)
        case Scope(body=body, domain=domain):
            return Scope(renamed(body, names), renamed_set(domain, names))
        case Init(registers=registers, body=body):
            begun = tuple((names.get(name, name), expression(value)) for name, value in registers)
            return Init(begun, renamed(body, names))
        case _:
            return rebuild(pattern, lambda part: renamed(part, names))


def renamed_output(output: Output, names: Mapping[str, str]) -> Output:
    """Output with other names in attributes and final filter."""
    pairs = tuple((name, renamed_expression(value, names)) for name, value in output.attributes)
    condition = None if output.condition is None else renamed_expression(output.condition, names)
    return Output(output.type_name, pairs, condition)


def renamed_set(described: DescribableSet, names: Mapping[str, str]) -> DescribableSet:
    """Set with other names for time events, and in its conditions."""
    match described:
        case TypeSet(name=name):
            return TypeSet(names[name]) if name in names else described
        case AnySet():
            return described
        case Union(members=members):
            return Union(tuple(renamed_set(each, names) for each in members))
        case Intersection(left=left, right=right) | Difference(left=left, right=right):
            return replace(described, left=renamed_set(left, names), right=renamed_set(right, names))
        case Filtered(base=base, condition=condition):
            return Filtered(renamed_set(base, names), renamed_expression(condition, names))


def renamed_expression(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Expression with other names for variables and registers."""

    def rename(node: Expression) -> Expression:
        match node:
            case Name(name=name) if name in names:
                return Name(names[name])
            case Field(variable=variable, attribute=attribute):
                return Field(names[variable], attribute)
            case Moment(end=end, variable=variable) if variable:
                return Moment(end, names[variable])
            case _:
                return node

    return transform(expression, rename) if names else expression
