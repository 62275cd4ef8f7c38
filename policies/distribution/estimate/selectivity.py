"""Estimated share of events that a condition lets through, by its form.

The guesses are those of Selinger et al., "Access Path Selection in a Relational Database Management System" (SIGMOD
1979), Table 1: a tenth for an equality, a third for an inequality, independent parts of a condition. Statistics of
attribute values were rejected: the directory has none.
"""

from __future__ import annotations

from typing import Final

from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE, TRUE, Binary, Expression, Unary

EQUAL: Final = 0.1
COMPARED: Final = 1 / 3
OTHERWISE: Final = 0.5
"""Share for other conditions, such as a boolean attribute."""


def share_of(condition: Expression) -> float:
    if condition == TRUE:
        return 1.0
    if condition == FALSE:
        return 0.0
    match condition:
        case Unary(operator="not", operand=operand):
            return 1.0 - share_of(operand)
        case Binary(operator="and", left=left, right=right):
            return share_of(left) * share_of(right)
        case Binary(operator="or", left=left, right=right):
            one, other = share_of(left), share_of(right)
            return one + other - one * other
        case Binary(operator="=="):
            return EQUAL
        case Binary(operator="!="):
            return 1.0 - EQUAL
        case Binary(operator="<" | "<=" | ">" | ">="):
            return COMPARED
        case _:
            return OTHERWISE


def shares(described: ConditionByType, types: frozenset[str]) -> dict[str, float]:
    """Share of the events of each type that can be in a set."""
    found = {}
    for name in types:
        share = share_of(described.condition(name))
        if share:
            found[name] = share
    return found
