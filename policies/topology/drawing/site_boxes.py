"""The box of a site: its name, and a sign and a name for each who is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from distced.detectors.drawing.picture import moved
from distced.detectors.drawing.shapes import Dot, Panel, Pen, Point, Shape, Stroke, Style, Text, TextLine
from distced.policies.topology.drawing.overlay import Hosted
from distced.policies.topology.drawing.topology_view import about_node, about_publisher, about_site
from distced.policies.topology.model import BrokerNode, Participant, Site
from distced.policies.topology.topology import Topology

SIGN: Final = 11.0
"""Pixels that a sign is wide and high."""

_PADDING: Final = 9.0
_BESIDE: Final = 7.0
_WIDEST: Final = 34
"""Characters of a line."""

_MOST: Final = 6
"""How many of a kind are shown."""


@dataclass(frozen=True, slots=True)
class SiteBox:
    """A box, before it has a place: shapes with the upper left corner at (0, 0).

    Attributes:
        size: its width and height.
    """

    size: Point
    shapes: tuple[Shape, ...]

    def at(self, x: float, y: float) -> list[Shape]:
        """Its shapes in their place."""
        return [moved(shape, x, y) for shape in self.shapes]


def site_box(topology: Topology, site: Site, hosted: Mapping[str, Sequence[Hosted]] | None = None) -> SiteBox:
    """The box of a site.

    Args:
        hosted: the detectors of nodes, by the name of the node; they stand below it.
    """
    nodes, publishers = topology.nodes_at(site.name), topology.publishers_at(site.name)
    subscribers = topology.subscribers_at(site.name)
    head = [TextLine(_cut(site.name), "title"), *(TextLine(_cut(said), "note") for said in about_site(topology, site))]
    rows: list[tuple[str, TextLine]] = []
    rows += _node_rows(nodes, hosted or {})
    rows += _rows("publisher", [about_publisher(each) for each in publishers], "publishers", "type")
    rows += _rows("subscriber", [each.name for each in subscribers], "subscribers", "emits")
    texts = [line.width for line in head] + [SIGN + _BESIDE + line.width for _, line in rows]
    width = max(texts) + 2 * _PADDING
    shapes: list[Shape] = []
    y = _PADDING - 3
    for line in head:
        y += line.height
        shapes.append(Text(_PADDING, y - line.height * 0.2, line, "start"))
    y += 4 if rows else 0
    for sign, line in rows:
        y += line.height + 2
        shapes += [moved(shape, _PADDING, y - line.height * 0.5 - SIGN / 2) for shape in SIGNS.get(sign, ())]
        shapes.append(Text(_PADDING + SIGN + _BESIDE, y - line.height * 0.2, line, "start"))
    height = y + _PADDING
    everybody: tuple[Participant, ...] = (*nodes, *publishers, *subscribers)
    title = f"site {site.name}" + (f": {', '.join(each.name for each in everybody)}" if everybody else "")
    return SiteBox((width, height), (Panel(0, 0, width, height, "detector", title), *shapes))


def _node_rows(nodes: Sequence[BrokerNode], hosted: Mapping[str, Sequence[Hosted]]) -> list[tuple[str, TextLine]]:
    """Nodes with their detectors; where there are too many, those that have some come first."""
    first = sorted(nodes, key=lambda node: node.name not in hosted) if len(nodes) > _MOST else nodes
    shown = first if len(first) <= _MOST else first[: _MOST - 1]
    rows: list[tuple[str, TextLine]] = []
    for node in shown:
        rows.append(("node", TextLine(_cut(about_node(node)), "name")))
        detectors = hosted.get(node.name, ())
        rows += [
            ("new" if each.new else "running", TextLine(_cut(f"  {each.text}"), "records flow"))
            for each in detectors[:_MOST]
        ]
        if len(detectors) > _MOST:
            rows.append(("", TextLine(f"  and {len(detectors) - _MOST} more detectors", "note")))
    if len(shown) < len(nodes):
        rows.append(("", TextLine(f"and {len(nodes) - len(shown)} more nodes", "note")))
    return rows


def _rows(sign: str, texts: Sequence[str], kind: str, style: Style) -> list[tuple[str, TextLine]]:
    shown = texts if len(texts) <= _MOST else texts[: _MOST - 1]
    rows = [(sign, TextLine(_cut(text), style)) for text in shown]
    if len(shown) < len(texts):
        rows.append(("", TextLine(f"and {len(texts) - len(shown)} more {kind}", "note")))
    return rows


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _outline(stroke: Stroke, *corners: Point) -> Shape:
    pen = Pen(stroke)
    pen.move(corners[-1])
    for corner in corners:
        pen.line(corner)
    return pen.path()


_LOW: Final = 1.0
_HIGH: Final = SIGN - _LOW

SIGNS: Final[dict[str, tuple[Shape, ...]]] = {
    "node": (_outline("strong", (_LOW, _LOW), (_HIGH, _LOW), (_HIGH, _HIGH), (_LOW, _HIGH)),),
    "publisher": (_outline("events", (_LOW, _LOW), (_HIGH, SIGN / 2), (_LOW, _HIGH)),),
    "subscriber": (Panel(0, 0, SIGN, SIGN, "publication"),),
    "new": (Dot(SIGN / 2, SIGN / 2),),
    "running": (_outline("records", (SIGN / 2, 2.5), (SIGN - 2.5, SIGN / 2), (SIGN / 2, SIGN - 2.5), (2.5, SIGN / 2)),),
}
"""A square, a triangle that points outwards, a ring; of detectors a dot, and a rhomb."""
