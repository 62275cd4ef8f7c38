"""Which site each broker node of `distced broker` is at, and how much it can do: as options or a topology say.

A topology that is handed to `distced broker` becomes an entry of the directory, where every node and every other broker
finds it. Users and passwords in the URLs of its servers are for whoever has the file, and not for everybody, so they
are left out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from distced.brokers.inspect.directory_reader import Reading
from distced.middleware.bus import Bus, parse_address
from distced.middleware.bus.pool import server_name
from distced.middleware.cli.options import PATIENCE
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.wire.directory_entries import TopologyEntry, encode
from distced.middleware.wire.topics import directory_topic
from distced.policies.topology.errors import TopologyError, unknown
from distced.policies.topology.model import Site
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology, parse_topology
from distced.policies.topology.topology_writer import topology_as_toml

OVERLAY: Final = "overlay"
"""What the topology is called in the directory."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a node is.

    Attributes:
        home: the URL of the server of its site; empty for that of the directory.
        capacity: how many instances it can touch a second; 0 where nobody knows.
        site: the name of its site in the topology, at which Ray is to start it; empty for any.
    """

    home: str = ""
    capacity: float = 0.0
    site: str = ""


@dataclass(frozen=True, slots=True)
class Described:
    """A topology as it was written.

    Attributes:
        name: what errors call it.
        text: TOML.
        topology: what it says.
    """

    name: str
    text: str
    topology: Topology


def read_described(path: Path) -> Described:
    """The topology of a file, checked."""
    topology = load_topology(path)
    return Described(str(path), path.read_text(encoding="utf-8"), topology)


def published(url: str) -> Described:
    """The topology in the directory of this server; a `TopologyError` where there is none."""
    with Reading(url).open() as reading:
        entry, _ = reading.look(lambda directory: directory.topologies.get(OVERLAY))
    if entry is None:
        raise TopologyError(
            "there is no topology in the directory",
            where=server_name(url),
            advice="name one with --topology FILE; who does so first publishes it for all",
        )
    name = "the topology in the directory"
    return Described(name, entry.text, parse_topology(entry.text, name=name))


def publish(url: str, described: Described) -> None:
    """Put a topology into the directory of this server, for everybody who reads it."""
    topic = directory_topic("topology", OVERLAY)
    with Bus(url) as bus:
        bus.wait_connected(PATIENCE)
        bus.publish(topic, encode(TopologyEntry(_without_logins(described))), qos=1, retain=True)
        if not bus.flush(PATIENCE):
            raise BusError("the server has not taken the topology", where=str(bus.address))


def seats(
    names: Sequence[str], described: Described | None, *, home: str = "", site: str = "", capacity: float | None = None
) -> dict[str, Seat]:
    """Where nodes of these names are. What options say comes first, then what a topology says of a node.

    Args:
        home: the URL of their server; empty where it is not said.
        site: the name of their site in the topology; empty where it is not said.
        capacity: of each; None where it is not said.

    Raises:
        TopologyError: for a site that is not there, that has no server, or at which a node is not.
    """
    if home and site:
        raise DistcedError("both --home and --site", given=f"{home}, {site}", advice="either says where nodes are")
    return {name: _seat(name, described, home, site, capacity) for name in names}


def _seat(name: str, described: Described | None, home: str, site: str, capacity: float | None) -> Seat:
    node = None if described is None else described.topology.nodes.get(name)
    if capacity is None:
        capacity = 0.0 if node is None or node.capacity is None else node.capacity
    if home:
        return Seat(home, capacity)
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
        return Seat("", capacity)
    return Seat(_server_of(site, described), capacity, site)


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
    topology = described.topology
    return topology_as_toml(
        Topology(
            [replace(site, url=site.url and server_name(site.url)) for site in sites.values()],
            topology.nodes.values(),
            topology.publishers.values(),
            topology.subscribers.values(),
            topology.links,
            directory=topology.directory,
            allow_partitions=topology.allow_partitions,
        )
    )
