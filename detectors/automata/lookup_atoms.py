"""Atoms of a condition for lookup: comparisons of an attribute of the current event with one other value.

cayuga-algebra-cesar, section 4.1: static atoms compare with a constant, others are dynamic. Static equalities are
lookup keys, static ranges filters; dynamic equalities distinguish instances. Ranges: floats, exact to 2^53.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from distced.middleware.model.events import Attribute
from distced.middleware.sets.expressions import TRUE, Binary, Expression, Field, Literal, Name, operands

EXACT: Final = 2**52
"""Bound up to which constants differ from all larger numbers, including whole numbers that floats do not distinguish.
"""
MIRRORED: Final = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(slots=True)
class Atoms:
    """Static part of a conjunction, by attribute: `equal` value, `ranges` (least, greatest; numbers, else no match),
    `joined` attribute of an earlier matched event to equal; `whole` if there is no other part."""

    equal: dict[str, Attribute] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    joined: dict[str, Field] = field(default_factory=dict)
    whole: bool = True


def atoms_of(condition: Expression, registers: Container[str]) -> Atoms:
    """The static part of a condition; names of registers are no attributes."""
    found = Atoms()
    for operand in operands(condition, "and"):
        if operand != TRUE and not _note(found, operand, registers):
            found.whole = False
    return found


def _note(found: Atoms, operand: Expression, registers: Container[str]) -> bool:
    match operand:
        case Binary(operator="==", left=Name(name=name), right=Field() as other) if name not in registers:
            found.joined.setdefault(name, other)
            return False
        case Binary(operator="==", left=Field() as other, right=Name(name=name)) if name not in registers:
            found.joined.setdefault(name, other)
            return False
        case Binary(operator=operator, left=Name(name=name), right=Literal(value=value)) if operator in MIRRORED:
            pass
        case Binary(operator=operator, left=Literal(value=value), right=Name(name=name)) if operator in MIRRORED:
            operator = MIRRORED[operator]
        case _:
            return False
    if name in registers:
        return False
    if operator == "==":
        if value is None or name in found.equal:
            return False
        found.equal[name] = value
        return True
    if type(value) not in (int, float) or not -EXACT <= value <= EXACT:  # type: ignore[operator]
        return False
    bound = float(value)  # type: ignore[arg-type]
    least, most = found.ranges.get(name, (-math.inf, math.inf))
    if operator in (">", ">="):
        least = max(least, bound if operator == ">=" else math.nextafter(bound, math.inf))
    else:
        most = min(most, bound if operator == "<=" else math.nextafter(bound, -math.inf))
    found.ranges[name] = (least, most)
    return True
