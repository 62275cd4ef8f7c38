"""Expressions over attributes: guards, register updates, output attributes, final filters.

The nodes are plain values, equal when they are written alike. Their meaning is in `values`, their evaluation in
`evaluation`, so that a second engine can run the same expressions its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import is_not
from typing import Final, NamedTuple, TypeAlias

from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import format_duration
from distced.middleware.sets.local_time import DEFAULT_ZONE, LOCAL_TIMES


class Span(NamedTuple):
    """Place in a pattern's text: offsets in characters, the end excluded."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spanned:
    """Node of a tree; its place in the text does not count in comparisons."""

    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(Spanned):
    """Number, text, true, false or null; a duration is its nanoseconds. `constant`: its name, where it has one."""

    value: Attribute
    constant: str = field(default="", compare=False, repr=False, kw_only=True)

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and true are equal to Python, and three different things to a pattern.
        return type(other) is Literal and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str]:
        return (type(self.value).__name__, repr(self.value))


@dataclass(frozen=True, slots=True)
class Name(Spanned):
    """Bare name: a register in whose scope it stands, else an attribute of the event at hand."""

    name: str


@dataclass(frozen=True, slots=True)
class Field(Spanned):
    """`x.attribute`: an attribute of the event bound to the variable `x`; null while nothing is bound to it."""

    variable: str
    attribute: str


@dataclass(frozen=True, slots=True)
class Unary(Spanned):
    """`not a` or `-a`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Spanned):
    """`a operator b`, with an operator out of `LEVELS`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Call(Spanned):
    """`function(arguments)`, with a function out of `values.FUNCTIONS` or `aggregates.AGGREGATES`; `a in (b, c)` is
    `in` of a, b, c; `hour('Europe/London')` is `hour` of `hi()` and the zone."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Moment(Spanned):
    """`lo(x)` or `hi(x)`: an end of the timestamp of the event bound to `x`, or of the one at hand without x."""

    end: str
    variable: str


@dataclass(frozen=True, slots=True)
class Verbatim(Spanned):
    """Expression as text, unparsed: how a client passes a condition on. The parser gives none."""

    text: str


@dataclass(frozen=True, slots=True)
class Parameter(Spanned):
    """Constant that patterns of one shape differ in: a text or a number (`detectors.automata.parameters`). The parser
    gives none."""

    number: int
    kind: Kind = "string"


Expression: TypeAlias = Literal | Name | Field | Unary | Binary | Call | Moment | Verbatim | Parameter

LEVELS: Final[tuple[tuple[str, ...], ...]] = (
    ("or",),
    ("and",),
    ("not",),
    ("==", "!=", "<", "<=", ">", ">="),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Operators from the loosest to the tightest; comparisons do not chain. `-a` binds tighter than all."""

COMPARISONS: Final = LEVELS[3]
TRUE: Final = Literal(True)
FALSE: Final = Literal(False)

_LEVEL: Final = {operator: level for level, operators in enumerate(LEVELS) for operator in operators}
SUM_LEVEL: Final = _LEVEL["+"]  # level of expressions without a comparison outside parentheses
_UNARY_MINUS: Final = len(LEVELS)
_ATOMIC: Final = _UNARY_MINUS + 1


def conjunction(left: Expression, right: Expression) -> Expression:
    """`left and right`, without what adds nothing."""
    if left in (TRUE, right):
        return right
    if right == TRUE:
        return left
    return FALSE if FALSE in (left, right) else Binary("and", left, right)


def disjunction(left: Expression, right: Expression) -> Expression:
    """`left or right`, without what adds nothing."""
    if left in (FALSE, right):
        return right
    if right == FALSE:
        return left
    return TRUE if TRUE in (left, right) else Binary("or", left, right)


def negation(operand: Expression) -> Expression:
    """`not operand`, without a double negation."""
    if operand == TRUE:
        return FALSE
    if operand == FALSE:
        return TRUE
    if isinstance(operand, Unary) and operand.operator == "not":
        return operand.operand
    return Unary("not", operand)


def children(expression: Expression) -> tuple[Expression, ...]:
    """Expressions directly inside."""
    match expression:
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Call(arguments=arguments):
            return arguments
        case _:
            return ()


def operands(expression: Expression, operator: str) -> list[Expression]:
    """Operands of a chain of `and` or of `or`, from left to right; another expression by itself."""
    found: list[Expression] = []
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Binary) and node.operator == operator:
            waiting += [node.right, node.left]
        else:
            found.append(node)
    return found


def walk(expression: Expression) -> Iterator[Expression]:
    """Expression and everything inside it, outermost first."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        match node:
            case Binary():
                waiting += (node.right, node.left)
            case Unary():
                waiting.append(node.operand)
            case Call():
                waiting += node.arguments[::-1]
            case _:
                pass


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Expression with `change` applied to every node, innermost first."""
    # What is inside is mostly as before; then it is no new one.
    match expression:
        case Unary(operator=operator, operand=operand):
            made = transform(operand, change)
            if made is not operand:
                expression = Unary(operator, made, span=expression.span)
        case Binary(operator=operator, left=left, right=right):
            one, other = transform(left, change), transform(right, change)
            if one is not left or other is not right:
                expression = Binary(operator, one, other, span=expression.span)
        case Call(function=function, arguments=arguments):
            found = tuple([transform(each, change) for each in arguments])
            if any(map(is_not, found, arguments)):
                expression = Call(function, found, span=expression.span)
        case _:
            pass
    return change(expression)


def variables(expression: Expression) -> frozenset[str]:
    """Variables an expression refers to."""
    return frozenset(node.variable for node in walk(expression) if isinstance(node, Field | Moment) and node.variable)


def names(expression: Expression) -> frozenset[str]:
    """Bare names in an expression: registers and attributes of the event at hand."""
    return frozenset(node.name for node in walk(expression) if isinstance(node, Name))


def format_expression(expression: Expression, level: int = 0) -> str:
    """Text that reads back as the same expression, in parentheses where it is looser than `level`."""
    text, own = _format(expression)
    return f"({text})" if own < level else text


def _format(expression: Expression) -> tuple[str, int]:
    match expression:
        case Literal(value=value):
            return format_value(value), _ATOMIC if not (type(value) in (int, float) and str(value)[0] == "-") else 6
        case Name(name=name):
            return quote_name(name), _ATOMIC
        case Field(variable=variable, attribute=attribute):
            return f"{quote_name(variable)}.{quote_name(attribute)}", _ATOMIC
        case Moment(end=end, variable=variable):
            return f"{end}({quote_name(variable) if variable else ''})", _ATOMIC
        case Call(function="in", arguments=(sought, *options)):
            listed = ", ".join(map(format_expression, options))
            return f"{format_expression(sought, _LEVEL['=='] + 1)} in ({listed})", _LEVEL["=="]
        case Call(function="count", arguments=(Moment(end="hi", variable=variable), *key)) if variable or not key:
            named = quote_name(variable) if variable else ""
            return f"count({', '.join((named, *map(format_expression, key)))})", _ATOMIC
        case Call(function=function, arguments=(instant, Literal(value=str(zone)))) if function in LOCAL_TIMES:
            return _format_local_time(function, instant, zone), _ATOMIC
        case Call(function="over", arguments=(aggregate, Literal(value=int(length)))):
            return f"{format_expression(aggregate)} over {format_duration(length)}", _ATOMIC
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(format_expression(each) for each in arguments)})", _ATOMIC
        case Verbatim(text=text):
            return text, 0
        case Parameter(number=number):
            return f"<constant {number}>", _ATOMIC
        case Unary(operator="not", operand=operand):
            return f"not {format_expression(operand, _LEVEL['not'])}", _LEVEL["not"]
        case Unary(operand=operand):
            # A literal is put in parentheses, or -(1) would read back as the literal -1.
            inner = format_expression(operand, _UNARY_MINUS)
            return f"-({inner})" if isinstance(operand, Literal) else f"-{inner}", _UNARY_MINUS
        case Binary(operator=operator, left=left, right=right):
            level = _LEVEL[operator]
            tighter = level + 1
            loose = tighter if operator in COMPARISONS else level
            return f"{format_expression(left, loose)} {operator} {format_expression(right, tighter)}", level


def _format_local_time(function: str, instant: Expression, zone: str) -> str:
    """`hour('Europe/London')`, `hour(x, 'Europe/London')`; a bare name in parentheses, or it would be a variable."""
    match instant:
        case Moment(end="hi", variable=variable):
            shown = [quote_name(variable)] if variable else []
        case Name():
            shown = [f"({format_expression(instant)})"]
        case _:
            shown = [format_expression(instant)]
    return f"{function}({', '.join([*shown, *([] if zone == DEFAULT_ZONE else [format_value(zone)])])})"


def format_value(value: Attribute) -> str:
    """Literal as it is written in patterns and in conformance cases."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
        return f"'{escaped}'"
    return repr(value)


RESERVED: Final = frozenset(
    {"any", "as", "where", "set", "init", "within", "by", "and", "or", "not", "true", "false", "null", "inf"}
)
"""Words of the language. As names they are written in back-quotes."""


def quote_name(name: str) -> str:
    """Name as it is written in patterns: in back-quotes where it is a word of the language."""
    return f"`{name}`" if name in RESERVED or not name.isidentifier() else name
