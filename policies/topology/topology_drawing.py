"""Topologies as diagrams and as tables for a terminal.

Sites are boxes with their participants and detectors; links show latency, bandwidth, cost, bytes per second in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from distced.detectors.drawing.diagram import Colour, Diagram, Edge, Ends, Group, Line, Look, Node, signs
from distced.middleware.cli.output import few, table
from distced.middleware.model.server_address import parse_address
from distced.policies.topology.model import LOCAL_LATENCY, BrokerNode, Link, Publisher, Site
from distced.policies.topology.quantities import show_bandwidth, show_duration, show_number
from distced.policies.topology.topology import Topology

_TITLE: Final = 90
_WIDEST: Final = 34
# Maximum number of participants of a kind at a site, and of names in a cell; JSON has them all.
_MOST: Final = 6
_MOST_NAMES: Final = 12


class Hosted(NamedTuple):
    """A detector on a node: its text, and whether it is drawn as a new one."""

    text: str
    new: bool


class Overlay(NamedTuple):
    """Additions to a diagram: its title, detectors by node, and labels of flows by (from site, to site)."""

    title: str
    hosted: Mapping[str, Sequence[Hosted]] = {}
    flowing: Mapping[tuple[str, str], str] = {}


def topology_diagram(topology: Topology, overlay: Overlay | None = None) -> Diagram:
    """The topology, with detectors on it and what flows."""
    over = overlay or Overlay(_summary(topology))
    nodes = [
        Node(name, list(_site(topology, site, over)), tooltip=f"site {name}") for name, site in topology.sites.items()
    ]
    there = {each.place.kind for each in topology.participants}
    hosted = {each.new for detectors in over.hosted.values() for each in detectors}
    legend = signs([
        ("node" in there, "□", Colour.INK, "broker node: instances it can touch per second"),
        ("publisher" in there, "▷", Colour.GREEN, "publisher: event types, events per second"),
        ("subscriber" in there, "○", Colour.BROWN, "subscriber"),
        (True in hosted, "●", Colour.BLUE, "new detector"),
        (False in hosted, "◇", Colour.BLUE, "detector that runs already"),
        (bool(over.flowing), "━▶", Colour.BLUE, "bytes a second"),
        (any(link.one_way for link in topology.links), "─▶", Colour.INK, "one way only"),
    ])  # fmt: skip
    edges = [_link(link, over) for link in topology.links]
    return Diagram(Line(over.title, size=13, bold=True).folded(_TITLE), legend, [Group(nodes, edges)], network=True)


def _site(topology: Topology, site: Site, over: Overlay) -> Iterator[Line]:
    yield Line(_cut(site.name), size=13, bold=True)
    notes = ["directory"] if _has_directory(topology, site) else []
    notes += [_server(site)] if site.url else []
    notes += [f"local {show_duration(site.local_latency)}"] if site.local_latency != LOCAL_LATENCY else []
    yield from (Line(_cut(note), Colour.GREY, 10, italic=True) for note in notes)
    nodes = list(topology.nodes_at(site.name))
    if len(nodes) > _MOST:
        # Those with detectors come first.
        nodes.sort(key=lambda node: node.name not in over.hosted)
    shown = [Line(f"□ {_cut(_about_node(node))}", bold=True) for node in nodes]
    for node, line in zip(nodes, _limited(shown, "nodes"), strict=False):
        yield line
        found = over.hosted.get(node.name, ()) if line in shown else ()
        signed = ((_cut(each.text), "●" if each.new else "◇") for each in found)
        yield from _limited([Line(f"  {sign} {text}", Colour.BLUE, 10) for text, sign in signed], "detectors")
    publishers = map(_about_publisher, topology.publishers_at(site.name))
    yield from _limited([Line(f"▷ {_cut(text)}", Colour.GREEN) for text in publishers], "publishers")
    subscribers = topology.subscribers_at(site.name)
    yield from _limited([Line(f"○ {_cut(each.name)}", Colour.BROWN) for each in subscribers], "subscribers")


def _limited(lines: Sequence[Line], kind: str) -> list[Line]:
    """Lines, or the first of them and the number of others."""
    if len(lines) <= _MOST:
        return list(lines)
    rest = len(lines) - _MOST + 1
    return [*lines[: _MOST - 1], Line(f"  and {rest} more {kind}", Colour.GREY, 10, italic=True)]


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _link(link: Link, over: Overlay) -> Edge:
    one, other = link.between
    lines = [Line(_latency(link), Colour.BLUE)]
    lines += [Line(show_bandwidth(link.bandwidth), Colour.GREY, 10)] if link.bandwidth is not None else []
    lines += [Line(f"cost {show_number(link.cost)}", Colour.BROWN, 10)] if link.cost != 1 else []
    flowing = [each for each in link.directions if each in over.flowing]
    lines += [Line(f"→ {target} {over.flowing[origin, target]}", Colour.BLUE, 10) for origin, target in flowing]
    there, back = link.one_way or (one, other) in flowing, not link.one_way and (other, one) in flowing
    ends: Ends = "both" if there and back else "forward" if there else "back" if back else "none"
    return Edge(one, other, lines, Look(Colour.BLUE, 2.2) if flowing else Look(), ends)


def topology_as_text(topology: Topology) -> Iterator[RenderableType]:
    """Tables of sites, links and event types, one below another."""
    sites = [
        (
            site.name,
            "yes" if _has_directory(topology, site) else "",
            _server(site),
            show_duration(site.local_latency),
            _few([_about_node(each) for each in topology.nodes_at(site.name)]),
            _few([_about_source(each) for each in topology.publishers_at(site.name)]),
            _few([each.name for each in topology.subscribers_at(site.name)]),
        )
        for site in topology.sites.values()
    ]
    links = [
        (link.name, _latency(link), show_bandwidth(link.bandwidth) if link.bandwidth else "", show_number(link.cost))
        for link in topology.links
    ]
    tables = (
        (("site", "directory", "server", "local", "nodes", "publishers", "subscribers"), sites),
        (("link", "latency", "bandwidth", "cost"), links),
        (("type", "rate", "published by", "at"), list(_types(topology))),
    )
    yield Text(_summary(topology), "bold")
    for headings, rows in tables:
        if rows:
            yield Text()
            cells = [[Text(cell, "" if place else "cyan") for place, cell in enumerate(row)] for row in rows]
            yield table(headings, cells, right=("local", "latency", "bandwidth", "cost", "rate"))


def _types(topology: Topology) -> Iterator[tuple[str, str, str, str]]:
    for name in topology.types:
        publishers = topology.publishers_of(name)
        rates = [each.rates[name] for each in publishers if name in each.rates]
        # A sum of some of them would say too little.
        rate = f"{show_number(round(sum(rates), 6))}/s" if len(rates) == len(publishers) else ""
        yield name, rate, _few([each.name for each in publishers]), _few([*dict.fromkeys(p.site for p in publishers)])


def _few(names: Sequence[str]) -> str:
    return few(names, _MOST_NAMES)


def _summary(topology: Topology) -> str:
    """Number of parts of each kind: `3 sites, 4 nodes, ...`."""
    parts = {"site": topology.sites, "node": topology.nodes, "publisher": topology.publishers}
    counts = {**parts, "subscriber": topology.subscribers, "link": topology.links}
    return ", ".join(f"{len(found)} {name}{'s' * (len(found) != 1)}" for name, found in counts.items())


def _has_directory(topology: Topology, site: Site) -> bool:
    """Whether a site has the directory, where there are several."""
    return len(topology.sites) > 1 and site.name == topology.directory


def _server(site: Site) -> str:
    """The server of a site, without user and password."""
    return str(parse_address(site.url)) if site.url else ""


def _latency(link: Link) -> str:
    """The latency of a link, with jitter from the least to the most: `20ms`, `20ms..25ms`."""
    least = show_duration(link.latency)
    return f"{least}..{show_duration(link.latency + link.jitter)}" if link.jitter else least


def _about_node(node: BrokerNode) -> str:
    return node.name if node.capacity is None else f"{node.name}: {show_number(node.capacity)}/s"


def _about_source(publisher: Publisher) -> str:
    """A publisher, the uncertainty of its clock, and its loss."""
    clock = f" ±{show_duration(publisher.uncertainty)}" if publisher.uncertainty else ""
    loss = f" loses {publisher.loss * 100:.3g}%" if publisher.loss else ""
    return f"{publisher.name}{clock}{loss}"


def _about_publisher(publisher: Publisher) -> str:
    """A publisher with its event types and their rates."""
    rates = {name: f" {show_number(rate)}/s" for name, rate in publisher.rates.items()}
    types = ", ".join(f"{name}{rates.get(name, '')}" for name in publisher.types)
    return f"{publisher.name}: {types}" if types else publisher.name
