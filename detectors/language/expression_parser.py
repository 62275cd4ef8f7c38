"""Parser of the expressions and describable sets inside a pattern's brackets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from distced.detectors.language.constants import Constant
from distced.detectors.language.depth import MOST_BRACKETS, too_deep
from distced.detectors.language.scanner import Scanner
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import INSTANT_MAX, UNITS, duration_of
from distced.middleware.sets import describable
from distced.middleware.sets.aggregates import AGGREGATES, OVER, SLIDING
from distced.middleware.sets.expressions import (
    COMPARISONS,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Span,
    Unary,
    variables,
)
from distced.middleware.sets.local_time import DEFAULT_ZONE, LOCAL_TIMES, near_zone, time_zone
from distced.middleware.sets.state_reads import ALL, CURRENT, STATE_READS
from distced.middleware.sets.values import FUNCTIONS

_UNIT_LETTERS = "".join(UNITS)
# No number of more digits fits into 64 bits or makes sense as a fraction of a unit; Python does not even read them all.
_MOST_DIGITS = 40
_CALLED = tuple(dict.fromkeys(each for each in (*FUNCTIONS, *AGGREGATES, CURRENT, ALL) if each != "in"))
_ADVICE = {
    "in": "write v in (1, 2)",
}
_ARGUMENTS = {
    "nth": "say which value: nth(p.price, 2) is the second, nth(p.price, -2) the last but one",
}
_BOOLEAN_OPERATORS = (*COMPARISONS, "and", "or")


class ExpressionParser:
    """The part of the parser for expressions and sets.

    Attributes:
        depth: number of open brackets; bounded, so that no text exhausts the stack.
        constants: values that have a name.
        domain_may_follow: whether a `<=` may end the label of an atom here; not inside inner brackets.
        named: what a name may stand for, in errors.
    """

    named = "an attribute, a variable or a register"

    def __init__(self, scanner: Scanner, constants: Mapping[str, Constant] | None = None) -> None:
        self.scanner = scanner
        self.constants = constants or {}
        self.depth = 0
        self.domain_may_follow = False

    # Expressions, loosest operator first.

    def expression(self) -> Expression:
        """An expression."""
        return self._left_associative(("or",), lambda: self._left_associative(("and",), self._not))

    def sum(self) -> Expression:
        """An expression without a comparison outside parentheses, for places where `<=` is ambiguous."""
        return self._left_associative(("+", "-"), lambda: self._left_associative(("*", "/", "%"), self._negative))

    def _left_associative(self, operators: tuple[str, ...], operand: Callable[[], Expression]) -> Expression:
        start = self.scanner.word.start
        left = operand()
        while word := self.scanner.take(*operators):
            right = operand()
            left = Binary(word.text, left, right, span=self._span(start))
        return left

    def _not(self) -> Expression:
        start = self.scanner.word.start
        if self.scanner.take("not"):
            with self._deeper():
                return Unary("not", self._not(), span=self._span(start))
        return self._comparison()

    def _comparison(self) -> Expression:
        start = self.scanner.word.start
        opened = self.scanner.word.text == "("
        left = self.sum()
        closed = opened and self.scanner.previous.text == ")"
        if self._separates_domain(left, closed) or not self.scanner.at(*COMPARISONS):
            if self.scanner.word.text == "=" and self.scanner.word.kind == "sign":
                raise self.scanner.unexpected("write == to compare")
            if not self._at_options():
                return left
            self.scanner.next()
            left = Call("in", (left, *self._options()), span=self._span(start))
            if self._separates_domain(left, False) or not self.scanner.at(*COMPARISONS):
                return left
            raise self.scanner.unexpected("comparisons do not chain")
        operator = self.scanner.next().text
        right = self.sum()
        if self.scanner.at(*COMPARISONS) and not (self.domain_may_follow and self.scanner.word.text == "<="):
            raise self.scanner.unexpected("comparisons do not chain: write 1 < v and v < 3")
        return Binary(operator, left, right, span=self._span(start))

    def _separates_domain(self, left: Expression, closed: bool) -> bool:
        """Whether a `<=` here ends the label of an atom and opens its domain, as in `[A where (a == 1) <= {A, B}]`."""
        word = self.scanner.word
        if not self.domain_may_follow or word.kind != "sign" or word.text != "<=":
            return False
        following = self.scanner.peek()
        if following.text in ("{", "any") and following.kind in ("sign", "keyword"):
            return True
        condition = not isinstance(left, Binary) or left.operator in _BOOLEAN_OPERATORS
        return closed and condition and (following.kind == "name" or following.text == "(")

    def _at_options(self) -> bool:
        """Whether `in (` follows. A word by itself is still a name."""
        word = self.scanner.word
        return word.text == "in" and word.kind == "name" and self.scanner.text[word.start] != "`"

    def _options(self) -> tuple[Expression, ...]:
        """`(1, 2, 3)` behind `in`."""
        options: list[Expression] = []
        if constant := self._constant(listed=True):
            return constant.values
        with self._enclosed():
            self.scanner.expect("(")
            while not options or self.scanner.take(","):
                options.append(self.expression())
            self.scanner.expect(")")
        return tuple(options)

    def _constant(self, *, listed: bool = False) -> Constant | None:
        """Take the name of a constant, with one value or `listed`; None for another word."""
        word = self.scanner.word
        constant = self.constants.get(word.text) if word.kind == "name" else None
        if constant is None or (listed and not constant.listed):
            return None
        self.scanner.next()
        if constant.listed != listed:
            raise self.scanner.error(
                "several values where one is wanted",
                Span(word.start, word.end),
                given=word.text,
                advice=f"write v in {word.text}",
            )
        span = Span(word.start, word.end)
        return replace(constant, values=tuple(replace(each, span=span) for each in constant.values))

    def constant(self, name: str) -> Constant:
        """The value of a constant of this name: a literal, or several in parentheses."""
        start = self.scanner.word.start
        if not self.scanner.take("("):
            duration = self.scanner.word.kind == "duration"
            return Constant((self._literal(name),), duration=duration)
        values = [self._literal(name)]
        while self.scanner.take(","):
            values.append(self._literal(name))
        self.scanner.expect(")")
        if len(values) == 1:
            raise self.scanner.error("several values are wanted in parentheses", self._span(start))
        return Constant(tuple(values), listed=True)

    def _literal(self, name: str) -> Literal:
        start = self.scanner.word.start
        value = self.sum()
        if not isinstance(value, Literal):
            raise self.scanner.error(
                "not the value of a constant",
                self._span(start),
                given=self.scanner.text[start : self.scanner.previous.end],
                allowed="a number, a duration, a text, true, false, null, or several of them in parentheses",
            )
        return Literal(value.value, constant=name)

    def _negative(self) -> Expression:
        start = self.scanner.word.start
        if not self.scanner.take("-"):
            return self._primary()
        if self.scanner.at_kind("number") or self.scanner.at("inf"):
            literal = self._primary()
            if isinstance(literal, Literal) and type(literal.value) in (int, float):
                return Literal(-literal.value, span=self._span(start))  # type: ignore[operator]
        with self._deeper():
            return Unary("-", self._negative(), span=self._span(start))

    def _primary(self) -> Expression:
        scanner = self.scanner
        start = scanner.word.start
        if scanner.at_kind("number"):
            return Literal(self._number(), span=self._span(start))
        if scanner.at_kind("duration"):
            return Literal(self.duration(), span=self._span(start))
        if scanner.at_kind("string"):
            return Literal(scanner.next().text, span=self._span(start))
        if word := scanner.take("true", "false", "null", "inf"):
            value = {"true": True, "false": False, "null": None, "inf": math.inf}[word.text]
            return Literal(value, span=self._span(start))
        if scanner.take("("):
            with self._enclosed():
                inner = self.expression()
            scanner.expect(")")
            return inner
        if scanner.word.text in self.constants and scanner.peek().text not in (".", "("):
            constant = self._constant()
            if constant is not None:
                return constant.values[0]
        name = scanner.expect_kind("name", self.named)
        if scanner.take("."):
            attribute = scanner.expect_kind("name", "an attribute")
            return Field(name.text, attribute.text, span=self._span(start))
        if scanner.text[name.start] != "`" and scanner.word.text == "(" and scanner.word.kind == "sign":
            if name.text in ("lo", "hi"):
                return self._moment(name.text, start)
            if name.text in _CALLED:
                return self._call(name.text, start)
            raise scanner.error(
                "no function of this name",
                Span(name.start, name.end),
                given=name.text,
                allowed=", ".join((*_CALLED, "lo", "hi")),
                advice=_ADVICE.get(name.text),
            )
        return Name(name.text, span=self._span(start))

    def _moment(self, end: str, start: int) -> Expression:
        self.scanner.expect("(")
        variable = self.scanner.next().text if self.scanner.at_kind("name") else ""
        self.scanner.expect(")")
        return Moment(end, variable, span=self._span(start))

    def _call(self, function: str, start: int) -> Expression:
        if function in LOCAL_TIMES:
            return self._local_time(function, start)
        arguments: list[Expression] = []
        with self._enclosed():
            self.scanner.expect("(")
            while not self.scanner.at(")"):
                if arguments:
                    self.scanner.expect(",")
                arguments.append(self.expression())
            self.scanner.expect(")")
        if self._at_over():
            return self._over(function, arguments, start)
        if function in STATE_READS and (function in (CURRENT, ALL) or len(arguments) > 1):
            return self._state_read(function, arguments, start)
        known = FUNCTIONS.get(function) or AGGREGATES[function]
        if len(arguments) < known.least or (known.most is not None and len(arguments) > known.most):
            raise self.scanner.error(
                f"{function} takes {_count(known.least, known.most)}",
                self._span(start),
                given=f"{len(arguments)} given",
                advice=_ARGUMENTS.get(function),
            )
        if function == "count" and isinstance(arguments[0], Name):
            arguments = [Moment("hi", arguments[0].name, span=arguments[0].span)]
        return Call(function, tuple(arguments), span=self._span(start))

    def _state_read(self, function: str, arguments: list[Expression], start: int) -> Expression:
        """`last(Inside.temp, room)`, of a state and no variable."""
        if function == "count" and isinstance(arguments[0], Name):
            arguments[0] = Moment("hi", arguments[0].name, span=arguments[0].span)
        if not arguments or len(variables(arguments[0])) != 1:
            raise self.scanner.error(
                f"{function} takes what is read of a state, and the values of its key",
                self._span(start),
                given=self.scanner.text[start : self.scanner.previous.end],
                allowed=f"{function}(Inside.temp, room), with type Inside = last Temp by room",
            )
        return Call(function, tuple(arguments), span=self._span(start))

    def _local_time(self, function: str, start: int) -> Expression:
        """`hour('Europe/London')`, `hour(x, 'Europe/London')`: of an event, or of an instant; without a zone in UTC."""
        scanner = self.scanner
        arguments: list[Expression] = []
        with self._enclosed():
            scanner.expect("(")
            while not scanner.at(")"):
                if arguments:
                    scanner.expect(",")
                arguments.append(self.expression() if arguments else self._instant())
            scanner.expect(")")
        if not arguments or (isinstance(arguments[0], Literal) and isinstance(arguments[0].value, str)):
            arguments.insert(0, Moment("hi", "", span=self._span(start)))
        if len(arguments) == 1:
            arguments.append(Literal(DEFAULT_ZONE, span=self._span(start)))
        zone = arguments[1]
        if len(arguments) > 2 or not isinstance(zone, Literal) or not isinstance(zone.value, str):
            raise scanner.error(
                f"{function} takes a variable and a time zone, or one of them",
                self._span(start),
                given=scanner.text[start : scanner.previous.end],
                allowed=f"{function}('Europe/London'), {function}(x, 'Europe/London'), {function}(x), {function}()",
            )
        self.check_zone(zone.value, zone.span or self._span(start))
        return Call(function, tuple(arguments), span=self._span(start))

    def _instant(self) -> Expression:
        """The first argument of a local time: the name of a variable, or an expression."""
        word = self.scanner.word
        if word.kind == "name" and word.text not in self.constants and self.scanner.peek().text in (",", ")"):
            self.scanner.next()
            return Moment("hi", word.text, span=Span(word.start, word.end))
        return self.expression()

    def check_zone(self, name: str, span: Span) -> None:
        """`PatternError` for an unknown time zone."""
        if time_zone(name) is None:
            near = near_zone(name)
            raise self.scanner.error(
                "unknown time zone",
                span,
                given=name,
                allowed="a name such as 'Europe/London'",
                advice=f"did you mean '{near}'?" if near else None,
            )

    def _at_over(self) -> bool:
        """Whether `over 10min` follows. A word by itself is still a name."""
        return self.scanner.word.text == OVER and self.scanner.word.kind == "name"

    def _over(self, function: str, arguments: list[Expression], start: int) -> Expression:
        """An aggregate over a sliding window, behind its arguments."""
        if function == "count" and not arguments:
            arguments = [Moment("hi", "")]
        if function not in AGGREGATES or not arguments:
            given = self.scanner.text[start : self.scanner.previous.end]
            allowed = ", ".join(SLIDING)
            raise self.scanner.error("no aggregate over a window", self._span(start), given=given, allowed=allowed)
        aggregate = Call(function, tuple(arguments), span=self._span(start))
        self.scanner.next()
        return Call(OVER, (aggregate, Literal(self.duration())), span=self._span(start))

    def _number(self) -> int | float:
        word = self.scanner.next()
        if word.text.isdigit():
            if len(word.text) <= _MOST_DIGITS and int(word.text) <= INSTANT_MAX:
                return int(word.text)
            raise self.scanner.error(
                "an integer beyond 64 bits", Span(word.start, word.end), given=word.text, advice="write it as a float"
            )
        return float(word.text)

    def duration(self) -> int:
        """A duration, in nanoseconds."""
        given = self.scanner.word
        if constant := self._constant():
            value = constant.values[0].value
            if constant.duration and isinstance(value, int):
                return value
            raise self.scanner.error(
                "a constant that is no duration",
                Span(given.start, given.end),
                given=given.text,
                advice=f"define it with a unit: {given.text} = 5min",
            )
        word = self.scanner.expect_kind("duration", "a duration such as 15ns, 5s, 2min, 1h or 1.5d")
        number = word.text.rstrip(_UNIT_LETTERS)
        nanoseconds = INSTANT_MAX + 1
        if len(number) <= _MOST_DIGITS:
            try:
                nanoseconds = duration_of(number, word.text[len(number) :])
            except DistcedError as error:
                raise self.scanner.error(
                    error.problem, Span(word.start, word.end), given=error.given, allowed=error.allowed
                ) from None
        if nanoseconds > INSTANT_MAX:
            raise self.scanner.error(
                "a duration beyond 64 bits of nanoseconds", Span(word.start, word.end), given=word.text
            )
        return nanoseconds

    # Describable sets.

    def set_list(self) -> describable.DescribableSet:
        """`A, B`: a set, or the union of several."""
        start = self.scanner.word.start
        members = [self.set()]
        while self.scanner.take(","):
            members.append(self.set())
        return members[0] if len(members) == 1 else describable.Union(tuple(members), span=self._span(start))

    def set(self) -> describable.DescribableSet:
        """A set with `-` and `&`, the latter tighter."""
        start = self.scanner.word.start
        left = self._intersection()
        while self.scanner.take("-"):
            left = describable.Difference(left, self._intersection(), span=self._span(start))
        return left

    def _intersection(self) -> describable.DescribableSet:
        start = self.scanner.word.start
        left = self._filtered()
        while self.scanner.take("&"):
            left = describable.Intersection(left, self._filtered(), span=self._span(start))
        return left

    def _filtered(self) -> describable.DescribableSet:
        start = self.scanner.word.start
        described = self._set_primary()
        while self.scanner.take("where"):
            described = describable.Filtered(described, self.expression(), span=self._span(start))
        return described

    def _set_primary(self) -> describable.DescribableSet:
        scanner = self.scanner
        start = scanner.word.start
        if scanner.take("any"):
            return describable.AnySet(span=self._span(start))
        if scanner.take("{"):
            members: list[describable.DescribableSet] = []
            with self._enclosed():
                while not scanner.at("}"):
                    if members:
                        scanner.expect(",")
                    members.append(self.set())
            scanner.expect("}")
            return describable.Union(tuple(members), span=self._span(start))
        if scanner.take("("):
            with self._enclosed():
                inner = self.set()
            scanner.expect(")")
            return inner
        return describable.TypeSet(scanner.expect_kind("name", "an event type").text, span=self._span(start))

    # Bookkeeping.

    def _span(self, start: int) -> Span:
        return Span(start, self.scanner.previous.end)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Count one level for the duration of the block."""
        self._descend()
        yield
        self.depth -= 1

    @contextmanager
    def _enclosed(self) -> Iterator[None]:
        """Count one level inside brackets of an expression or a set."""
        outer, self.domain_may_follow = self.domain_may_follow, False
        self._descend()
        yield
        self.depth -= 1
        self.domain_may_follow = outer

    def _descend(self) -> None:
        self.depth += 1
        if self.depth > MOST_BRACKETS:
            word = self.scanner.word
            raise too_deep(self.scanner.text, Span(word.start, word.end))


def _count(least: int, most: int | None) -> str:
    count = f"at least {least}" if most is None else f"{least}" if least == most else f"{least} to {most}"
    return f"{count} argument" if count[-2:] in ("1", " 1") else f"{count} arguments"
