"""Site and capacity of each node of `distced broker`, from options or a topology; entries of topology and hints.

Users and passwords in the URLs of a topology are left out of its entry of the directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.observers import LiveDirectory, publish_entries
from distced.middleware.bus import parse_address
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.server_address import server_name
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import HintEntry, TopologyEntry
from distced.middleware.wire.topics import directory_topic
from distced.policies.topology.errors import TopologyError, unknown
from distced.policies.topology.model import Site
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology, parse_topology, topology_as_toml

OVERLAY: Final = "overlay"
"""Name of the topology in the directory."""


@dataclass(frozen=True, slots=True)
class Described:
    """Topology with its name in errors and its TOML text."""

    name: str
    text: str
    topology: Topology


def read_described(path: Path) -> Described:
    """Topology of a file, checked."""
    topology = load_topology(path)
    return Described(str(path), path.read_text(encoding="utf-8"), topology)


def published(url: str) -> Described:
    """Topology in the directory of this server. Raises `TopologyError` where there is none."""
    with LiveDirectory(url) as reading:
        entry, _ = reading.look(lambda directory: directory.topologies.get(OVERLAY))
    if entry is None:
        raise TopologyError(
            "there is no topology in the directory",
            where=server_name(url),
            advice="publish one for all nodes with --topology FILE",
        )
    name = "the topology in the directory"
    return Described(name, entry.text, parse_topology(entry.text, name=name))


def publish_topology(url: str, described: Described) -> None:
    """Publish a topology in the directory of this server."""
    publish_entries(url, {directory_topic("topology", OVERLAY): encode(TopologyEntry(_without_logins(described)))})


def publish_hints(url: str, hints: Mapping[str, HintEntry]) -> None:
    """Publish hints of placement analysis in the directory of this server, each in an entry of its own."""
    publish_entries(url, {directory_topic("hint", name): encode(hint) for name, hint in hints.items()})


def node_locations(
    names: Sequence[str], described: Described | None, *, home: str = "", site: str = "", capacity: float | None = None
) -> dict[str, NodeLocation]:
    """Locations of nodes: from options first, then from a topology.

    Raises:
        TopologyError: for an unknown site, one without a server, and a node at another site.
    """
    if home and site:
        raise DistcedError("both --home and --site", given=f"{home}, {site}", advice="either says where nodes are")
    return {name: _location(name, described, home, site, capacity) for name in names}


def _location(name: str, described: Described | None, home: str, site: str, capacity: float | None) -> NodeLocation:
    node = None if described is None else described.topology.nodes.get(name)
    if capacity is None:
        capacity = 0.0 if node is None or node.capacity is None else node.capacity
    if home:
        return NodeLocation(home, capacity)
    if node is not None and described is not None and site not in ("", node.site):
        raise TopologyError(
            f"the node {name!r} is at another site",
            given=site,
            allowed=node.site,
            where=f"{described.name}, nodes.{name}",
            advice="leave out --site, or give the node another --name",
        )
    site = site or ("" if node is None else node.site)
    if not site or described is None:
        return NodeLocation("", capacity)
    return NodeLocation(_server_of(site, described), capacity, site)


def _server_of(site: str, described: Described) -> str:
    topology = described.topology
    found: Site | None = topology.sites.get(site)
    if found is None:
        raise unknown("there is no site of this name", site, topology.sites, described.name)
    if not found.url and site != topology.directory:
        raise TopologyError(
            "a site whose server is not known",
            given=site,
            where=f"{described.name}, sites.{site}",
            advice='write url = "mqtt://host:port", or name the server with --home',
        )
    return found.url


def _without_logins(described: Described) -> str:
    sites = described.topology.sites
    if all(not site.url or parse_address(site.url).username is None for site in sites.values()):
        return described.text
    given = described.topology
    people = given.nodes.values(), given.publishers.values(), given.subscribers.values()
    shown = [replace(site, url=site.url and server_name(site.url)) for site in sites.values()]
    partitions = given.allow_partitions
    return topology_as_toml(
        Topology(shown, *people, given.links, directory=given.directory, allow_partitions=partitions)
    )
