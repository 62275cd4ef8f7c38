"""Semantics of the operators and functions of expressions, on every engine.

Values are numbers, strings, booleans and null. Values of different kinds are never equal and never ordered; null is
equal to null and ordered with nothing. A condition holds only if it is true, so null counts as false. Arithmetic on
anything but numbers (but + on two strings) gives null, so do division by zero and NaN, and two strings whose join would
be longer than `LONGEST`; an integer that leaves 64 bits goes on as a float. Raising was rejected: one odd event must
not take a detector down. SQL's third truth value was rejected as well: `not` would then lose events that a reader of
the pattern expects to find.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.sets.local_time import LOCAL_TIMES

LONGEST: Final = 1_000_000
"""Characters of a joined text at most: an expression of a few characters may double one again and again."""


def same(left: Attribute, right: Attribute) -> bool:
    """`left == right`."""
    return left == right and (type(left) is bool) == (type(right) is bool)


def different(left: Attribute, right: Attribute) -> bool:
    """`left != right`."""
    return not same(left, right)


def comparable(left: Attribute, right: Attribute) -> bool:
    """Whether both are of one kind, and neither is null."""
    kind, other = type(left), type(right)
    if kind is other:
        return left is not None
    return kind in (int, float) and other in (int, float)


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Attribute, Attribute], bool]:
    def ordered(left: Attribute, right: Attribute) -> bool:
        return comparable(left, right) and compare(left, right)

    return ordered


less = _ordering(operator.lt)
at_most = _ordering(operator.le)
greater = _ordering(operator.gt)
at_least = _ordering(operator.ge)


def number(value: int | float | complex) -> Attribute:
    """Result of arithmetic as an attribute's value: null for NaN, a float beyond 64 bits."""
    if type(value) is int:
        if INSTANT_MIN <= value <= INSTANT_MAX:
            return value
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if type(value) is not float or math.isnan(value):
        return None
    return value


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Attribute, Attribute], Attribute]:
    def computed(left: Attribute, right: Attribute) -> Attribute:
        if type(left) not in (int, float) or type(right) not in (int, float):
            return None
        try:
            return number(compute(left, right))
        except (ZeroDivisionError, OverflowError):
            return None

    return computed


subtract = _arithmetic(operator.sub)
multiply = _arithmetic(operator.mul)
divide = _arithmetic(operator.truediv)
modulo = _arithmetic(operator.mod)
_add_numbers = _arithmetic(operator.add)


def add(left: Attribute, right: Attribute) -> Attribute:
    """`left + right`: the sum of two numbers, or two strings joined; null beyond `LONGEST`."""
    if type(left) is str and type(right) is str:
        return left + right if len(left) + len(right) <= LONGEST else None
    return _add_numbers(left, right)


def negate(value: Attribute) -> Attribute:
    """`-value`."""
    return number(-value) if type(value) in (int, float) else None  # type: ignore[operator]


def _extreme(choose: Callable[..., Any]) -> Callable[..., Attribute]:
    def extreme(*values: Attribute) -> Attribute:
        known = [value for value in values if value is not None]
        if not known or any(not comparable(known[0], value) for value in known):
            return None
        chosen: Attribute = choose(known)
        return chosen

    return extreme


def _of_number(compute: Callable[[Any], Any]) -> Callable[[Attribute], Attribute]:
    def computed(value: Attribute) -> Attribute:
        if type(value) not in (int, float):
            return None
        try:
            return number(compute(value))
        except (OverflowError, ValueError):
            return None

    return computed


def _of_string(compute: Callable[..., Attribute]) -> Callable[..., Attribute]:
    def computed(*texts: Attribute) -> Attribute:
        return compute(*texts) if all(type(text) is str for text in texts) else None

    return computed


def json_text(value: Attribute) -> Attribute:
    """A value as JSON (RFC 8259); null beyond `LONGEST`. An infinite number is one that every reader rounds to it."""
    if type(value) is float and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else None


def _coalesce(*values: Attribute) -> Attribute:
    return next((value for value in values if value is not None), None)


def _choice(condition: Attribute, then: Attribute, otherwise: Attribute) -> Attribute:
    return then if condition is True else otherwise


def _contained(sought: Attribute, *options: Attribute) -> Attribute:
    return any(same(sought, each) for each in options)


class Function(NamedTuple):
    """Function of the language.

    Attributes:
        compute: from attribute values to one.
        least, most: number of arguments; `most` None for any number.
        takes, gives: kind of its arguments, None for any, and of its result, None for that of its arguments; the first
            argument of `if` is a condition, the second of a local time a zone.
    """

    compute: Callable[..., Attribute]
    least: int
    most: int | None
    takes: str | None
    gives: str | None


FUNCTIONS: Final[dict[str, Function]] = {
    "min": Function(_extreme(min), 1, None, None, None),
    "max": Function(_extreme(max), 1, None, None, None),
    "abs": Function(_of_number(abs), 1, 1, "number", "number"),
    "round": Function(_of_number(round), 1, 1, "number", "number"),
    "floor": Function(_of_number(math.floor), 1, 1, "number", "number"),
    "ceil": Function(_of_number(math.ceil), 1, 1, "number", "number"),
    "length": Function(_of_string(len), 1, 1, "string", "number"),
    "lower": Function(_of_string(str.lower), 1, 1, "string", "string"),
    "upper": Function(_of_string(str.upper), 1, 1, "string", "string"),
    "contains": Function(_of_string(lambda text, part: part in text), 2, 2, "string", "boolean"),
    "starts_with": Function(_of_string(str.startswith), 2, 2, "string", "boolean"),
    "ends_with": Function(_of_string(str.endswith), 2, 2, "string", "boolean"),
    "json": Function(json_text, 1, 1, None, "string"),
    "coalesce": Function(_coalesce, 1, None, None, None),
    # Engines compute the chosen argument alone; values cannot show it, as no expression has an effect.
    "if": Function(_choice, 3, 3, None, None),
    # Written `a in (b, c)`.
    "in": Function(_contained, 2, None, None, "boolean"),
    # Of an instant and a zone, both of which may be left out in a text.
    **{name: Function(compute, 2, 2, "number", gives) for name, (compute, gives) in LOCAL_TIMES.items()},
}

BINARY: Final[dict[str, Callable[[Attribute, Attribute], Attribute]]] = {
    "==": same,
    "!=": different,
    "<": less,
    "<=": at_most,
    ">": greater,
    ">=": at_least,
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": modulo,
}
"""What the binary operators compute; `and` and `or` need not look at their second operand and are not among them."""
