"""A topology in Graphviz's DOT language, for those who want to lay it out or style it themselves."""

from __future__ import annotations

from distced.detectors.drawing.dot import quoted
from distced.policies.topology.drawing.overlay import Overlay
from distced.policies.topology.drawing.topology_view import about_node, about_publisher, about_site, link_lines, summary
from distced.policies.topology.model import Link, Site
from distced.policies.topology.topology import Topology


def topology_dot(topology: Topology, overlay: Overlay | None = None) -> str:
    """The topology: a box for each site, with who is there and the detectors of nodes, an edge for each link, and
    one for each direction in which something flows."""
    over = overlay or Overlay(summary(topology))
    lines = [
        "digraph distced {",
        "  layout=neato; overlap=false; splines=true; sep=0.6;",
        '  node [shape=box, style="filled,rounded", fillcolor="#eef3f8", fontname="monospace", fontsize=11];',
        '  edge [fontname="monospace", fontsize=10];',
        f"  label={quoted(over.title)}; labeljust=l;",
        *(f"  {quoted(name)} [label={_site(topology, site, over)}];" for name, site in topology.sites.items()),
        *(f"  {_link(link)};" for link in topology.links),
        *(
            f'  {quoted(origin)} -> {quoted(target)} [label={quoted(said)}, color="#0b3d66", fontcolor="#0b3d66"];'
            for (origin, target), said in over.flowing.items()
        ),
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _site(topology: Topology, site: Site, over: Overlay) -> str:
    said = [site.name, *about_site(topology, site)]
    for node in topology.nodes_at(site.name):
        said.append(f"node {about_node(node)}")
        said += [f"{'new ' if each.new else ''}detector {each.text}" for each in over.hosted.get(node.name, ())]
    said += [f"publisher {about_publisher(each)}" for each in topology.publishers_at(site.name)]
    said += [f"subscriber {each.name}" for each in topology.subscribers_at(site.name)]
    return quoted(*said)


def _link(link: Link) -> str:
    one, other = map(quoted, link.between)
    direction = "" if link.one_way else ", dir=none"
    return f"{one} -> {other} [label={quoted(*(line for line, _ in link_lines(link)))}{direction}]"
