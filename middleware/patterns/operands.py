"""Operands of patterns: values and conditions, durations and due times, from Python's values or text to the tree's.

Operators make expressions and compute nothing. `&`, `|` and `~` stand for `and`, `or` and `not`, which Python does not
let be overloaded; a chained comparison or a condition in an `if` is an error that says what to write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.timestamps import (
    HOUR,
    INSTANT_MAX,
    INSTANT_MIN,
    MICROSECOND,
    MINUTE,
    SECOND,
    parse_duration,
    parse_instant,
)
from distced.middleware.patterns.tree import Calculated, Instant, Recurring, Relative, TimeOfDay, When
from distced.middleware.sets.aggregates import AGGREGATES
from distced.middleware.sets.expressions import Binary, Call, Expression, Literal, Moment, Name, Unary, Verbatim
from distced.middleware.sets.local_time import DEFAULT_ZONE, LOCAL_TIMES
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

    def is_in(self, *options: Given) -> Value:
        """Condition that the value equals one of several: `door.room.is_in("FE02", "FE04")`."""
        return call("in", self, *options)

    def __bool__(self) -> bool:
        raise PatternError(
            "a condition of a pattern is neither true nor false before events come",
            advice="write & for and, | for or, ~ for not, and (1 < x) & (x < 5) for 1 < x < 5",
        )


def value(name: str) -> Value:
    """Bare name: a register in its scope, an attribute of the event at hand, or one that a pattern publishes."""
    return Value(Name(name))


def call(function: str, *arguments: Given) -> Value:
    """Call of a function of the language, such as `call("max", value("top"), p.price)`, or of an aggregate over all
    events of an iteration, `call("avg", p.price)`, or of a local time, `call("hour", hi(p), "Europe/London")`."""
    known = FUNCTIONS.get(function) or AGGREGATES.get(function)
    if known is None:
        allowed = ", ".join(dict.fromkeys((*FUNCTIONS, *AGGREGATES)))
        raise PatternError("no function of this name", given=function, allowed=allowed)
    if function in LOCAL_TIMES:
        return _local_time(function, arguments)
    if len(arguments) < known.least or (known.most is not None and len(arguments) > known.most):
        allowed = f"{known.least} or more" if known.most is None else f"{known.least} to {known.most}"
        raise PatternError(f"{function} takes other arguments", given=f"{len(arguments)} arguments", allowed=allowed)
    return Value(Call(function, tuple(map(expression_of, arguments))))


def _local_time(function: str, arguments: tuple[Given, ...]) -> Value:
    """Local time of an instant, `hi(p)` or a number, in a zone; without them of the event at hand, and in UTC."""
    zone, instants = DEFAULT_ZONE, arguments
    if arguments and isinstance(arguments[-1], str):
        zone, instants = arguments[-1], arguments[:-1]
    instant = expression_of(instants[0]) if instants else Moment("hi", "")
    if len(instants) > 1 or isinstance(instant, Literal):
        raise PatternError(
            f"{function} takes an instant and a time zone, or one of them",
            given=f"{len(arguments)} arguments",
            allowed=f'call("{function}", hi(p), "Europe/London")',
        )
    return Value(Call(function, (instant, Literal(zone))))


def choose(condition: ConditionLike, then: Given, otherwise: Given) -> Value:
    """Value `then` where the condition holds, else `otherwise`: `choose(p.price > 9, "high", "low")`."""
    return Value(Call("if", (condition_of(condition), expression_of(then), expression_of(otherwise))))


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


CLOCK_TIME: Final = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:(Z)|([+-])(\d\d):?(\d\d))?")
"""A time of day, with the offset of its zone if it has one."""

_ZONE: Final = re.compile(r" *'([^'\n]+)'")
_ALLOWED: Final = "at 19:00, at 19:00 'Europe/London', at 2026-11-21T08:00Z"


def duration(given: str | timedelta) -> int:
    """Nanoseconds of a duration, 0 or more."""
    if isinstance(given, timedelta):
        nanoseconds = (given // timedelta(microseconds=1)) * MICROSECOND
        if nanoseconds < 0:
            raise PatternError("a duration that goes back", given=str(given), allowed="0 or more")
        return nanoseconds
    return parse_duration(given)


def when(given: Value | str | timedelta | time | datetime) -> When:
    """Due time of a time event."""
    if isinstance(given, Value):
        return Calculated(given.expression)
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise PatternError("a moment without a zone", given=str(given), advice="give it a tzinfo, such as UTC")
        return Instant(parse_instant(given.isoformat()))
    if isinstance(given, time):
        return _time_of_day(given)
    if isinstance(given, str) and given.startswith("at "):
        return _moment(given.removeprefix("at ").strip())
    if isinstance(given, str) and given.startswith("every "):
        return _recurring(given, given.removeprefix("every ").strip())
    return Relative(duration(given))


def _recurring(given: str, period: str) -> Recurring:
    if not period.startswith("day "):
        delay = duration(period)
        if delay == 0:
            raise PatternError("a time event that recurs at once", given=given, allowed="every 1ns or more")
        return Recurring(Relative(delay))
    at = period.removeprefix("day ").strip()
    first = _moment(at.removeprefix("at ").strip()) if at.startswith("at ") else None
    if not isinstance(first, TimeOfDay):
        raise PatternError("not a recurring time", given=given, allowed="every 5min, every day at 19:00")
    return Recurring(first)


def clock_time(match: re.Match[str]) -> TimeOfDay:
    """Time of day that `CLOCK_TIME` matched; `PatternError` for one beyond 23:59:59."""
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    zone = (int(match[7]) * 60 + int(match[8])) * (1 if match[6] == "+" else -1) if match[6] else 0
    if hour > 23 or minute > 59 or second > 59 or abs(zone) >= 24 * 60:
        raise PatternError("not a time of day", given=match[0], allowed="00:00 to 23:59:59")
    return TimeOfDay(hour * HOUR + minute * MINUTE + second * SECOND + int((match[4] or "0").ljust(9, "0")), zone)


def _moment(text: str) -> When:
    match = CLOCK_TIME.match(text)
    if match is not None:
        zone = _ZONE.fullmatch(text, match.end())
        if match.end() == len(text) or (zone and not match[5] and not match[6]):
            time_of_day = clock_time(match)
            return TimeOfDay(time_of_day.nanosecond, zone[1]) if zone else time_of_day
    try:
        return Instant(parse_instant(text))
    except DistcedError:
        raise PatternError("not a moment", given=f"at {text}", allowed=_ALLOWED) from None


def _time_of_day(given: time) -> TimeOfDay:
    seconds = given.hour * HOUR + given.minute * MINUTE + given.second * SECOND
    nanosecond = seconds + given.microsecond * MICROSECOND
    if given.tzinfo is None:
        return TimeOfDay(nanosecond)
    if isinstance(given.tzinfo, ZoneInfo):
        return TimeOfDay(nanosecond, given.tzinfo.key)
    offset = given.utcoffset()
    if offset is None:
        raise PatternError(
            "a zone without an offset", given=str(given.tzinfo), allowed="UTC, timezone(...), ZoneInfo(...)"
        )
    return TimeOfDay(nanosecond, round(offset.total_seconds() / 60))
