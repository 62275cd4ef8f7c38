"""Diagram of a topology: a box for each site, links with what they are like, detectors on nodes and what flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from distced.detectors.drawing.diagram import TITLE, Colour, Diagram, Edge, Ends, Group, Line, Look, Node, folded, signs
from distced.policies.topology.drawing.topology_view import (
    Overlay,
    about_node,
    about_publisher,
    about_site,
    link_lines,
    summary,
)
from distced.policies.topology.model import Link, Site
from distced.policies.topology.topology import Topology

_TITLE: Final = 90
_WIDEST: Final = 34
_MOST: Final = 6
"""How many of a kind are shown at a site."""

_COLOURS: Final = {"latency": Colour.BLUE, "bandwidth": Colour.GREY, "cost": Colour.BROWN}


def topology_diagram(topology: Topology, overlay: Overlay | None = None) -> Diagram:
    """The topology, with detectors on it and what flows."""
    over = overlay or Overlay(summary(topology))
    nodes = [
        Node(name, list(_site(topology, site, over)), tooltip=f"site {name}") for name, site in topology.sites.items()
    ]
    edges = [_link(link, over) for link in topology.links]
    there = {each.place.kind for each in topology.participants}
    hosted = {each.new for detectors in over.hosted.values() for each in detectors}
    legend = signs(
        [
            ("node" in there, "□", Colour.INK, "broker node: instances it can touch per second"),
            ("publisher" in there, "▷", Colour.GREEN, "publisher: event types, events per second"),
            ("subscriber" in there, "○", Colour.BROWN, "subscriber"),
            (True in hosted, "●", Colour.BLUE, "new detector"),
            (False in hosted, "◇", Colour.BLUE, "detector that runs already"),
            (bool(over.flowing), "━▶", Colour.BLUE, "bytes a second"),
            (any(link.one_way for link in topology.links), "─▶", Colour.INK, "one way only"),
        ]
    )
    return Diagram(folded(over.title, _TITLE, TITLE), legend, [Group(nodes, edges)], network=True)


def _site(topology: Topology, site: Site, over: Overlay) -> Iterator[Line]:
    yield Line(_cut(site.name), size=13, bold=True)
    yield from (Line(_cut(said), Colour.GREY, 10, italic=True) for said in about_site(topology, site))
    # Where there are too many nodes, those with detectors come first.
    nodes = list(topology.nodes_at(site.name))
    if len(nodes) > _MOST:
        nodes.sort(key=lambda node: node.name not in over.hosted)
    for node in nodes[: _shown(nodes)]:
        yield Line(f"□ {_cut(about_node(node))}", Colour.INK, bold=True)
        detectors = over.hosted.get(node.name, ())
        yield from (
            Line(f"  {'●' if each.new else '◇'} {_cut(each.text)}", Colour.BLUE, 10) for each in detectors[:_MOST]
        )
        if len(detectors) > _MOST:
            yield _more(len(detectors) - _MOST, "detectors")
    if _shown(nodes) < len(nodes):
        yield _more(len(nodes) - _shown(nodes), "nodes")
    yield from _rows(
        "▷", Colour.GREEN, [about_publisher(each) for each in topology.publishers_at(site.name)], "publishers"
    )
    yield from _rows("○", Colour.BROWN, [each.name for each in topology.subscribers_at(site.name)], "subscribers")


def _rows(sign: str, colour: str, texts: Sequence[str], kind: str) -> Iterator[Line]:
    yield from (Line(f"{sign} {_cut(text)}", colour) for text in texts[: _shown(texts)])
    if _shown(texts) < len(texts):
        yield _more(len(texts) - _shown(texts), kind)


def _shown(texts: Sequence[object]) -> int:
    return len(texts) if len(texts) <= _MOST else _MOST - 1


def _more(number: int, kind: str) -> Line:
    return Line(f"  and {number} more {kind}", Colour.GREY, 10, italic=True)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _link(link: Link, over: Overlay) -> Edge:
    one, other = link.between
    lines = [Line(text, _COLOURS[kind], 11 if kind == "latency" else 10) for text, kind in link_lines(link)]
    flowing = [each for each in link.directions if each in over.flowing]
    lines += [Line(f"→ {target} {over.flowing[origin, target]}", Colour.BLUE, 10) for origin, target in flowing]
    there, back = link.one_way or (one, other) in flowing, not link.one_way and (other, one) in flowing
    ends: Ends = "both" if there and back else "forward" if there else "back" if back else "none"
    return Edge(one, other, lines, Look(Colour.BLUE, 2.2) if flowing else Look(), ends)
