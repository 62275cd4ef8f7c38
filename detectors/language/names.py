"""The variables and registers of a pattern: the atoms that make them and the expressions that read them."""

from __future__ import annotations

from distced.middleware.patterns import tree
from distced.middleware.sets.expressions import Field, Name, names, variables, walk


def all_variables(pattern: tree.Pattern) -> tuple[str, ...]:
    """The variables bound to events, in textual order."""
    return tuple(dict.fromkeys(name for node in tree.walk(pattern) for name in _bound_by(node)))


def all_registers(pattern: tree.Pattern) -> tuple[str, ...]:
    """The names of registers, in textual order."""
    return tuple(dict.fromkeys(name for node in tree.walk(pattern) for name in _begun_by(node)))


def _bound_by(node: tree.Pattern) -> tuple[str, ...]:
    match node:
        case tree.Atom(variable=variable) if variable:
            return (variable,)
        case tree.Delegated(bound=bound):
            return tuple(name for _, name in bound)
        case _:
            return ()


def _begun_by(node: tree.Pattern) -> tuple[str, ...]:
    match node:
        case tree.Init(registers=registers):
            return tuple(name for name, _ in registers)
        case tree.Delegated(counted=counted):
            return tuple(name for _, name in counted)
        case _:
            return ()


def referenced(
    pattern: tree.Pattern, output: tree.Output | None, *, without: tree.Pattern | None = None
) -> frozenset[str]:
    """Every variable and bare name read in the pattern and its output, except those in `without`."""
    found: set[str] = set()
    for expression in tree.output_expressions(output):
        found |= variables(expression) | names(expression)
    if output is not None and output.consuming == "variables":
        found |= set(all_variables(pattern))
    _collect(pattern, without, found)
    return frozenset(found)


def attributes_read(pattern: tree.Pattern, output: tree.Output | None) -> frozenset[str]:
    """Every attribute read in the pattern and its output, at hand or of a variable, registers among them."""
    read = [each for node in tree.walk(pattern) for each in tree.expressions_of(node)]
    nodes = (node for each in (*read, *tree.output_expressions(output)) for node in walk(each))
    return frozenset(
        node.attribute if isinstance(node, Field) else node.name for node in nodes if isinstance(node, Field | Name)
    )


def updated(pattern: tree.Pattern, *, without: tree.Pattern | None = None) -> frozenset[str]:
    """Every register changed by an atom, except those in `without`."""
    if pattern is without:
        return frozenset()
    own = (name for name, _ in pattern.updates) if isinstance(pattern, tree.Atom) else ()
    return frozenset(own).union(*(updated(child, without=without) for child in tree.children(pattern)))


def _collect(pattern: tree.Pattern, without: tree.Pattern | None, found: set[str]) -> None:
    if pattern is without:
        return
    for expression in tree.expressions_of(pattern):
        found |= variables(expression) | names(expression)
    for child in tree.children(pattern):
        _collect(child, without, found)
