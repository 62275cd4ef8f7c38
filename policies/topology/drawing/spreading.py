"""Where the sites of a topology lie in a picture: as far from one another as there are links between them.

Stress majorisation (Gansner, Koren, North, "Graph Drawing by Stress Majorization", 2004), one vertex at a time.
networkx's layouts were rejected, because they need numpy and scipy, which the product does not; and Graphviz, because
it is a program to be installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random
from typing import Final

from distced.detectors.drawing.shapes import Point

_SWEEPS: Final = 150
_SETTLED: Final = 0.002
_DENSE: Final = 3
"""Links get longer where both ends have more links than this."""


def spread(neighbours: Sequence[Sequence[int]], random: Random) -> list[Point]:
    """A place for each vertex, in units of a link, the widest extension horizontal.

    Args:
        neighbours: of each vertex, in both directions.
        random: for the places to begin with.
    """
    count = len(neighbours)
    if count < 2:
        return [(0.0, 0.0)] * count
    wanted = _distances(neighbours)
    points = [(random.uniform(0, math.sqrt(count)), random.uniform(0, math.sqrt(count))) for _ in range(count)]
    for _ in range(_SWEEPS):
        moved = 0.0
        for one in range(count):
            x = y = total = 0.0
            here_x, here_y = points[one]
            for other, distance in enumerate(wanted[one]):
                if other == one:
                    continue
                there_x, there_y = points[other]
                dx, dy = here_x - there_x, here_y - there_y
                apart = math.hypot(dx, dy) or 1e-9
                weight = 1 / (distance * distance)
                x += weight * (there_x + distance * dx / apart)
                y += weight * (there_y + distance * dy / apart)
                total += weight
            points[one] = (x / total, y / total)
            moved = max(moved, math.hypot(points[one][0] - here_x, points[one][1] - here_y))
        if moved < _SETTLED:
            break
    return _laid_flat(points)


def _distances(neighbours: Sequence[Sequence[int]]) -> list[list[float]]:
    """How far any two should be apart: the links on the way between, longer where they are dense.

    Those that are not joined at all should be farther apart than any that are.
    """
    found = []
    for start in range(len(neighbours)):
        lengths: dict[int, float] = {}
        waiting = [(0.0, start)]
        while waiting:
            length, here = heappop(waiting)
            if here not in lengths:
                lengths[here] = length
                for there in neighbours[here]:
                    dense = min(len(neighbours[here]), len(neighbours[there])) / _DENSE
                    heappush(waiting, (length + max(1.0, dense), there))
        found.append(lengths)
    farthest = 1 + max(max(lengths.values()) for lengths in found)
    return [[lengths.get(end, farthest) for end in range(len(neighbours))] for lengths in found]


def _laid_flat(points: Sequence[Point]) -> list[Point]:
    """Turned about the middle so that the principal axis is horizontal."""
    middle_x, middle_y = (sum(each) / len(points) for each in zip(*points, strict=True))
    centred = [(x - middle_x, y - middle_y) for x, y in points]
    xx, yy, xy = (sum(each) for each in zip(*((x * x, y * y, x * y) for x, y in centred), strict=True))
    angle = math.atan2(2 * xy, xx - yy) / 2
    cosine, sine = math.cos(angle), math.sin(angle)
    return [(x * cosine + y * sine, y * cosine - x * sine) for x, y in centred]
