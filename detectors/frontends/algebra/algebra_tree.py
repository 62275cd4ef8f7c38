"""Syntax tree of Cayuga's algebra (frontends, section 5.1): plain values with places.

Expressions are those of the core, with `Name("S1.price")` for an attribute and `Field(".last", "S2.price")` for the
value of the round before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from distced.middleware.sets.expressions import Expression, Name, Span, Spanned

BEFORE: Final = ".last"
"""Reading of the value of the round before."""


@dataclass(frozen=True, slots=True)
class StreamName(Spanned):
    """Stream by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Prefixed(Spanned):
    """`E as S1`."""

    source: Algebra
    name: str


@dataclass(frozen=True, slots=True)
class Sigma(Spanned):
    """`σ[p] E`."""

    source: Algebra
    condition: Expression


@dataclass(frozen=True, slots=True)
class Pi(Spanned):
    """`π[a, b] E`."""

    source: Algebra
    attributes: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Rho(Spanned):
    """`ρ[a -> b] E`, with new names at the places of these."""

    source: Algebra
    pairs: tuple[tuple[Name, Name], ...]


@dataclass(frozen=True, slots=True)
class Alpha(Spanned):
    """`α[a = v] E`."""

    source: Algebra
    values: tuple[tuple[Name, Expression], ...]


@dataclass(frozen=True, slots=True)
class Followed(Spanned):
    """`E1 ;[p] E2`."""

    first: Algebra
    second: Algebra
    condition: Expression
    overlapping: bool


@dataclass(frozen=True, slots=True)
class FoldStep(Spanned):
    """One of a selection, a projection and an extension, of the function of µ."""

    condition: Expression | None = None
    attributes: tuple[Name, ...] | None = None
    values: tuple[tuple[Name, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Mu(Spanned):
    """`µ[F; p; a from b](E1, E2)`; the steps of F in the order in which they are applied."""

    first: Algebra
    second: Algebra
    steps: tuple[FoldStep, ...]
    condition: Expression
    begins: tuple[tuple[Name, Name], ...]
    overlapping: bool


@dataclass(frozen=True, slots=True)
class Cup(Spanned):
    """`E1 ∪ E2`."""

    members: tuple[Algebra, ...]


Algebra: TypeAlias = StreamName | Prefixed | Sigma | Pi | Rho | Alpha | Followed | Mu | Cup


@dataclass(frozen=True, slots=True)
class Definition(Spanned):
    """`Name := E`, published under this name; no name for no type."""

    source: Algebra
    name: str = ""
    name_span: Span | None = None
