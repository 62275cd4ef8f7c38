"""Sets that sentences name: `"light on" is Light where on`, which may read one another but not in a circle.

A name that is used twice stands for twice as much, so twenty lines that each use the one before twice are a million
sets: their parts are counted before they are walked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, NoReturn

from distced.detectors.language.depth import MOST_NESTED, check_depth, too_deep
from distced.detectors.language.scanner import error_at
from distced.middleware.sets.describable import (
    DescribableSet,
    Difference,
    Filtered,
    TypeSet,
    Union,
    conditions,
    walk_set,
)
from distced.middleware.sets.expressions import Span, walk

MOST_PARTS: Final = 10_000
"""Parts that the names of a text may stand for: of all definitions, and of all uses in sentences."""


def count_parts(described: DescribableSet, most: int) -> int:
    """Number of sets and of parts of their conditions, counted up to one more than `most`."""
    sets = sum(1 for _ in islice(walk_set(described), most + 1))
    if sets > most:
        return sets
    inside = (node for condition in conditions(described) for node in walk(condition))
    return sets + sum(1 for _ in islice(inside, most + 1 - sets))


def refuse_parts(text: str, span: Span | None, name: str) -> NoReturn:
    """Refuse a text whose names stand for too many parts."""
    raise error_at(
        text,
        span,
        "names that multiply beyond measure",
        given=name,
        allowed=f"{MOST_PARTS:,} parts with what names stand for",
        advice="report what a name stands for by a sentence of its own, and read what it reports",
    )


def resolved(sets: Mapping[str, DescribableSet], text: str) -> dict[str, DescribableSet]:
    """The sets without names of others. Raises `PatternError` for a circle, and for what becomes too deep."""
    done: dict[str, DescribableSet] = {}
    left = MOST_PARTS

    def of(name: str, path: tuple[str, ...], place: DescribableSet) -> DescribableSet:
        nonlocal left
        if name in path:
            circle = ", ".join((*path[path.index(name) :], name))
            raise error_at(text, place.span, "names that read each other in a circle", given=circle)
        if len(path) > MOST_NESTED:
            raise too_deep(text, place.span)
        if name not in done:
            done[name] = inside(sets[name], (*path, name))
            left -= count_parts(done[name], left)
            if left < 0:
                refuse_parts(text, sets[name].span, name)
            check_depth(done[name], text=text)
        return done[name]

    def inside(described: DescribableSet, path: tuple[str, ...]) -> DescribableSet:
        match described:
            case TypeSet(name=name):
                return of(name, path, described) if name in sets else described
            case Filtered(base=base):
                return replace(described, base=inside(base, path))
            case Union(members=members):
                return replace(described, members=tuple(inside(each, path) for each in members))
            case Difference(left=left, right=right):
                return replace(described, left=inside(left, path), right=inside(right, path))
            case _:
                return described

    return {name: of(name, (), each) for name, each in sets.items()}
