"""Aggregates over the events that a variable has been bound to: `count(p)`, `avg(p.price)`.

`p` denotes all events of the instance that atoms `as p` have matched so far, hidden ones included, in the order in
which they were matched. An aggregate is a call in the tree like that of a function; `count(p)` is read as
`count(hi(p))`, the number of values that are not null, and printed as it was written. `min` and `max` of one argument
over a variable are aggregates, with more arguments functions of values.

Aggregates of the standard query languages leave out null (SQL:2016, 10.9); so do these, and what cannot be compared or
added. `collect(p.price, 20)` is a text, a list in JSON, as of JSON_ARRAYAGG (SQL:2016, 10.9); lists as values were
rejected: events have no attributes that are lists, and a value with a bound has a bound of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeGuard

from distced.middleware.sets.expressions import (
    Call,
    Expression,
    Literal,
    Moment,
    format_expression,
    names,
    variables,
    walk,
)

MOST_VALUES: Final = 100
"""Maximum of values that one aggregate keeps."""


class Aggregate(NamedTuple):
    """Aggregate of the language: number of its arguments, and the kinds of values it takes and gives; None for any,
    and for that of the argument."""

    least: int
    most: int
    takes: str | None
    gives: str | None


AGGREGATES: Final[dict[str, Aggregate]] = {
    "count": Aggregate(1, 1, None, "number"),
    "sum": Aggregate(1, 1, "number", "number"),
    "avg": Aggregate(1, 1, "number", "number"),
    "min": Aggregate(1, 1, None, None),
    "max": Aggregate(1, 1, None, None),
    "first": Aggregate(1, 1, None, None),
    "last": Aggregate(1, 1, None, None),
    "nth": Aggregate(2, 2, None, None),
    "distinct": Aggregate(1, 2, None, "number"),
    "collect": Aggregate(1, 2, None, "string"),
}

OVER: Final = "over"
"""`avg(temp) over 10min`: in trees a call of an aggregate over attributes of the event at hand, and a duration, ns."""

SLIDING: Final[dict[str, str | None]] = {
    "count": None,
    "sum": "number",
    "avg": "number",
    "min": "number",
    "max": "number",
    "first": None,
    "distinct": None,
}
"""Aggregates over a sliding window, with the kind of values that each takes; None for any."""

FUNCTIONS_TOO: Final = ("min", "max")
"""Aggregates that are also functions of values."""


def is_aggregate(expression: Expression) -> TypeGuard[Call]:
    """Whether an expression is an aggregate itself."""
    if not isinstance(expression, Call) or expression.function not in AGGREGATES:
        return False
    if expression.function not in FUNCTIONS_TOO:
        return True
    arguments = expression.arguments
    return len(arguments) == 1 and bool(variables(arguments[0]))


def aggregates(expression: Expression) -> Iterator[Call]:
    """Aggregates in an expression."""
    return (node for node in walk(expression) if is_aggregate(node))


def is_sliding(expression: Expression) -> TypeGuard[Call]:
    """Whether an expression is an aggregate over a sliding window itself."""
    return isinstance(expression, Call) and expression.function == OVER


def slides(expression: Expression) -> bool:
    """Whether there is an aggregate over a sliding window in an expression."""
    return any(map(is_sliding, walk(expression)))


def sliding_fault(sliding: Call) -> tuple[str, str] | None:
    """What is wrong with an aggregate over a sliding window, and what is allowed; None for nothing."""
    aggregate, length = sliding.arguments
    assert isinstance(aggregate, Call) and isinstance(length, Literal)
    function = aggregate.function
    if function not in SLIDING or len(aggregate.arguments) != 1:
        allowed = ", ".join(each for each in SLIDING)
        return f"{format_expression(aggregate)} has no sliding window", f"{allowed} of one value; last(v) is v"
    (argument,) = aggregate.arguments
    if any(is_sliding(node) or is_aggregate(node) for node in walk(argument)):
        return "an aggregate of an aggregate", "one of another derived type's attributes"
    if length.value == 0:
        return "a sliding window of no length", "from 1ns"
    return None


def fault(aggregate: Call) -> tuple[str, str] | None:
    """What is wrong with the arguments of an aggregate, and what is allowed; None for nothing."""
    function, (argument, *rest) = aggregate.function, aggregate.arguments
    if any(map(is_aggregate, walk(argument))):
        return "an aggregate of an aggregate", "one over attributes of the events: sum(p.price)"
    at_hand = any(isinstance(node, Moment) and not node.variable for node in walk(argument))
    if len(variables(argument)) != 1 or names(argument) or at_hand:
        if function == "count":
            return "count of what is no variable", "count(p), or count(p.price), with p of [... as p]"
        return (
            f"{function} of what is not of the events of one variable",
            f"{function}(p.price), or a calculation with attributes of p alone",
        )
    if function == "distinct" and not rest:
        return "distinct without a number", "distinct(p.port, 20), which keeps 20 values and is 20 for 20 or more"
    if function == "collect" and not rest:
        return "collect without a number", "collect(p.price, 20), a list in JSON of the first 20 values"
    if not rest:
        return None
    number = rest[0].value if isinstance(rest[0], Literal) else None
    if function == "nth" and not (type(number) is int and 1 <= abs(number) <= MOST_VALUES):
        return "not a place of a value", f"1 for the first to {MOST_VALUES}, -1 for the last to -{MOST_VALUES}"
    if function == "distinct" and not (type(number) is int and 1 <= number <= MOST_VALUES):
        return "not a number of distinct values", f"1 to {MOST_VALUES}"
    if function == "collect" and not (type(number) is int and 1 <= number <= MOST_VALUES):
        return "not a number of collected values", f"1 to {MOST_VALUES}"
    return None
