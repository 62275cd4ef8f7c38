"""Syntax tree of the Cayuga Event Language (frontends, section 4.1): plain values with places.

Expressions are those of the core, with `Field("$1", a)` for `$1.a`, and likewise `$2.a` and `$.a`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from distced.detectors.frontends.schemas import Declaration
from distced.middleware.sets.expressions import Expression, Span, Spanned


@dataclass(frozen=True, slots=True)
class Named(Spanned):
    """Stream by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Filter(Spanned):
    """`FILTER{p} stream`."""

    source: Stream
    condition: Expression


@dataclass(frozen=True, slots=True)
class Next(Spanned):
    """`stream NEXT{p} stream`."""

    first: Stream
    second: Stream
    condition: Expression


@dataclass(frozen=True, slots=True)
class Fold(Spanned):
    """`stream FOLD{p, q, value AS name, ...} stream`; aggregates with the places of their names."""

    first: Stream
    second: Stream
    condition: Expression
    going_on: Expression
    aggregates: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Item(Spanned):
    """`value AS name`; without a value `*`. The span is that of the name, or of the item where it has none."""

    value: Expression | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Query(Spanned):
    """`SELECT items FROM stream PUBLISH name`; no items for all attributes, no name for no type."""

    items: tuple[Item, ...]
    source: Stream
    name: str = ""
    name_span: Span | None = None


Stream: TypeAlias = Named | Filter | Next | Fold | Query
Statement: TypeAlias = Declaration | Query
