"""Pieces of a canonical form under construction, and a name-independent order among them.

What is sorted (alternatives, sides of `&`, operands of `and`) must not be sorted by names, nor by their final numbers,
which depend on the surroundings. A piece is compared by its text with marks for names, then by the pattern in which
names recur in it. Pieces that still tie are equal but for names; which comes first may matter further out. All their
orders are kept until then, and the one counts in which names recur earliest: the smallest surrounding part that tells
them apart decides, so that a part cut out has the form of the part in its place. Deciding by numbers given from outside
was rejected: parts would not be found again. Past `MOST_ORDERINGS` orders the written one is kept; two spellings of
such a pattern may then not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, permutations
from math import factorial
from typing import Any, Final, NamedTuple, TypeAlias

MOST_ORDERINGS: Final = 120
"""Maximum of orders kept for ties."""

NameSlot: TypeAlias = int
"""A variable, register or time event before its canonical name is known."""


class Ordering(NamedTuple):
    """A piece in one of its orders: its node or value, with the names of `mark`, and their places in textual order."""

    node: Any
    names: tuple[NameSlot, ...]


class Piece:
    """A part of a canonical form.

    Attributes:
        text: with a mark for each name; equal texts are equal parts but for the names.
        ways: the equally good orders, the written one first; names recur alike in all of them.
        kind, detail: its kind and further data, where another piece depends on it.
        parts: the pieces it is made of, where they may become part of something else.
    """

    __slots__ = ("_identity", "_order", "detail", "kind", "orderings", "parts", "text")

    def __init__(
        self, text: str, orderings: Sequence[Ordering], kind: str = "", parts: Sequence[Piece] = (), detail: Any = None
    ) -> None:
        self.text = text
        self.orderings = orderings
        self.kind = kind
        self.parts = parts
        self.detail = detail
        self._order: tuple[str, tuple[int, ...]] | None = None
        self._identity: tuple[str, tuple[NameSlot, ...]] | None = None

    @property
    def order(self) -> tuple[str, tuple[int, ...]]:
        """Sort key, independent of names."""
        if self._order is None:
            self._order = (self.text, numbering(self.orderings[0].names))
        return self._order

    @property
    def identity(self) -> tuple[str, tuple[NameSlot, ...]]:
        """Identity, names included."""
        if self._identity is None:
            self._identity = (self.text, min(ordering.names for ordering in self.orderings))
        return self._identity


def constant(text: str, node: Any) -> Piece:
    """A piece without names."""
    return Piece(text, (Ordering(node, ()),))


def mark(place: NameSlot) -> str:
    """Placeholder of a name until the canonical one is known. It holds a back-quote, which no name of a pattern can."""
    return f"`{place}"


def named(kind: str, place: NameSlot) -> Piece:
    """A name by itself; its mark in a text distinguishes variables, registers and time events."""
    return Piece(kind, (Ordering(mark(place), (place,)),))


def numbering(names: Iterable[NameSlot]) -> tuple[int, ...]:
    """The recurrence pattern of names: each is numbered at its first occurrence."""
    numbers: dict[NameSlot, int] = {}
    return tuple([numbers.setdefault(name, len(numbers)) for name in names])


def changed(piece: Piece, text: str, change: Callable[[Any], Any], kind: str = "", detail: Any = None) -> Piece:
    """A piece wrapped around another one."""
    return Piece(text, [Ordering(change(node), names) for node, names in piece.orderings], kind, (piece,), detail)


def combined(
    text: str,
    orders: Sequence[Sequence[Piece]],
    build: Callable[[list[Any]], Any],
    kind: str = "",
    parts: Sequence[Piece] = (),
    detail: Any = None,
) -> Piece:
    """A piece combined from several in textual order, in several orders where some tie; `build` makes its node from
    theirs."""
    if len(orders) == 1 and all(len(piece.orderings) == 1 for piece in orders[0]):
        first = [piece.orderings[0] for piece in orders[0]]
        names = tuple([name for ordering in first for name in ordering.names])
        return Piece(text, (Ordering(build([ordering.node for ordering in first]), names),), kind, parts, detail)
    found: list[Ordering] = []
    for pieces in orders:
        orderings = [Ordering([], ())]
        for piece in pieces:
            orderings = [
                Ordering([*nodes, node], names + further)
                for nodes, names in orderings
                for node, further in piece.orderings
            ]
            if len(orderings) > 1:
                # The numbering of the whole is least only where that of its beginning is.
                orderings = _best(orderings)
        found += orderings
    return Piece(text, [Ordering(build(nodes), names) for nodes, names in _best(found)], kind, parts, detail)


def arranged(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """The pieces sorted; in several orders where some differ in names only."""
    orders: list[list[Piece]] = [[]]
    for _, group in groupby(sorted(pieces, key=_order), key=_order):
        tied = list(group)
        distinct = len({piece.identity for piece in tied}) > 1
        if not distinct or len(orders) * factorial(len(tied)) > MOST_ORDERINGS:
            orders = [[*order, *tied] for order in orders]
        else:
            orders = [[*order, *ordering] for order in orders for ordering in permutations(tied)]
    return orders


def distinct(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces without duplicates."""
    found: dict[object, Piece] = {}
    for piece in pieces:
        found.setdefault(piece.identity, piece)
    return list(found.values())


def _order(piece: Piece) -> tuple[str, tuple[int, ...]]:
    return piece.order


def _best(orderings: list[Ordering]) -> list[Ordering]:
    """The orders in which names recur earliest, without duplicates."""
    numberings = [numbering(ordering.names) for ordering in orderings]
    least = min(numberings)
    best: dict[tuple[NameSlot, ...], Ordering] = {}
    for ordering, numbers in zip(orderings, numberings, strict=True):
        if numbers == least:
            best.setdefault(ordering.names, ordering)
    return list(best.values())[: None if len(best) <= MOST_ORDERINGS else 1]
