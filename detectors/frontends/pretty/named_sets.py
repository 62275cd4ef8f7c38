"""Sets that sentences name: `"light on" is Light where on`, which may read one another but not in a circle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distced.detectors.language.depth import MOST_NESTED, check_depth, too_deep
from distced.detectors.language.scanner import error_at
from distced.middleware.sets.describable import DescribableSet, Difference, Filtered, TypeSet, Union


def resolved(sets: Mapping[str, DescribableSet], text: str) -> dict[str, DescribableSet]:
    """The sets without names of others. Raises `PatternError` for a circle, and for what becomes too deep."""
    done: dict[str, DescribableSet] = {}

    def of(name: str, path: tuple[str, ...], place: DescribableSet) -> DescribableSet:
        if name in path:
            circle = ", ".join((*path[path.index(name) :], name))
            raise error_at(text, place.span, "names that read each other in a circle", given=circle)
        if len(path) > MOST_NESTED:
            raise too_deep(text, place.span)
        if name not in done:
            done[name] = inside(sets[name], (*path, name))
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
