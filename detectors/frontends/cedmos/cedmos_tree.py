"""Syntax tree of CEDMOS specifications: transformers with their state, channels and statements.

Frontends, section 7.1. Expressions are those of the core. As they are read, a bare name is an attribute or a field of
the state, and `t.room` an attribute behind the name of the event; once they are checked, an attribute is a bare name,
and a field of the state is an attribute of the variable `STATE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from distced.middleware.sets.expressions import Expression, Spanned

STATE: Final = "state"
"""Variable that fields of the state are attributes of, in checked expressions."""


@dataclass(frozen=True, slots=True)
class StateField(Spanned):
    """`n = 0 visible firing`: field of the state, with its initial value.

    Attributes:
        visible: whether composite events have its value, and the one before the instant.
        firing: whether a net change of it in an instant is a composite event.
    """

    name: str
    initial: Expression
    visible: bool = False
    firing: bool = False


@dataclass(frozen=True, slots=True)
class Assignment(Spanned):
    """`n = n + 1`; its span is that of the name."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Choice(Spanned):
    """`if condition then {...} else {...}`."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


Statement: TypeAlias = Assignment | Choice


@dataclass(frozen=True, slots=True)
class Dimension(Spanned):
    """Dimension of the category space, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Channel(Spanned):
    """`on Temp as t ignore when ... categorize room = t.room do ...`; its span is that of the type.

    Attributes:
        variable: name of the event; empty for none.
        ignored: condition of the events that are ignored; None for none.
        categories: the event's category, a value for each dimension.
    """

    type_name: str
    variable: str = ""
    ignored: Expression | None = None
    categories: tuple[Assignment, ...] = ()
    statements: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Transformer(Spanned):
    """`transformer NAME category ... state ... on ...`; its span is that of the name."""

    name: str
    dimensions: tuple[Dimension, ...]
    fields: tuple[StateField, ...]
    channels: tuple[Channel, ...]


def assignments(statements: tuple[Statement, ...]) -> Iterator[Assignment]:
    """All assignments among statements, those of choices included, in order."""
    for each in statements:
        if isinstance(each, Assignment):
            yield each
        else:
            yield from assignments(each.then)
            yield from assignments(each.otherwise)
