"""A topology as text for a terminal: what there is, where it is, how sites are linked, which events there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from distced.middleware.model.server_address import parse_address
from distced.policies.topology.drawing.topology_view import about_node, about_source, latency, summary
from distced.policies.topology.model import Site
from distced.policies.topology.notes import listed
from distced.policies.topology.quantities import show_bandwidth, show_duration, show_number
from distced.policies.topology.topology import Topology

_MOST: Final = 12
"""How many names a cell holds; JSON has them all."""


def topology_as_text(topology: Topology) -> Iterator[RenderableType]:
    """The parts to be printed below one another."""
    yield Text(summary(topology), "bold")
    yield Text()
    yield _sites(topology)
    if topology.links:
        yield Text()
        yield _links(topology)
    if topology.types:
        yield Text()
        yield _types(topology)


def _sites(topology: Topology) -> Table:
    rows = []
    for site in topology.sites.values():
        here = (
            [about_node(each) for each in topology.nodes_at(site.name)],
            [about_source(each) for each in topology.publishers_at(site.name)],
            [each.name for each in topology.subscribers_at(site.name)],
        )
        rows.append(
            (
                site.name,
                "yes" if len(topology.sites) > 1 and site.name == topology.directory else "",
                _server(site),
                show_duration(site.local_latency),
                *(listed(each, _MOST) for each in here),
            )
        )
    return _table(
        ("site", "directory", "server", "local", "nodes", "publishers", "subscribers"), rows, right=("local",)
    )


def _links(topology: Topology) -> Table:
    rows = [
        (
            link.name,
            latency(link),
            "" if link.bandwidth is None else show_bandwidth(link.bandwidth),
            show_number(link.cost),
        )
        for link in topology.links
    ]
    return _table(("link", "latency", "bandwidth", "cost"), rows, right=("latency", "bandwidth", "cost"))


def _types(topology: Topology) -> Table:
    rows = []
    for name in topology.types:
        publishers = topology.publishers_of(name)
        rates = [each.rates[name] for each in publishers if name in each.rates]
        # A sum of some of them would say too little.
        known = f"{show_number(round(sum(rates), 6))}/s" if len(rates) == len(publishers) else ""
        sites = list(dict.fromkeys(each.site for each in publishers))
        rows.append((name, known, listed([each.name for each in publishers], _MOST), listed(sites, _MOST)))
    return _table(("type", "rate", "published by", "at"), rows, right=("rate",))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> Table:
    """A table without the columns that are empty throughout."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    shown = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    for place in shown:
        heading = headings[place]
        table.add_column(heading, overflow="fold", justify="right" if heading in right else "left")
    for row in rows:
        table.add_row(*(Text(row[place], "cyan" if place == 0 else "") for place in shown))
    return table


def _server(site: Site) -> str:
    return str(parse_address(site.url)) if site.url else ""
