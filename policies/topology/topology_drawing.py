"""Topologies as diagrams and as tables for a terminal.

Sites are boxes with their participants and detectors; links show latency, bandwidth, cost, bytes per second in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from distced.detectors.drawing.diagram import Diagram, Edge, Group, Line, Look, Node, folded
from distced.middleware.cli.output import few, table
from distced.middleware.model.server_address import parse_address
from distced.policies.topology.model import LOCAL_LATENCY, BrokerNode, Link, Publisher, Site
from distced.policies.topology.quantities import show_bandwidth, show_duration, show_number
from distced.policies.topology.topology import Topology

_TITLE: Final = 90
_WIDEST: Final = 44
# Maximum number of participants of a kind at a site, in a picture and in a cell; JSON has them all.
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
    nodes = [Node(name, folded(_site(topology, site, over), _WIDEST, 2)) for name, site in topology.sites.items()]
    there = {each.place.kind for each in topology.participants}
    hosted = {each.new for detectors in over.hosted.values() for each in detectors}
    legend = [
        ("node" in there, Line("□ broker node: instances it can touch per second", "bold")),
        ("publisher" in there, Line("▷ publisher: event types, events per second", "green")),
        ("subscriber" in there, Line("○ subscriber", "yellow")),
        (True in hosted, Line("● new detector", "cyan")),
        (False in hosted, Line("◇ detector that runs already", "cyan")),
        (bool(over.flowing), Line("━▶ bytes a second", "cyan")),
        (any(link.one_way for link in topology.links), Line("─▶ one way only")),
    ]
    title = folded([Line(over.title, "bold")], _TITLE)
    group = Group(nodes, [_link(link, over) for link in topology.links])
    return Diagram(title, [line for occurs, line in legend if occurs], [group], network=True)


def _site(topology: Topology, site: Site, over: Overlay) -> Iterator[Line]:
    yield Line(site.name, "bold")
    local = [f"local {show_duration(site.local_latency)}"] if site.local_latency != LOCAL_LATENCY else []
    yield from (Line(note, "dim italic") for note in (*_server(topology, site), *local))
    # Those with detectors come first.
    nodes = sorted(topology.nodes_at(site.name), key=lambda node: node.name not in over.hosted)
    texts = [f"□ {_about_node(node)}" for node in nodes]
    for node, text in zip(nodes, _limited(texts, "nodes"), strict=False):
        yield Line(text, "bold")
        hosted = over.hosted.get(node.name, ()) if text in texts else ()
        detectors = [f"  {'●' if each.new else '◇'} {each.text}" for each in hosted]
        yield from (Line(detector, "cyan") for detector in _limited(detectors, "detectors"))
    publishers = [f"▷ {_about_publisher(each)}" for each in topology.publishers_at(site.name)]
    yield from (Line(publisher, "green") for publisher in _limited(publishers, "publishers"))
    subscribers = [f"○ {each.name}" for each in topology.subscribers_at(site.name)]
    yield from (Line(subscriber, "yellow") for subscriber in _limited(subscribers, "subscribers"))


def _limited(texts: Sequence[str], kind: str, most: int = _MOST) -> Sequence[str]:
    """Texts, or the first of them and the number of others."""
    return texts if len(texts) <= most else [*texts[: most - 1], f"  and {len(texts) - most + 1} more {kind}"]


def _link(link: Link, over: Overlay) -> Edge:
    flowing = [each for each in link.directions if each in over.flowing]
    lines = [Line(_latency(link), "cyan")]
    lines += [Line(show_bandwidth(link.bandwidth), "dim")] if link.bandwidth is not None else []
    lines += [Line(f"cost {show_number(link.cost)}", "yellow")] if link.cost != 1 else []
    lines += [Line(f"→ {target} {over.flowing[origin, target]}", "cyan") for origin, target in flowing]
    source, target = flowing[0] if flowing else link.between
    look = Look("cyan", 2.2) if flowing else Look()
    return Edge(source, target, lines, look, heads=1 if link.one_way else len(flowing))


def topology_as_text(topology: Topology) -> Iterator[RenderableType]:
    """Tables of sites, links and event types, one below another."""
    sites = []
    for name, site in topology.sites.items():
        nodes = [_about_node(each) for each in topology.nodes_at(name)]
        publishers = [_about_publisher(each) for each in topology.publishers_at(name)]
        subscribers = [each.name for each in topology.subscribers_at(name)]
        lists = {"nodes": nodes, "publishers": publishers, "subscribers": subscribers}
        listed = ("\n".join(_limited(texts, kind, _MOST_NAMES)) for kind, texts in lists.items())
        sites.append((name, ", ".join(_server(topology, site)), show_duration(site.local_latency), *listed))
    links = [
        (link.name, _latency(link), show_bandwidth(link.bandwidth) if link.bandwidth else "", show_number(link.cost))
        for link in topology.links
    ]
    tables = (
        (("site", "server", "local", "nodes", "publishers", "subscribers"), sites),
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
        sites = dict.fromkeys(each.site for each in publishers)
        yield name, rate, few([each.name for each in publishers], _MOST_NAMES), few([*sites], _MOST_NAMES)


def _summary(topology: Topology) -> str:
    """Number of parts of each kind: `3 sites, 4 nodes, ...`."""
    parts = {"site": topology.sites, "node": topology.nodes, "publisher": topology.publishers}
    counts = {**parts, "subscriber": topology.subscribers, "link": topology.links}
    return ", ".join(f"{len(found)} {name}{'s' * (len(found) != 1)}" for name, found in counts.items())


def _server(topology: Topology, site: Site) -> list[str]:
    """Whether the server of a site has the directory, if there are several, and its address, without user and
    password."""
    directory = ["directory"] if len(topology.sites) > 1 and site.name == topology.directory else []
    return [*directory, *([str(parse_address(site.url))] if site.url else [])]


def _latency(link: Link) -> str:
    """The latency of a link, with jitter from the least to the most: `20ms`, `20ms..25ms`."""
    least = show_duration(link.latency)
    return f"{least}..{show_duration(link.latency + link.jitter)}" if link.jitter else least


def _about_node(node: BrokerNode) -> str:
    return node.name if node.capacity is None else f"{node.name}: {show_number(node.capacity)}/s"


def _about_publisher(publisher: Publisher) -> str:
    """A publisher with its event types and their rates, the uncertainty of its clock, and its loss."""
    rates = {name: f" {show_number(rate)}/s" for name, rate in publisher.rates.items()}
    types = ", ".join(f"{name}{rates.get(name, '')}" for name in publisher.types)
    clock = f" ±{show_duration(publisher.uncertainty)}" if publisher.uncertainty else ""
    loss = f" loses {publisher.loss * 100:.3g}%" if publisher.loss else ""
    return f"{publisher.name}{clock}{loss}{': ' if types else ''}{types}"
