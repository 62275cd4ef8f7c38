"""Selectivity: shares of events that pass conditions, of a detector that does not run yet.

Selinger et al., "Access Path Selection in a Relational Database Management System" (SIGMOD 1979), section 4 and
Table 1: by the distribution of the values where it is known, else a tenth for an equality, a third for an inequality;
parts of a condition are independent. Distributions are those that nodes publish of the events they read
(`brokers.node.value_samples`). Of an equality with another event's attribute the share is that of pairs of events with
the same value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Final

from distced.middleware.model.events import Attribute
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import FALSE, TRUE, Binary, Expression, Literal, Name, Parameter, Unary
from distced.middleware.wire.directory_entries import AttributeValues, TypeValues, value_key

EQUAL: Final = 0.1  # Share for an equality of unknown values
COMPARED: Final = 1 / 3  # The same for an inequality
OTHERWISE: Final = 0.5  # Share for other conditions, such as a boolean attribute

DIGITS: Final = 6
"""Digits of shares: patterns whose constants have the same shares have the same estimate."""

MOST_SAMPLED: Final = 1_000
"""Greatest size of a sample that counts, whatever an entry has."""

_DOUBT: Final = 4.0
"""Weight of the unknown: number of events of a sample for which the assumed share counts."""

_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


class Selectivity:
    """Shares of events for the conditions of one pattern.

    Attributes:
        values: distributions by type; empty where none are known.
        constants: those of the pattern, in the order of its parameters.
        registers: names of its registers, which are no attributes.
    """

    def __init__(
        self,
        values: Mapping[str, TypeValues],
        constants: Sequence[Attribute] = (),
        registers: Collection[str] = (),
    ) -> None:
        self.values = values
        self.constants = constants
        self.registers = registers

    def shares(self, described: ConditionByType, types: Collection[str]) -> dict[str, float]:
        """Share of the events of each type that can be in a set; types without any are left out."""
        found = {}
        for name in sorted(types):
            share = float(f"{self.share(described.condition(name), name):.{DIGITS}g}")
            if share:
                found[name] = share
        return found

    def share(self, condition: Expression, type_name: str = "") -> float:
        """Share of the events of a type that pass a condition."""
        match condition:
            case Unary(operator="not", operand=operand):
                return 1.0 - self.share(operand, type_name)
            case Binary(operator="and", left=left, right=right):
                return self.share(left, type_name) * self.share(right, type_name)
            case Binary(operator="or", left=left, right=right):
                one, other = self.share(left, type_name), self.share(right, type_name)
                return one + other - one * other
            case Binary(operator=("==" | "!=" | "<" | "<=" | ">" | ">=") as operator, left=left, right=right):
                return self._compared(operator, left, right, type_name)
            case Literal():
                return 1.0 if condition == TRUE else 0.0 if condition == FALSE else OTHERWISE
            case _:
                return OTHERWISE

    def equal(self, type_name: str, attribute: str) -> float:
        """Share of pairs of events of a type that agree in an attribute."""
        known = self._known(type_name, attribute)
        if known is None:
            return EQUAL
        sample, values = known
        rest = max(1.0 - sum(values.common.values()), 0.0)
        found = sum(share * share for share in values.common.values())
        found += rest * rest / values.others if values.others else 0.0
        return float(f"{_doubted(found, sample, EQUAL):.{DIGITS}g}")

    def _compared(self, operator: str, left: Expression, right: Expression, type_name: str) -> float:
        assumed = EQUAL if operator == "==" else 1.0 - EQUAL if operator == "!=" else COMPARED
        if not self._is_attribute(left):
            left, right, operator = right, left, _TURNED[operator]
        if not isinstance(left, Name) or not self._is_attribute(left):
            return assumed
        known = self._known(type_name, left.name)
        if known is None:
            return assumed
        sample, values = known
        if not isinstance(right, Literal | Parameter):
            equal = self.equal(type_name, left.name)
            return equal if operator == "==" else 1.0 - equal if operator == "!=" else COMPARED
        if isinstance(right, Parameter):
            if right.number >= len(self.constants):
                return assumed
            constant = self.constants[right.number]
        else:
            constant = right.value
        if operator in ("==", "!="):
            found = _share_of_value(values, constant)
            return _doubted(found if operator == "==" else 1.0 - found, sample, assumed)
        if isinstance(constant, bool) or not isinstance(constant, int | float):
            return assumed
        parts = _share_below(values, constant)
        if parts is None:
            return assumed
        below, equal = parts
        above = max(values.numbers - below - equal, 0.0)
        share = {"<": below, "<=": below + equal, ">": above, ">=": above + equal}[operator]
        return _doubted(share, sample, assumed)

    def _is_attribute(self, expression: Expression) -> bool:
        return isinstance(expression, Name) and expression.name not in self.registers

    def _known(self, type_name: str, attribute: str) -> tuple[int, AttributeValues] | None:
        of_type = self.values.get(type_name)
        values = None if of_type is None else of_type.attributes.get(attribute)
        return None if of_type is None or values is None else (min(of_type.sample, MOST_SAMPLED), values)


def _doubted(share: float, sample: int, assumed: float) -> float:
    """Share in a sample, corrected by what was assumed without: nothing is impossible as it has not occurred yet."""
    # In this order, what is no number counts as 0.
    return (min(max(0.0, share), 1.0) * sample + assumed * _DOUBT) / (sample + _DOUBT)


def _share_of_value(values: AttributeValues, constant: Attribute) -> float:
    found = values.common.get(value_key(constant))
    if found is not None or not values.others:
        return found or 0.0
    return max(1.0 - sum(values.common.values()), 0.0) / values.others


def _share_below(values: AttributeValues, constant: int | float) -> tuple[float, float] | None:
    """Shares of values below a number, and equal to it; None for unknown."""
    if values.quantiles:
        quantiles, last = values.quantiles, len(values.quantiles) - 1 or 1
        low, high = bisect_left(quantiles, constant), bisect_right(quantiles, constant)
        equal = values.common.get(value_key(constant), 0.0)
        if high > low:
            # The middle of a frequent value.
            return max((low + high - 1) / 2 / last * values.numbers - equal / 2, 0.0), equal
        if low == 0:
            return 0.0, equal
        if low == len(quantiles):
            return values.numbers, 0.0
        before, after = quantiles[low - 1], quantiles[low]
        part = (constant - before) / (after - before) if 0 < after - before < inf else 0.0
        return (low - 1 + part) / last * values.numbers, equal
    if values.others:
        return None
    below = equal = 0.0
    for key, share in values.common.items():
        number = _number(key)
        if number is not None:
            below += share if number < constant else 0.0
            equal += share if number == constant else 0.0
    return below, equal


def _number(key: str) -> float | None:
    """Number of the key of a value; None for a digest, a truth value and null."""
    try:
        return float(key)
    except ValueError:
        return None
