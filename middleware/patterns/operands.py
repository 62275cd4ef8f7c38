"""Operands in patterns, written with Python's operators: `(temp.temp < 15) & (temp.room == door.room)`.

They become expressions of the core language; nothing is computed here. `&`, `|` and `~` stand for `and`, `or` and
`not`, because Python does not let those be given a meaning. A chained comparison (`1 < x < 5`) or a condition in an
`if` is an error, and not silently half of what was meant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeAlias

from distced.middleware.model.errors import PatternError
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, MICROSECOND
from distced.middleware.sets.expressions import Binary, Call, Expression, Literal, Name, Unary, Verbatim
from distced.middleware.sets.values import FUNCTIONS

Given: TypeAlias = "Value | int | float | str | bool | timedelta | None"
"""An operand; a timedelta is its nanoseconds, as durations are in patterns."""

ConditionLike: TypeAlias = "Value | bool | str"
"""A condition over attributes, or its text."""

_QUOTED: Final = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`[^`\n]+`")


def _infix(operator: str) -> Callable[[Value, Given], Value]:
    return lambda left, right: Value(Binary(operator, left.expression, expression_of(right)))


def _reflected(operator: str) -> Callable[[Value, Given], Value]:
    return lambda right, left: Value(Binary(operator, expression_of(left), right.expression))


class Value:
    """Value computed when an event comes: an attribute, a register, an operation on others."""

    __slots__ = ("expression",)

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    __eq__ = _infix("==")  # type: ignore[assignment]
    __ne__ = _infix("!=")  # type: ignore[assignment]
    __lt__ = _infix("<")
    __le__ = _infix("<=")
    __gt__ = _infix(">")
    __ge__ = _infix(">=")
    __and__, __rand__ = _infix("and"), _reflected("and")
    __or__, __ror__ = _infix("or"), _reflected("or")
    __add__, __radd__ = _infix("+"), _reflected("+")
    __sub__, __rsub__ = _infix("-"), _reflected("-")
    __mul__, __rmul__ = _infix("*"), _reflected("*")
    __truediv__, __rtruediv__ = _infix("/"), _reflected("/")
    __mod__, __rmod__ = _infix("%"), _reflected("%")
    __hash__ = object.__hash__

    def __invert__(self) -> Value:
        return Value(Unary("not", self.expression))

    def __neg__(self) -> Value:
        return Value(Unary("-", self.expression))

    def __bool__(self) -> bool:
        raise PatternError(
            "a condition of a pattern is neither true nor false before events come",
            advice="write & for and, | for or, ~ for not, and (1 < x) & (x < 5) for 1 < x < 5",
        )


def value(name: str) -> Value:
    """Bare name: a register in its scope, an attribute of the event at hand, or one that a pattern publishes."""
    return Value(Name(name))


def call(function: str, *arguments: Given) -> Value:
    """Call of a function of the language, such as `call("max", value("top"), p.price)`."""
    known = FUNCTIONS.get(function)
    if known is None:
        raise PatternError("no function of this name", given=function, allowed=", ".join(FUNCTIONS))
    if len(arguments) < known.least or (known.most is not None and len(arguments) > known.most):
        allowed = f"{known.least} or more" if known.most is None else f"{known.least} to {known.most}"
        raise PatternError(f"{function} takes other arguments", given=f"{len(arguments)} arguments", allowed=allowed)
    return Value(Call(function, tuple(map(expression_of, arguments))))


def expression_of(given: Given) -> Expression:
    """Expression of an operand; `PatternError` for another value."""
    if isinstance(given, Value):
        return given.expression
    if isinstance(given, timedelta):
        return Literal((given // timedelta(microseconds=1)) * MICROSECOND)
    if given is None or isinstance(given, bool | str):
        return Literal(given)
    if isinstance(given, int) and INSTANT_MIN <= given <= INSTANT_MAX:
        return Literal(given)
    if isinstance(given, float) and not math.isnan(given):
        return Literal(given)
    raise PatternError(
        "not a value for a condition",
        given=given,
        allowed="an attribute such as door.room, a number, a text, true, false, None, a timedelta",
    )


def condition_of(given: ConditionLike) -> Expression:
    """Expression of a condition. A text stays text: broker nodes parse it."""
    return Verbatim(_checked(given)) if isinstance(given, str) else expression_of(given)


def _checked(text: str) -> str:
    """Text of a condition, on one line; `PatternError` for an open quote or bracket, which would reach further."""
    plain = _QUOTED.sub("", text)
    if any(sign in plain for sign in "'\"`#[];{}"):
        raise PatternError(
            "not a condition", given=text, allowed="an expression, without brackets, open quotes and comments"
        )
    depth = 0
    for sign in plain:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            break
    if depth or not text.strip():
        raise PatternError("not a condition", given=text, allowed="an expression whose parentheses match")
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
