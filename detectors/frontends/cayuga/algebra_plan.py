"""Plans: expressions of Cayuga's algebra, names resolved.

cayuga-algebra-cesar, section 2: selection, renaming, projection, extension, union, sequence (`;`) and iteration (µ);
cayuga-system-2007, Fig. 2: NEXT and FOLD. Both languages are read into them, so their meaning is written once.

Conditions and values are core expressions with other readings of names: `Name(a)` is an attribute of the input,
`Moment("lo", "")` and `Moment("hi", "")` are the ends of its events, so DUR is the difference. In an iteration there
are further readings (`Iterate`). Names of attributes are unique in each plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from distced.middleware.sets.expressions import Binary, Expression, Field, Moment, Spanned

FIRST: Final = "$1"
"""Reading of the first input of an iteration, before any round: `Field(FIRST, a)`."""

SECOND: Final = "$2"
"""Reading of the event at hand: `Field(SECOND, a)`."""

LAST: Final = "$"
"""Reading of the value of the round before; in the first round of the initial value: `Field(LAST, a)`."""

DURATION: Final = Binary("-", Moment("hi", ""), Moment("lo", ""))
"""DUR: the length of an event."""


@dataclass(frozen=True, slots=True)
class Stream(Spanned):
    """Events of a type, with these attributes."""

    name: str
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Select(Spanned):
    """σ: the events for which a condition holds."""

    source: Plan
    condition: Expression


@dataclass(frozen=True, slots=True)
class Compute(Spanned):
    """π, ρ, α and SELECT: the same events with other attributes, which are computed all at once."""

    source: Plan
    values: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Follow(Spanned):
    """`;θ` and NEXT: each event of the first input with the first of the second for which θ holds, all of one instant;
    of disjoint attributes. θ reads the attributes of both.

    Attributes:
        overlapping: whether the second need only end later.
    """

    first: Plan
    second: Plan
    condition: Expression
    overlapping: bool = False


@dataclass(frozen=True, slots=True)
class Step(Spanned):
    """One step of a round: a selection, or new values, which are computed all at once. `Name(a)` is the value at this
    step: of the event at hand, of the round before, or of an earlier step."""

    condition: Expression | None = None
    values: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Iterate(Spanned):
    """µ and FOLD: rounds of `;θ`, each of which is an answer and goes on.

    Attributes:
        condition: θ, asked of each event of the second input.
        steps: what a round then does, in order; where a selection fails the run ends.
        initial: of the carried attributes, which rounds change, values over the first input.
        kept: attributes of the first input that answers have, with their names.
    """

    first: Plan
    second: Plan
    condition: Expression
    steps: tuple[Step, ...]
    initial: tuple[tuple[str, Expression], ...]
    kept: tuple[tuple[str, str], ...]
    overlapping: bool = False


@dataclass(frozen=True, slots=True)
class Union(Spanned):
    """∪: the events of all inputs, of equal attributes."""

    members: tuple[Plan, ...]


Plan: TypeAlias = Stream | Select | Compute | Follow | Iterate | Union


def attributes(plan: Plan) -> tuple[str, ...]:
    """Names of the attributes of a plan's events, in order."""
    match plan:
        case Stream(attributes=names):
            return names
        case Select(source=source):
            return attributes(source)
        case Compute(values=values):
            return tuple(name for name, _ in values)
        case Follow(first=first, second=second):
            return (*attributes(first), *attributes(second))
        case Iterate(initial=initial, kept=kept):
            return (*(name for name, _ in kept), *(name for name, _ in initial))
        case Union(members=members):
            return attributes(members[0])


def inputs(plan: Plan) -> tuple[Plan, ...]:
    """Plans directly inside."""
    match plan:
        case Stream():
            return ()
        case Select(source=source) | Compute(source=source):
            return (source,)
        case Follow(first=first, second=second) | Iterate(first=first, second=second):
            return (first, second)
        case Union(members=members):
            return members


def streams(plan: Plan) -> Iterator[Stream]:
    """Streams that a plan reads."""
    if isinstance(plan, Stream):
        yield plan
    for each in inputs(plan):
        yield from streams(each)


def field(reading: str, name: str) -> Field:
    """`Field` of one of the readings."""
    return Field(reading, name)
