"""The value of a pattern's key in its output: `C by room -> X(room = room)`.

A register holds it, which the first event of a match sets: so engines, cuts, snapshots and the canonical form know
nothing of it, and patterns that do not read their key pay nothing. Rejected: reading it of an instance's key, which
each engine keeps in another way, and parts of a pattern do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from distced.detectors.language.names import all_registers
from distced.middleware.patterns import tree
from distced.middleware.patterns.naming import rebuild
from distced.middleware.sets.expressions import Expression, Literal, Name, names, transform

NONE_COMPUTED: Final[Mapping[str, str]] = {}


def whole_key(pattern: tree.Pattern) -> tuple[str, ...]:
    """Attributes that a pattern is keyed by as a whole."""
    found: dict[str, None] = {}
    while isinstance(pattern, tree.Keyed | tree.Window):
        if isinstance(pattern, tree.Keyed):
            found |= dict.fromkeys(pattern.attributes)
        pattern = pattern.body
    return tuple(found)


def with_key_registers(
    pattern: tree.Pattern, output: tree.Output | None, computed: Mapping[str, str] = NONE_COMPUTED
) -> tuple[tree.Pattern, tree.Output | None]:
    """Pattern with a register for each attribute of its key that the output reads; `computed` are names by mark."""
    if output is None:
        return pattern, output
    shown = {name for name, _ in output.attributes}
    read = set().union(*(names(value) for _, value in output.attributes))
    for condition in (output.condition, *(each.condition for each in output.take)):
        if condition is not None:
            read |= names(condition) - shown
    registers = all_registers(pattern)
    # A blank is in no name of an attribute, and in none of a register without quotes.
    made = {
        name: f"key {computed.get(name, name)}" for name in whole_key(pattern) if name in read and name not in registers
    }
    if not made:
        return pattern, output
    others = {name: register for name, register in made.items() if name not in shown}
    output = output.mapped(lambda value: _renamed(value, made), lambda each: _renamed(each, others))
    return _begun(pattern, made), output


def _renamed(expression: Expression, made: Mapping[str, str]) -> Expression:
    return transform(expression, lambda node: Name(made.get(node.name, node.name)) if isinstance(node, Name) else node)


def _begun(pattern: tree.Pattern, made: Mapping[str, str]) -> tree.Pattern:
    """Pattern whose first events set the registers."""
    match pattern:
        case tree.Atom():
            initial = tuple((register, Literal(None)) for register in made.values())
            updates = tuple((register, Name(name)) for name, register in made.items())
            return tree.Init(initial, replace(pattern, updates=(*pattern.updates, *updates)), span=pattern.span)
        case tree.Concatenation(parts=parts) | tree.Sequence(parts=parts):
            first = next((place for place, part in enumerate(parts) if not tree.nullable(part)), len(parts) - 1)
            begun = (_begun(part, made) if place <= first else part for place, part in enumerate(parts))
            return replace(pattern, parts=tuple(begun))
        case tree.Timing(first=first_part):
            return replace(pattern, first=_begun(first_part, made))
        case tree.Parallel(left=left, right=right):
            # One side has an event for it; with it in both, equal sides stay equal, and what both find is one event.
            return replace(pattern, left=_begun(left, made), right=_begun(right, made))
        case _:
            return rebuild(pattern, lambda part: _begun(part, made))
