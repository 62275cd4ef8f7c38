"""A topology in Graphviz's DOT language, for those who want to lay it out or style it themselves."""

from __future__ import annotations

from detectors.drawing.dot import quoted
from policies.topology.drawing.wording import about_node, about_publisher, about_site, link_lines, summary
from policies.topology.model import Link, Site
from policies.topology.topology import Topology


def topology_dot(topology: Topology) -> str:
    """The topology: a box for each site, with who is there, an edge for each link."""
    lines = [
        "digraph distced {",
        "  layout=neato; overlap=false; splines=true; sep=0.6;",
        '  node [shape=box, style="filled,rounded", fillcolor="#eef3f8", fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=10];',
        f"  label={quoted(summary(topology))}; labeljust=l;",
        *(f"  {quoted(name)} [label={_site(topology, site)}];" for name, site in topology.sites.items()),
        *(f"  {_link(link)};" for link in topology.links),
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _site(topology: Topology, site: Site) -> str:
    said = [site.name, *about_site(topology, site)]
    said += [f"node {about_node(each)}" for each in topology.nodes_at(site.name)]
    said += [f"publisher {about_publisher(each)}" for each in topology.publishers_at(site.name)]
    said += [f"subscriber {each.name}" for each in topology.subscribers_at(site.name)]
    return quoted(*said)


def _link(link: Link) -> str:
    one, other = map(quoted, link.between)
    direction = "" if link.one_way else ", dir=none"
    return f"{one} -> {other} [label={quoted(*(line for line, _ in link_lines(link)))}{direction}]"
