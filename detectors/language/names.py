"""The variables and registers of a pattern: where they are made, and where they are read."""

from __future__ import annotations

from collections.abc import Iterator

from distced.middleware.patterns.tree import Atom, Delegated, Init, Output, Pattern, Scope, children, walk
from distced.middleware.sets.describable import DescribableSet, conditions
from distced.middleware.sets.expressions import Expression, names, variables


def all_variables(pattern: Pattern) -> tuple[str, ...]:
    """The names events are bound to, in the order they are written."""
    return tuple(dict.fromkeys(name for node in walk(pattern) for name in _bound_by(node)))


def all_registers(pattern: Pattern) -> tuple[str, ...]:
    """The names of registers, in the order they are written."""
    return tuple(dict.fromkeys(name for node in walk(pattern) for name in _begun_by(node)))


def _bound_by(node: Pattern) -> tuple[str, ...]:
    match node:
        case Atom(variable=variable) if variable:
            return (variable,)
        case Delegated(bound=bound):
            return tuple(name for _, name in bound)
        case _:
            return ()


def _begun_by(node: Pattern) -> tuple[str, ...]:
    match node:
        case Init(registers=registers):
            return tuple(name for name, _ in registers)
        case Delegated(counted=counted):
            return tuple(name for _, name in counted)
        case _:
            return ()


def sets_of(pattern: Pattern) -> tuple[DescribableSet, ...]:
    """The sets that stand in this node itself."""
    match pattern:
        case Atom(label=label, domain=None):
            return (label,)
        case Atom(label=label, domain=domain) if domain is not None:
            return (label, domain)
        case Scope(domain=domain):
            return (domain,)
        case _:
            return ()


def expressions_of(pattern: Pattern) -> Iterator[Expression]:
    """The expressions that stand in this node itself."""
    match pattern:
        case Atom(label=label, domain=domain, updates=updates):
            yield from conditions(label)
            if domain is not None:
                yield from conditions(domain)
            yield from (value for _, value in updates)
        case Scope(domain=domain):
            yield from conditions(domain)
        case Init(registers=registers):
            yield from (initial for _, initial in registers)
        case _:
            pass


def output_expressions(output: Output | None) -> Iterator[Expression]:
    """The expressions of an output."""
    if output is not None:
        yield from (value for _, value in output.attributes)
        if output.condition is not None:
            yield output.condition


def referenced(pattern: Pattern, output: Output | None, *, without: Pattern | None = None) -> frozenset[str]:
    """Every variable and bare name that is read in the pattern and its output, but for `without`."""
    found: set[str] = set()
    for expression in output_expressions(output):
        found |= variables(expression) | names(expression)
    _collect(pattern, without, found)
    return frozenset(found)


def updated(pattern: Pattern, *, without: Pattern | None = None) -> frozenset[str]:
    """Every register that an atom changes, but for those in `without`."""
    if pattern is without:
        return frozenset()
    own = (name for name, _ in pattern.updates) if isinstance(pattern, Atom) else ()
    return frozenset(own).union(*(updated(child, without=without) for child in children(pattern)))


def _collect(pattern: Pattern, without: Pattern | None, found: set[str]) -> None:
    if pattern is without:
        return
    for expression in expressions_of(pattern):
        found |= variables(expression) | names(expression)
    for child in children(pattern):
        _collect(child, without, found)
