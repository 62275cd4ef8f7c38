"""View of a topology: words for sites, nodes, links and publishers, and what is drawn on it beside these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from distced.middleware.model.server_address import parse_address
from distced.policies.topology.model import LOCAL_LATENCY, BrokerNode, Link, Publisher, Site
from distced.policies.topology.quantities import show_bandwidth, show_duration, show_number
from distced.policies.topology.topology import Topology


class Hosted(NamedTuple):
    """A detector on a node.

    Attributes:
        text: what stands there, its id and its pattern.
        new: whether it is drawn as one that is yet to be made.
    """

    text: str
    new: bool


@dataclass(frozen=True, slots=True)
class Overlay:
    """What is drawn on a topology.

    Attributes:
        title: above the drawing, in place of what there is of each kind.
        hosted: the detectors of each node, by its name.
        flowing: what is said of each direction of a link in which something flows, by (from site, to site).
    """

    title: str
    hosted: Mapping[str, Sequence[Hosted]] = field(default_factory=dict)
    flowing: Mapping[tuple[str, str], str] = field(default_factory=dict)


def summary(topology: Topology) -> str:
    """What there is of each kind: `3 sites, 4 nodes, ...`."""
    counts = {
        "site": len(topology.sites),
        "node": len(topology.nodes),
        "publisher": len(topology.publishers),
        "subscriber": len(topology.subscribers),
        "link": len(topology.links),
    }
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items())


def link_lines(link: Link) -> list[tuple[str, str]]:
    """What is said on a link, each with what it is about: `latency`, `bandwidth`, `cost`; nothing that is as usual."""
    lines = [(latency(link), "latency")]
    if link.bandwidth is not None:
        lines.append((show_bandwidth(link.bandwidth), "bandwidth"))
    if link.cost != 1:
        lines.append((f"cost {show_number(link.cost)}", "cost"))
    return lines


def latency(link: Link) -> str:
    """The latency of a link, with jitter from the least to the most: `20ms`, `20ms..25ms`."""
    least = show_duration(link.latency)
    return f"{least}..{show_duration(link.latency + link.jitter)}" if link.jitter else least


def about_site(topology: Topology, site: Site) -> Iterator[str]:
    """What is worth saying of a site: whether it has the directory, where there are several; its server, without a
    password; and how far it is where that is unusual."""
    if len(topology.sites) > 1 and site.name == topology.directory:
        yield "directory"
    if site.url:
        yield str(parse_address(site.url))
    if site.local_latency != LOCAL_LATENCY:
        yield f"local {show_duration(site.local_latency)}"


def about_node(node: BrokerNode) -> str:
    """A broker node and its capacity."""
    return node.name if node.capacity is None else f"{node.name}: {show_number(node.capacity)}/s"


def about_source(publisher: Publisher) -> str:
    """A publisher, how well its clock goes, and what it loses."""
    clock = f" ±{show_duration(publisher.uncertainty)}" if publisher.uncertainty else ""
    loss = f" loses {publisher.loss * 100:.3g}%" if publisher.loss else ""
    return f"{publisher.name}{clock}{loss}"


def about_publisher(publisher: Publisher) -> str:
    """A publisher and what it publishes, how often."""
    types = (
        f"{name} {show_number(publisher.rates[name])}/s" if name in publisher.rates else name
        for name in publisher.types
    )
    return f"{publisher.name}: {', '.join(types)}" if publisher.types else publisher.name
