"""Conditions that no event fulfils, as far as comparisons with constants show: `v > 3 and v < 2`.

For each value that is compared with constants, a conjunction gives an equality, bounds and inequalities; they
contradict each other, or an event may have such a value. Everything else is taken as possible. A solver was rejected:
what it would find beyond this are riddles.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from distced.middleware.sets.expressions import (
    COMPARISONS,
    FALSE,
    Binary,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Unary,
    operands,
)
from distced.middleware.sets.values import BINARY, comparable

_TURNED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERS: Final = ("<", "<=", ">", ">=")


def satisfiable(condition: Expression) -> bool:
    """Whether a condition may hold."""
    if condition == FALSE or (isinstance(condition, Literal) and condition.value is not True):
        return False
    match condition:
        case Binary(operator="or"):
            return any(map(satisfiable, operands(condition, "or")))
        case Binary(operator="and"):
            joined = operands(condition, "and")
            return all(map(satisfiable, joined)) and _agree(joined)
        case Unary(operator="not", operand=Literal(value=value)):
            return value is not True
        case _:
            return True


def _agree(joined: list[Expression]) -> bool:
    """Whether the comparisons with constants of a conjunction leave a value."""
    compared: dict[Expression, list[tuple[str, Literal]]] = {}
    for each in joined:
        found = _comparison(each)
        if found is not None:
            value, operator, constant = found
            compared.setdefault(value, []).append((operator, constant))
    return all(_leave_a_value(each) for each in compared.values())


def _comparison(condition: Expression) -> tuple[Expression, str, Literal] | None:
    if not isinstance(condition, Binary) or condition.operator not in COMPARISONS:
        return None
    left, right, operator = condition.left, condition.right, condition.operator
    if isinstance(left, Literal):
        left, right, operator = right, left, _TURNED[operator]
    if isinstance(right, Literal) and isinstance(left, Name | Field | Moment):
        return left, operator, right
    return None


def _leave_a_value(compared: list[tuple[str, Literal]]) -> bool:
    for operator, constant in compared:
        if operator == "==":
            return all(BINARY[other](constant.value, wanted.value) for other, wanted in compared)
    orders = [(operator, constant.value) for operator, constant in compared if operator in _ORDERS]
    if any(not comparable(value, value) for _, value in orders):
        return False
    for (one, low), (other, high) in product(orders, orders):
        if not comparable(low, high):
            return False
        if one[0] == ">" and other[0] == "<" and not BINARY["<=" if one == ">=" and other == "<=" else "<"](low, high):
            return False
    return True
