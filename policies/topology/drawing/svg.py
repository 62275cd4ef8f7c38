"""A topology as SVG: sites with who is there, links with what they are like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from detectors.drawing.picture import arrow_sample, column, legend, moved, picture, stack
from detectors.drawing.shapes import HEAD, Arrowhead, Pen, Point, Shape, Style, Text, TextLine
from middleware.errors import DistcedError
from policies.topology.drawing.arranging import Arrangement, Line, Rect, arrange
from policies.topology.drawing.site_boxes import SIGN, SIGNS, site_box
from policies.topology.drawing.wording import link_lines, summary
from policies.topology.model import Link
from policies.topology.topology import Topology

MOST_SITES: Final = 60
"""What a picture holds that anybody can read."""

_BETWEEN: Final = 22.0
_MEANINGS: Final = {
    "node": "broker node: instances it can touch per second",
    "publisher": "publisher: event types, events per second",
    "subscriber": "subscriber",
}


def topology_svg(topology: Topology) -> str:
    """The topology as a picture; too large a one is a `DistcedError`."""
    if len(topology.sites) > MOST_SITES:
        raise DistcedError(
            "too many sites for a picture",
            given=str(len(topology.sites)),
            allowed=f"at most {MOST_SITES}",
            advice="--format text, dot or json shows any number",
        )
    title = summary(topology)
    shapes: list[Shape] = []
    height = stack(shapes, column([TextLine(title, "title")]), 0.0) + _BETWEEN
    height = stack(shapes, _figure(topology), height) + _BETWEEN
    stack(shapes, _legend(topology), height)
    return picture(shapes, title)


def _figure(topology: Topology) -> list[Shape]:
    numbers = {name: number for number, name in enumerate(topology.sites)}
    boxes = [site_box(topology, site) for site in topology.sites.values()]
    texts = [_texts(link) for link in topology.links]
    pairs = [frozenset(link.between) for link in topology.links]
    lines = [
        Line(
            numbers[link.between[0]],
            numbers[link.between[1]],
            (max(line.width for line in text), sum(line.height for line in text)),
            aside=pairs.count(frozenset(link.between)) > 1,
        )
        for link, text in zip(topology.links, texts, strict=True)
    ]
    arranged = arrange([box.size for box in boxes], lines)
    shapes: list[Shape] = []
    for place, link in enumerate(topology.links):
        shapes += _line(link, place, arranged)
    for box, rect in zip(boxes, arranged.boxes, strict=True):
        shapes += box.at(rect.left, rect.top)
    for rect, text in zip(arranged.labels, texts, strict=True):
        y = rect.top
        for line in text:
            y += line.height
            shapes.append(Text((rect.left + rect.right) / 2, y - line.height * 0.2, line))
    return shapes


def _line(link: Link, place: int, arranged: Arrangement) -> list[Shape]:
    """The line of a link, with gaps where labels are."""
    start, end = arranged.lines[place]
    length = math.dist(start, end) or 1.0
    dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    shapes: list[Shape] = []
    if link.one_way:
        shapes.append(Arrowhead(*end, dx, dy, "plain"))
        end = (end[0] - dx * (HEAD - 1), end[1] - dy * (HEAD - 1))
    title = f"{link.name}: {', '.join(line for line, _ in link_lines(link))}"
    for one, other in _visible(start, end, arranged.labels):
        pen = Pen("plain")
        pen.move(one)
        pen.line(other)
        shapes.append(pen.path(title))
    return shapes


def _visible(start: Point, end: Point, labels: tuple[Rect, ...]) -> list[tuple[Point, Point]]:
    """What is left of a line between labels."""
    hidden = sorted(inside for label in labels if (inside := label.grown(2).inside(start, end)) is not None)
    pieces = []
    begin = 0.0
    for first, last in [*hidden, (1.0, 1.0)]:
        if first > begin:
            pieces.append((begin, first))
        begin = max(begin, last)
    return [(_on(start, end, first), _on(start, end, last)) for first, last in pieces]


def _on(start: Point, end: Point, share: float) -> Point:
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _texts(link: Link) -> list[TextLine]:
    styles: dict[str, Style] = {"latency": "label", "bandwidth": "domain", "cost": "emits"}
    return [TextLine(text, styles[kind]) for text, kind in link_lines(link)]


def _legend(topology: Topology) -> list[Shape]:
    """What the signs mean that occur."""
    there = {each.place.kind for each in topology.participants}
    entries: list[tuple[Sequence[Shape], float, str]] = [
        ([moved(shape, 0, -SIGN / 2) for shape in SIGNS[kind]], SIGN, meaning)
        for kind, meaning in _MEANINGS.items()
        if kind in there
    ]
    if any(link.one_way for link in topology.links):
        entries.append((*arrow_sample("plain"), "one way only"))
    return legend(entries)
