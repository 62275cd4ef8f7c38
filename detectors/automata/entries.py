"""Ways into a pattern: positions that may match first, and the state of an instance there.

Building blocks of the construction (composite-event-framework-2004, Appendix B, Fig. 14). An `Entry` is a list of
alternatives, for alternation forks instances; within one all is merged, for concatenation and iteration merge states.
An empty path through a pattern is a `hole`, filled with what follows; it is strong where a `;` lies on the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from distced.middleware.model.errors import PatternError

WEAK: Final = False
STRONG: Final = True

# Alternations inside iterations fork one instance for each combination of branches; past this no pattern is worth it.
MOST_ALTERNATIVES: Final = 4096


@dataclass(frozen=True, slots=True)
class Item:
    """A position that may match next, strongly or weakly; with what is entered and the time events started on the way
    to it."""

    position: int
    strong: bool = WEAK
    windows: frozenset[int] = frozenset()
    inits: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()
    arms: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Alternative:
    """Positions with one fate, and the strengths of the empty paths through the pattern; none where a match is
    required."""

    items: frozenset[Item]
    holes: frozenset[bool]


Entry: TypeAlias = tuple[Alternative, ...]

SKIP: Final[Entry] = (Alternative(frozenset(), frozenset({WEAK})),)
"""The way into the empty pattern."""


def single(item: Item) -> Entry:
    """The way into one position."""
    return (Alternative(frozenset({item}), frozenset()),)


def followed_by(first: Entry, second: Entry, strong: bool = WEAK) -> Entry:
    """The way into `first` and, where that may be empty, on into `second`."""
    if strong:
        second = strengthened(second)
    result: list[Alternative] = []
    for one in first:
        if not one.holes:
            result.append(one)
            continue
        for other in second:
            items = set(one.items)
            for hole in one.holes:
                items |= (
                    {item if item.strong else replace(item, strong=STRONG) for item in other.items}
                    if hole
                    else other.items
                )
            holes = frozenset(hole or further for hole in one.holes for further in other.holes)
            result.append(Alternative(frozenset(items), holes))
    return _distinct(result)


def has_holes(entry: Entry) -> bool:
    """Whether a part may be empty."""
    return any(alternative.holes for alternative in entry)


def either(entries: Iterable[Entry]) -> Entry:
    """The ways into one part or another: forks."""
    return _distinct([alternative for entry in entries for alternative in entry])


def optional(entry: Entry) -> Entry:
    """The way into an optional part, merged with the way into its successor."""
    return _distinct([replace(each, holes=each.holes | {WEAK}) for each in entry])


def strengthened(entry: Entry) -> Entry:
    """The same way behind a `;`."""
    return tuple(
        Alternative(
            frozenset(replace(item, strong=STRONG) for item in each.items), frozenset(STRONG for _ in each.holes)
        )
        for each in entry
    )


def marked(entry: Entry, mark: Callable[[Item], Item]) -> Entry:
    """The same way with a mark on every item."""
    return tuple(replace(each, items=frozenset(map(mark, each.items))) for each in entry)


def _distinct(alternatives: list[Alternative]) -> Entry:
    distinct = tuple(dict.fromkeys(map(_without_redundant, alternatives)))
    if len(distinct) > MOST_ALTERNATIVES:
        raise PatternError(
            "alternations combine to too many instances",
            given=f"{len(distinct)} combinations",
            allowed=f"up to {MOST_ALTERNATIVES}",
            advice="take alternations out of iterations, or write a set of types in one atom: [A, B]",
        )
    return distinct


def _without_redundant(alternative: Alternative) -> Alternative:
    """Drop strong items beside equal weak ones: every strong successor is also a weak one, with the same target."""
    items = alternative.items
    weak = {item.position for item in items if not item.strong}
    redundant = [
        item for item in items if item.strong and item.position in weak and replace(item, strong=WEAK) in items
    ]
    return replace(alternative, items=items.difference(redundant)) if redundant else alternative
