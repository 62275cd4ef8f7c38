"""Boxes and the labels on the lines between them, arranged so that nothing lies on anything else.

The layout says in which direction boxes lie from one another; they are drawn apart until all have room, lines do not
run through other boxes, and every label has found a place on its line that nothing else crosses. Several layouts are
tried, and the one that comes out best is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from distced.detectors.drawing.shapes import Point
from distced.policies.topology.drawing.spreading import spread

_TRIES: Final = 6
_MANY: Final = 24
"""With more boxes than this, fewer layouts are tried."""

_GAP: Final = 16.0
_LABEL_GAP: Final = 5.0
_CLOSEST: Final = 110.0
"""Pixels for a link in the closest arrangement."""

_GROWTH: Final = 1.2
_STEPS: Final = 8
_PATIENCE: Final = 3
_PUSHES: Final = 60
_PLACES: Final = tuple(0.5 + side * step / 40 for step in range(15) for side in ((1,) if step == 0 else (1, -1)))
"""Where on the free part of a line a label may be, the best first."""

_SHOWN: Final = 14.0
"""Pixels that are seen of a line on either side of its label, at least."""

_BESIDE: Final = 4.0
"""Pixels between the labels of two lines that join the same boxes."""


class Rect(NamedTuple):
    """A rectangle by its edges."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Rect) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def grown(self, by: float) -> Rect:
        return Rect(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def inside(self, one: Point, other: Point) -> tuple[float, float] | None:
        """Which part of a line lies inside, as shares of its length; None where it passes by (Liang and Barsky)."""
        first, last = 0.0, 1.0
        for start, way, least, most in (
            (one[0], other[0] - one[0], self.left, self.right),
            (one[1], other[1] - one[1], self.top, self.bottom),
        ):
            if abs(way) < 1e-9:
                if not least <= start <= most:
                    return None
                continue
            enters, leaves = sorted(((least - start) / way, (most - start) / way))
            first, last = max(first, enters), min(last, leaves)
        return (first, last) if first < last else None


def around(middle: Point, size: Point) -> Rect:
    """The rectangle of this width and height around a point."""
    (x, y), (width, height) = middle, size
    return Rect(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


class Line(NamedTuple):
    """A line to draw between two boxes.

    Attributes:
        one, other: the boxes, by number.
        label: width and height of what is written on it.
        aside: moved to its right, as another line joins the same boxes the other way round.
    """

    one: int
    other: int
    label: Point
    aside: bool = False


class Conflicts(NamedTuple):
    """How much lies on one another, the worst first.

    Attributes:
        overlaps: of boxes and labels.
        through: how often a line runs through a box that it does not join.
        crossed: how often a line runs through the label of another.
        crossings: of lines.
    """

    overlaps: int
    through: int = 0
    crossed: int = 0
    crossings: int = 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where everything is.

    Attributes:
        boxes: in the order they were given.
        lines: the two ends of each.
        labels: of each line.
        conflicts: how much lies on one another.
    """

    boxes: tuple[Rect, ...]
    lines: tuple[tuple[Point, Point], ...]
    labels: tuple[Rect, ...]
    conflicts: Conflicts


def arrange(sizes: Sequence[Point], lines: Sequence[Line]) -> Arrangement:
    """The best arrangement that is found; the same for the same boxes and lines.

    Args:
        sizes: width and height of each box.
    """
    neighbours: list[list[int]] = [[] for _ in sizes]
    for line in lines:
        neighbours[line.one].append(line.other)
        neighbours[line.other].append(line.one)
    tries = _TRIES if len(sizes) <= _MANY else 2
    found = [_fitted(spread(neighbours, Random(number)), sizes, lines) for number in range(tries)]
    return min(found, key=lambda each: (each.conflicts, _area(each)))


def _fitted(points: Sequence[Point], sizes: Sequence[Point], lines: Sequence[Line]) -> Arrangement:
    """Drawn apart as far as need be."""
    # Boxes are wider than high, mostly, and so are labels.
    wider = sum(width for width, _ in sizes) / sum(height for _, height in sizes)
    stretch = min(max(wider, 1.0), 1.8)
    room = _room(sizes, lines)
    best: Arrangement | None = None
    length, patience = _CLOSEST, _PATIENCE
    for _ in range(_STEPS):
        middles = _pushed([(x * length * stretch, y * length) for x, y in points], room, sizes, lines)
        tried = _arranged(middles, sizes, lines)
        if best is None or tried.conflicts[:3] < best.conflicts[:3]:
            best = tried
        # Some more room for labels, but not any amount: a line that runs through one is interrupted there.
        patience -= best.conflicts[:2] == (0, 0)
        if best.conflicts[:3] == (0, 0, 0) or not patience:
            break
        length *= _GROWTH
    assert best is not None
    return best


def _room(sizes: Sequence[Point], lines: Sequence[Line]) -> list[list[Point]]:
    """How far the middles of any two boxes have to be apart, sideways or else in height, so that a label fits in."""
    labels = {frozenset((line.one, line.other)): line.label for line in lines}
    room = []
    for one, (width, height) in enumerate(sizes):
        row = []
        for other, (other_width, other_height) in enumerate(sizes):
            wide, high = labels.get(frozenset((one, other)), (0.0, 0.0))
            gap = 2 * _SHOWN if wide else _GAP
            row.append(((width + other_width) / 2 + wide + gap, (height + other_height) / 2 + high + gap))
        room.append(row)
    return room


def _pushed(
    points: list[Point], room: Sequence[Sequence[Point]], sizes: Sequence[Point], lines: Sequence[Line]
) -> list[Point]:
    """The points, pushed until no boxes are too close and no line runs through a box, or for some rounds."""
    points = list(points)
    for _ in range(_PUSHES):
        apart = _push_boxes(points, room)
        if not _push_off_lines(points, sizes, lines) and not apart:
            break
    return points


def _push_boxes(points: list[Point], room: Sequence[Sequence[Point]]) -> bool:
    """Push boxes that are too close away from one another, by the shorter way; whether there were any."""
    any_moved = False
    for one in range(len(points)):
        for other in range(one):
            (x, y), (other_x, other_y) = points[one], points[other]
            missing_x = room[one][other][0] - abs(x - other_x)
            missing_y = room[one][other][1] - abs(y - other_y)
            if missing_x <= 0 or missing_y <= 0:
                continue
            any_moved = True
            if missing_x < missing_y:
                half = math.copysign(missing_x / 2 + 0.5, x - other_x)
                points[one], points[other] = (x + half, y), (other_x - half, other_y)
            else:
                half = math.copysign(missing_y / 2 + 0.5, y - other_y)
                points[one], points[other] = (x, y + half), (other_x, other_y - half)
    return any_moved


def _push_off_lines(points: list[Point], sizes: Sequence[Point], lines: Sequence[Line]) -> bool:
    """Push boxes and the lines that run through them away from one another; whether there were any."""
    any_moved = False
    for line in lines:
        for box, (width, height) in enumerate(sizes):
            if box in (line.one, line.other):
                continue
            (x, y), (end_x, end_y) = points[line.one], points[line.other]
            length = math.hypot(end_x - x, end_y - y) or 1.0
            along_x, along_y = (end_x - x) / length, (end_y - y) / length
            from_x, from_y = points[box][0] - x, points[box][1] - y
            along, aside = from_x * along_x + from_y * along_y, from_y * along_x - from_x * along_y
            reach = abs(along_y) * width / 2 + abs(along_x) * height / 2 + _GAP
            missing = reach + 1 - abs(aside)
            if not 0 < along < length or missing <= 0:
                continue
            any_moved = True
            # The box by the larger part, the ends of the line by the smaller.
            step = math.copysign(missing, aside)
            dx, dy = -along_y * step, along_x * step
            points[box] = (points[box][0] + 0.6 * dx, points[box][1] + 0.6 * dy)
            for end in (line.one, line.other):
                points[end] = (points[end][0] - 0.4 * dx, points[end][1] - 0.4 * dy)
    return any_moved


def _arranged(middles: Sequence[Point], sizes: Sequence[Point], lines: Sequence[Line]) -> Arrangement:
    boxes = [around(middle, size) for middle, size in zip(middles, sizes, strict=True)]
    roomy = [box.grown(_GAP - 1) for box in boxes]
    overlaps = sum(one.overlaps(other) for place, one in enumerate(roomy) for other in boxes[:place])
    if overlaps:
        # Not worth a closer look.
        ends = [(middles[line.one], middles[line.other]) for line in lines]
        labels = tuple(around(start, (0, 0)) for start, _ in ends)
        return Arrangement(tuple(boxes), tuple(ends), labels, Conflicts(overlaps))
    ends = [_ends(line, middles, boxes) for line in lines]
    through = sum(
        box.grown(_LABEL_GAP).inside(start, end) is not None
        for line, (start, end) in zip(lines, ends, strict=True)
        for place, box in enumerate(boxes)
        if place not in (line.one, line.other)
    )
    placed: dict[int, Rect] = {}
    crossed = 0
    # Short lines have the fewest places to choose from.
    for place in sorted(range(len(lines)), key=lambda place: (math.dist(*ends[place]), place)):
        placed[place], on_others, on_lines = _label(place, lines[place].label, ends, boxes, list(placed.values()))
        overlaps += on_others
        crossed += on_lines
    crossings = sum(_cross(one, other) for place, one in enumerate(ends) for other in ends[:place])
    labels = tuple(placed[place] for place in range(len(lines)))
    return Arrangement(tuple(boxes), tuple(ends), labels, Conflicts(overlaps, through, crossed, crossings))


def _label(
    place: int, size: Point, ends: Sequence[tuple[Point, Point]], boxes: Sequence[Rect], placed: Sequence[Rect]
) -> tuple[Rect, int, int]:
    """A place for the label of a line; how many boxes and labels it lies on, and how many lines run through it."""
    (x, y), (end_x, end_y) = ends[place]
    best: tuple[int, int] | None = None
    chosen = None
    for share in _PLACES:
        label = around((x + (end_x - x) * share, y + (end_y - y) * share), size)
        roomy = label.grown(_LABEL_GAP)
        on_others = sum(map(roomy.overlaps, boxes)) + sum(map(roomy.overlaps, placed))
        if best is not None and on_others > best[0]:
            continue
        on_lines = sum(
            label.inside(start, end) is not None for other, (start, end) in enumerate(ends) if other != place
        )
        if best is None or (on_others, on_lines) < best:
            best, chosen = (on_others, on_lines), label
        if best == (0, 0):
            break
    assert best is not None
    assert chosen is not None
    return chosen, *best


def _ends(line: Line, middles: Sequence[Point], boxes: Sequence[Rect]) -> tuple[Point, Point]:
    """The line from edge to edge."""
    (x, y), (end_x, end_y) = middles[line.one], middles[line.other]
    if line.aside:
        length = math.hypot(end_x - x, end_y - y)
        right_x, right_y = -(end_y - y) / length, (end_x - x) / length
        # Half a label, but not past the boxes.
        width, height = line.label
        aside = (abs(right_x) * width + abs(right_y) * height + _BESIDE) / 2
        for box in (boxes[line.one], boxes[line.other]):
            half = (abs(right_x) * (box.right - box.left) + abs(right_y) * (box.bottom - box.top)) / 2
            aside = min(aside, half * 0.7)
        dx, dy = right_x * aside, right_y * aside
        x, y, end_x, end_y = x + dx, y + dy, end_x + dx, end_y + dy
    start, end = (x, y), (end_x, end_y)
    leaves, arrives = boxes[line.one].inside(start, end), boxes[line.other].inside(start, end)
    first = 0.0 if leaves is None else leaves[1]
    last = 1.0 if arrives is None else arrives[0]
    return (
        (x + (end_x - x) * first, y + (end_y - y) * first),
        (x + (end_x - x) * last, y + (end_y - y) * last),
    )


def _cross(one: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    """Whether two lines cross, not counting where they meet at an end."""

    def turn(a: Point, b: Point, c: Point) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    (a, b), (c, d) = one, other
    return turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0


def _area(arrangement: Arrangement) -> float:
    lefts, tops, rights, bottoms = zip(*(*arrangement.boxes, *arrangement.labels), strict=True)
    area: float = (max(rights) - min(lefts)) * (max(bottoms) - min(tops))
    return area
