"""Syntax tree of CEDR queries (frontends, section 6.1; cedr-2007, section 3.2).

Plain values with spans. Conditions and attributes are expressions of the core: `x.a` is a field, `x.t` the end of the
event's timestamp. `&` is ALL, and NOT is ATMOST 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from distced.middleware.sets.expressions import Expression, Spanned


@dataclass(frozen=True, slots=True)
class Operand(Spanned):
    """`TYPE x`: events of a type; the checked tree has a variable for each."""

    type_name: str
    variable: str = ""


@dataclass(frozen=True, slots=True)
class TimerOperand(Spanned):
    """`T[x.t + 5 min]`: an instant, a delay in ns after the event of an operand."""

    variable: str
    delay: int


@dataclass(frozen=True, slots=True)
class All(Spanned):
    """`ALL(E1, E2)`, `E1 & E2`: all parts, in any order."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Spanned):
    """`ANY(E1, E2)`: one of the parts."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class AtLeast(Spanned):
    """`ATLEAST(n, E1, E2, ...)`: n of the parts, in any order; with one operand n events of it, in their order."""

    count: int
    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Sequence(Spanned):
    """`SEQUENCE(E1, NOT(...), E2)`: all parts, each after the end of those before; absences may stand anywhere."""

    parts: tuple[Pattern | Absence, ...]


@dataclass(frozen=True, slots=True)
class Absence(Spanned):
    """`NOT(E1, E2, WITHIN 5 min)`, `ATMOST(n, E1, E2, WITHIN 5 min)`: events of at most n of the operands.

    Attributes:
        most: number of operands that may have an event; 0 for NOT.
        scope: for how long, ns; None for as long as its place tells.
        word: NOT or ATMOST, as written.
    """

    most: int
    operands: tuple[Operand, ...]
    scope: int | None = None
    word: str = "NOT"


@dataclass(frozen=True, slots=True)
class Unless(Spanned):
    """`UNLESS(E1, E2)`: E1 without an E2 in the lifetime."""

    pattern: Pattern
    operand: Operand


@dataclass(frozen=True, slots=True)
class Cancelled(Spanned):
    """`E CANCEL-WHEN G`, `E CANCEL-WHEN T[x.t + d]`: E without a G in between, or with all events up to an instant."""

    pattern: Pattern
    by: Operand | TimerOperand


Pattern: TypeAlias = Operand | TimerOperand | All | AnyOf | AtLeast | Sequence | Unless | Cancelled


@dataclass(frozen=True, slots=True)
class CorrelationKey(Spanned):
    """`CorrelationKey(attribute, Equal)`, or Unique: the attribute of all operands, equal or pairwise different."""

    attribute: str
    unique: bool


@dataclass(frozen=True, slots=True)
class Window(Spanned):
    """`LIFETIME 5 min`: length, ns, between each event and the detection."""

    length: int


@dataclass(frozen=True, slots=True)
class TimesToLive(Spanned):
    """`LIFETIME TTL x 5 min, y 1 h`: lengths, ns, for the operands named."""

    lengths: tuple[tuple[Operand, int], ...]


@dataclass(frozen=True, slots=True)
class InLifespan(Spanned):
    """`LIFETIME LIFESPAN name`."""

    name: str


Lifetime: TypeAlias = Window | TimesToLive | InLifespan


@dataclass(frozen=True, slots=True)
class Choice(Spanned):
    """`First x`, `Last x`, `Each x`, `Cond(condition) x`: selection of an operand's instances.

    Attributes:
        kind: `first`, `last`, `each`, or `where`.
        condition: for `where`.
    """

    kind: str
    variable: str
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class CedrQuery(Spanned):
    """`Q: NAME EVENT_PATTERN pattern WHERE ... LIFETIME ... NOTIFY ... CONSUMPTION ...`.

    Attributes:
        where: the conjuncts of the condition, without the correlation keys.
        attributes: payload of the composite event, `AS (name = expression)`.
        consumption: `exclusive`, `ext-exclusive` or `shared`.
    """

    name: str
    pattern: Pattern
    where: tuple[Expression, ...] = ()
    keys: tuple[CorrelationKey, ...] = ()
    lifetime: Lifetime | None = None
    choices: tuple[Choice, ...] = ()
    attributes: tuple[tuple[str, Expression], ...] = ()
    consumption: str = "exclusive"


@dataclass(frozen=True, slots=True)
class Lifespan(Spanned):
    """`LIFESPAN name BY a INITIATOR I WHERE ... TERMINATOR T WHERE ... DURATION d`.

    Attributes:
        by: attribute with a lifespan for each value; empty for one.
        ends: condition of the terminator, which may read the initiator.
        duration: ns; None for no end by itself.
    """

    name: str
    by: str
    initiator: Operand
    begins: Expression
    terminator: Operand | None
    ends: Expression
    duration: int | None


@dataclass(frozen=True, slots=True)
class QueryFile:
    """Lifespans and queries, in their order."""

    lifespans: tuple[Lifespan, ...]
    queries: tuple[CedrQuery, ...]


def parts_of(pattern: Pattern | Absence) -> tuple[Pattern | Absence, ...]:
    """Patterns directly inside, in the order they are written; not what cancels, and not what must be absent."""
    match pattern:
        case All(parts=parts) | AnyOf(parts=parts) | AtLeast(parts=parts) | Sequence(parts=parts):
            return parts
        case Unless(pattern=inner) | Cancelled(pattern=inner):
            return (inner,)
        case _:
            return ()


def walk(pattern: Pattern | Absence) -> Iterator[Pattern | Absence]:
    """Pattern and all patterns inside it, outermost first."""
    yield pattern
    for each in parts_of(pattern):
        yield from walk(each)


def positive_operands(pattern: Pattern) -> tuple[Operand, ...]:
    """Operands that take events of a match, in the order of the pattern."""
    return tuple(each for each in walk(pattern) if isinstance(each, Operand))


def negated_operands(pattern: Pattern) -> tuple[Operand, ...]:
    """Operands whose events a match must not have: those of NOT, ATMOST, UNLESS and CANCEL-WHEN."""
    found: list[Operand] = []
    for each in walk(pattern):
        if isinstance(each, Absence):
            found += each.operands
        elif isinstance(each, Unless):
            found.append(each.operand)
        elif isinstance(each, Cancelled) and isinstance(each.by, Operand):
            found.append(each.by)
    return tuple(found)
