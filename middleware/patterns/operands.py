"""Expressions over events, written with Python's operators: `(temp.temp < 15) & (temp.room == door.room)`.

They become expressions of the core language; nothing is computed here. `&`, `|` and `~` stand for `and`, `or` and
`not`, because Python does not let those be given a meaning. A chained comparison (`1 < x < 5`) or a condition in an
`if` is an error, and not silently half of what was meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN, MICROSECOND
from distced.middleware.sets.expressions import Binary, Call, Expression, Field, Literal, Moment, Name, Unary
from distced.middleware.sets.values import FUNCTIONS

Given: TypeAlias = "Value | int | float | str | bool | timedelta | None"
"""What may stand where a value is wanted; a timedelta is its nanoseconds, as durations are in patterns."""

Resolve: TypeAlias = Callable[[object], str]
"""The variable an event is bound to; empty for the event at hand."""


class Value:
    """A value that is worked out when an event comes: an attribute, a register, something computed of them."""

    def expression(self, resolve: Resolve) -> Expression:
        """It as an expression of the core language."""
        raise NotImplementedError

    def events(self) -> Iterator[object]:
        """The events whose attributes or times it reads."""
        return iter(())

    def __eq__(self, other: Given) -> Value:  # type: ignore[override]
        return _Operation("==", self, as_value(other))

    def __ne__(self, other: Given) -> Value:  # type: ignore[override]
        return _Operation("!=", self, as_value(other))

    def __lt__(self, other: Given) -> Value:
        return _Operation("<", self, as_value(other))

    def __le__(self, other: Given) -> Value:
        return _Operation("<=", self, as_value(other))

    def __gt__(self, other: Given) -> Value:
        return _Operation(">", self, as_value(other))

    def __ge__(self, other: Given) -> Value:
        return _Operation(">=", self, as_value(other))

    def __and__(self, other: Given) -> Value:
        return _Operation("and", self, as_value(other))

    def __rand__(self, other: Given) -> Value:
        return _Operation("and", as_value(other), self)

    def __or__(self, other: Given) -> Value:
        return _Operation("or", self, as_value(other))

    def __ror__(self, other: Given) -> Value:
        return _Operation("or", as_value(other), self)

    def __invert__(self) -> Value:
        return _Opposite("not", self)

    def __neg__(self) -> Value:
        return _Opposite("-", self)

    def __add__(self, other: Given) -> Value:
        return _Operation("+", self, as_value(other))

    def __radd__(self, other: Given) -> Value:
        return _Operation("+", as_value(other), self)

    def __sub__(self, other: Given) -> Value:
        return _Operation("-", self, as_value(other))

    def __rsub__(self, other: Given) -> Value:
        return _Operation("-", as_value(other), self)

    def __mul__(self, other: Given) -> Value:
        return _Operation("*", self, as_value(other))

    def __rmul__(self, other: Given) -> Value:
        return _Operation("*", as_value(other), self)

    def __truediv__(self, other: Given) -> Value:
        return _Operation("/", self, as_value(other))

    def __rtruediv__(self, other: Given) -> Value:
        return _Operation("/", as_value(other), self)

    def __mod__(self, other: Given) -> Value:
        return _Operation("%", self, as_value(other))

    def __rmod__(self, other: Given) -> Value:
        return _Operation("%", as_value(other), self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise PatternError(
            "a condition of a pattern is neither true nor false before events come",
            advice="write & for and, | for or, ~ for not, and (1 < x) & (x < 5) for 1 < x < 5",
        )


@dataclass(frozen=True, eq=False, slots=True)
class AttributeOf(Value):
    """`event.name`."""

    owner: object
    name: str

    def expression(self, resolve: Resolve) -> Expression:
        variable = resolve(self.owner)
        return Field(variable, self.name) if variable else Name(self.name)

    def events(self) -> Iterator[object]:
        yield self.owner


@dataclass(frozen=True, eq=False, slots=True)
class _MomentOf(Value):
    end: str
    owner: object

    def expression(self, resolve: Resolve) -> Expression:
        return Moment(self.end, resolve(self.owner))

    def events(self) -> Iterator[object]:
        yield self.owner


@dataclass(frozen=True, eq=False, slots=True)
class _Named(Value):
    name: str

    def expression(self, resolve: Resolve) -> Expression:
        return Name(self.name)


@dataclass(frozen=True, eq=False, slots=True)
class _Constant(Value):
    value: Attribute

    def expression(self, resolve: Resolve) -> Expression:
        return Literal(self.value)


@dataclass(frozen=True, eq=False, slots=True)
class _Operation(Value):
    operator: str
    left: Value
    right: Value

    def expression(self, resolve: Resolve) -> Expression:
        return Binary(self.operator, self.left.expression(resolve), self.right.expression(resolve))

    def events(self) -> Iterator[object]:
        yield from self.left.events()
        yield from self.right.events()


@dataclass(frozen=True, eq=False, slots=True)
class _Opposite(Value):
    operator: str
    operand: Value

    def expression(self, resolve: Resolve) -> Expression:
        return Unary(self.operator, self.operand.expression(resolve))

    def events(self) -> Iterator[object]:
        return self.operand.events()


@dataclass(frozen=True, eq=False, slots=True)
class _Applied(Value):
    function: str
    arguments: tuple[Value, ...]

    def expression(self, resolve: Resolve) -> Expression:
        return Call(self.function, tuple(each.expression(resolve) for each in self.arguments))

    def events(self) -> Iterator[object]:
        for each in self.arguments:
            yield from each.events()


def value(name: str) -> Value:
    """A bare name: a register in its scope, an attribute of the event at hand, or what a pattern publishes."""
    return _Named(name)


def call(function: str, *arguments: Given) -> Value:
    """A function of the language, such as `call("max", value("top"), p.price)`."""
    known = FUNCTIONS.get(function)
    if known is None:
        raise PatternError("no function of this name", given=function, allowed=", ".join(FUNCTIONS))
    if len(arguments) < known.least or (known.most is not None and len(arguments) > known.most):
        allowed = f"{known.least} or more" if known.most is None else f"{known.least} to {known.most}"
        raise PatternError(f"{function} takes other arguments", given=f"{len(arguments)} arguments", allowed=allowed)
    return _Applied(function, tuple(map(as_value, arguments)))


def lo(event: object) -> Value:
    """The beginning of an event's timestamp, in nanoseconds."""
    return _MomentOf("lo", event)


def hi(event: object) -> Value:
    """The end of an event's timestamp, in nanoseconds."""
    return _MomentOf("hi", event)


def as_value(given: Given) -> Value:
    """A value of what stands in its place; `PatternError` for what can be none."""
    if isinstance(given, Value):
        return given
    if isinstance(given, timedelta):
        return _Constant((given // timedelta(microseconds=1)) * MICROSECOND)
    if given is None or isinstance(given, bool | str):
        return _Constant(given)
    if isinstance(given, int) and INSTANT_MIN <= given <= INSTANT_MAX:
        return _Constant(given)
    if isinstance(given, float) and not math.isnan(given):
        return _Constant(given)
    raise PatternError(
        "not a value for a condition",
        given=given,
        allowed="an attribute such as door.room, a number, a text, true, false, None, a timedelta",
    )
