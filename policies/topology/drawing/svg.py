"""A topology as SVG: sites with who is there, links with what they are like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from distced.detectors.drawing.folding import fold
from distced.detectors.drawing.picture import arrow_sample, column, legend, moved, picture, stack
from distced.detectors.drawing.shapes import HEAD, Arrowhead, Pen, Point, Shape, Stroke, Style, Text, TextLine
from distced.middleware.model.errors import DistcedError
from distced.policies.topology.drawing.arranging import Arrangement, Line, Rect, arrange
from distced.policies.topology.drawing.overlay import Overlay
from distced.policies.topology.drawing.site_boxes import SIGN, SIGNS, site_box
from distced.policies.topology.drawing.topology_view import link_lines, summary
from distced.policies.topology.model import Link
from distced.policies.topology.topology import Topology

MOST_SITES: Final = 60
"""What a picture holds that anybody can read."""

_BETWEEN: Final = 22.0
_WIDEST: Final = 90
"""Characters of a line of the title."""

_MEANINGS: Final = {
    "node": "broker node: instances it can touch per second",
    "publisher": "publisher: event types, events per second",
    "subscriber": "subscriber",
}


def topology_svg(topology: Topology, overlay: Overlay | None = None) -> str:
    """The topology as a picture, with detectors on it and what flows; too large a one is a `DistcedError`."""
    if len(topology.sites) > MOST_SITES:
        raise DistcedError(
            "too many sites for a picture",
            given=str(len(topology.sites)),
            allowed=f"at most {MOST_SITES}",
            advice="--format text, dot or json shows any number",
        )
    over = overlay or Overlay(summary(topology))
    shapes: list[Shape] = []
    head = [TextLine(line, "title") for line in fold(over.title, _WIDEST)]
    height = stack(shapes, column(head), 0.0) + _BETWEEN
    height = stack(shapes, _figure(topology, over), height) + _BETWEEN
    stack(shapes, _legend(topology, over), height)
    return picture(shapes, over.title)


def _figure(topology: Topology, over: Overlay) -> list[Shape]:
    numbers = {name: number for number, name in enumerate(topology.sites)}
    boxes = [site_box(topology, site, over.hosted) for site in topology.sites.values()]
    texts = [_texts(link, over) for link in topology.links]
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
        shapes += _line(link, place, arranged, over)
    for box, rect in zip(boxes, arranged.boxes, strict=True):
        shapes += box.at(rect.left, rect.top)
    for rect, text in zip(arranged.labels, texts, strict=True):
        y = rect.top
        for line in text:
            y += line.height
            shapes.append(Text((rect.left + rect.right) / 2, y - line.height * 0.2, line))
    return shapes


def _line(link: Link, place: int, arranged: Arrangement, over: Overlay) -> list[Shape]:
    """The line of a link, with gaps where labels are, and arrowheads where messages travel one way, or events flow."""
    start, end = arranged.lines[place]
    length = math.dist(start, end) or 1.0
    dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    shapes: list[Shape] = []
    one_site, other_site = link.between
    stroke: Stroke = "records" if any(each in over.flowing for each in link.directions) else "plain"
    if link.one_way or (one_site, other_site) in over.flowing:
        shapes.append(Arrowhead(*end, dx, dy, stroke))
        end = (end[0] - dx * (HEAD - 1), end[1] - dy * (HEAD - 1))
    if not link.one_way and (other_site, one_site) in over.flowing:
        shapes.append(Arrowhead(*start, -dx, -dy, stroke))
        start = (start[0] + dx * (HEAD - 1), start[1] + dy * (HEAD - 1))
    title = f"{link.name}: {', '.join(line for line, _ in link_lines(link))}"
    for one, other in _visible(start, end, arranged.labels):
        pen = Pen(stroke)
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


def _texts(link: Link, over: Overlay) -> list[TextLine]:
    styles: dict[str, Style] = {"latency": "label", "bandwidth": "domain", "cost": "emits"}
    lines = [TextLine(text, styles[kind]) for text, kind in link_lines(link)]
    for origin, target in link.directions:
        if (origin, target) in over.flowing:
            lines.append(TextLine(f"→ {target} {over.flowing[origin, target]}", "records flow"))
    return lines


def _legend(topology: Topology, over: Overlay) -> list[Shape]:
    """What the signs mean that occur."""
    there = {each.place.kind for each in topology.participants}
    entries: list[tuple[Sequence[Shape], float, str]] = [
        ([moved(shape, 0, -SIGN / 2) for shape in SIGNS[kind]], SIGN, meaning)
        for kind, meaning in _MEANINGS.items()
        if kind in there
    ]
    hosted = {each.new for detectors in over.hosted.values() for each in detectors}
    for sign, new, meaning in (("new", True, "new detector"), ("running", False, "detector that runs already")):
        if new in hosted:
            entries.append(([moved(shape, 0, -SIGN / 2) for shape in SIGNS[sign]], SIGN, meaning))
    if over.flowing:
        entries.append((*arrow_sample("records"), "bytes a second"))
    if any(link.one_way for link in topology.links):
        entries.append((*arrow_sample("plain"), "one way only"))
    return legend(entries)
