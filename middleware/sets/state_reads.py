"""Reads of a state in expressions: `last(Inside.temp, room)`, `current(Inside.temp, room)`.

A state, `type Inside = last Temp by room`, is the last event of a type for each value of a key, in the order of
consumption. `last` reads it as of before the event at hand, `current` with the event at hand, where this is one of the
state. In trees a read is a call whose first argument is over the name of the state, as it would be over a variable's;
the others are the values of the key, over the event at hand.

`all(not Here.inside, room)` and `count(Here, room)` are over a *key group*: the last values of all persons of the room,
where Here is kept by room and person. The persons are listed nowhere; they are those that events have had, and the
event at hand counts. A quantifier of patterns, `C for all person`, was rejected: for each form it would have to be
decided what a match that fails or begins twice means; over a state all follows from the last value.

A word for the state alone, without a function, was
rejected: it would not say whether the event at hand counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distced.middleware.sets.expressions import Call, Expression, Field, Moment, Name, transform, variables, walk

LAST: Final = "last"
CURRENT: Final = "current"
ALL: Final = "all"
COUNT: Final = "count"
GROUP_READS: Final = (ALL, COUNT)
"""Functions over a key group: the last values for all values of the attributes of the key that are left out."""
STATE_READS: Final = (LAST, CURRENT, *GROUP_READS)
"""Functions that read a state."""


def state_of(expression: Expression) -> str:
    """Name of the state that an expression itself reads, if it is no variable; empty for none."""
    if not isinstance(expression, Call) or expression.function not in STATE_READS or not expression.arguments:
        return ""
    named = variables(expression.arguments[0])
    return next(iter(named)) if len(named) == 1 else ""


def is_certain(expression: Expression) -> bool:
    """Whether an expression can only be the read of a state, and no aggregate over the events of a variable."""
    if not isinstance(expression, Call) or expression.function not in STATE_READS:
        return False
    return expression.function in (CURRENT, ALL) or len(expression.arguments) > 1


def states_in(expression: Expression) -> Iterator[str]:
    """Names of the states that an expression reads, if they are no variables."""
    return (name for node in walk(expression) if (name := state_of(node)))


def over_event(value: Expression, state: str) -> Expression:
    """What is read of a state, over its event as the one at hand."""

    def leaf(node: Expression) -> Expression:
        match node:
            case Field(variable=variable, attribute=attribute) if variable == state:
                return Name(attribute, span=node.span)
            case Moment(end=end, variable=variable) if variable == state:
                return Moment(end, "", span=node.span)
            case _:
                return node

    return transform(value, leaf)
