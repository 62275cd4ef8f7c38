"""Distances between servers: by the topology, or assumed.

composite-event-framework-2004, "Distribution Policies": detectors "that are aware of the communication latency" place
themselves better. The path is the one of least latency, as in `policies.topology`. Without a topology, each home server
is a site at the same distance from all others, as is a site the topology lacks. A `Topology` of these was rejected: a
hundred servers have five thousand links.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from distced.middleware.model.timestamps import MILLISECOND
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.model import LOCAL_LATENCY, Place
from distced.policies.topology.topology import Topology

ASSUMED_LATENCY: Final = 10 * MILLISECOND
"""ns between the servers of unknown sites."""

DIRECTORY_SITE: Final = "directory"
"""Name of the site of the directory's server without a topology."""


class ServerDistance(NamedTuple):
    """Path between servers: latency of a small message, ns; links as (from site, to site); total cost of a byte."""

    latency: float
    links: tuple[tuple[str, str], ...]
    cost: float

    @property
    def hops(self) -> int:
        """Number of links."""
        return len(self.links)


_HERE: Final = ServerDistance(0.0, (), 0.0)
_APART: Final = ServerDistance(inf, (), 0.0)


class Network:
    """Sites and cached paths; `topology`, None where unknown; `directory`: site of the directory's server."""

    def __init__(self, topology: Topology | None) -> None:
        self.topology = topology
        self.directory = DIRECTORY_SITE if topology is None else topology.directory
        self._paths: dict[tuple[str, str], ServerDistance] = {}
        self._homes: dict[str, str] = {"": self.directory}

    def site_of_home(self, home: str) -> str:
        """Site of a home server; one that the topology lacks is a site of its own, with its name."""
        known = self._homes.get(home)
        if known is None:
            try:
                known = home if self.topology is None else self.topology.site_of_home(home).name
            except TopologyError:
                known = home
            self._homes[home] = known
        return known

    def site_of(self, place: Place) -> str:
        """Site of a place of the topology."""
        if place.kind == "site":
            return place.name
        if self.topology is None:
            raise TopologyError(
                f"no topology says where a {place.kind} is", given=place.name, allowed="the server of its site"
            )
        return self.topology.site_of(place).name

    def path(self, origin: str, target: str) -> ServerDistance:
        """Path between the servers of two sites; without one it has infinite latency and no link."""
        try:
            return self._paths[origin, target]
        except KeyError:
            found = self._paths[origin, target] = self._path(origin, target)
            return found

    def transfer(self, origin: str, target: str, size: int) -> float:
        """Delay of n bytes between the servers of two sites, ns; 0 without a path."""
        topology = self.topology
        if topology is not None and origin in topology.sites and target in topology.sites:
            path = topology.find_path(Place("site", origin), Place("site", target))
            return 0.0 if path is None else float(path.time(size))
        return self.path(origin, target).latency

    def local(self, site: str) -> int:
        """ns between the server of a site and its clients."""
        known = None if self.topology is None else self.topology.sites.get(site)
        return LOCAL_LATENCY if known is None else known.local_latency

    def _path(self, origin: str, target: str) -> ServerDistance:
        if origin == target:
            return _HERE
        topology = self.topology
        if topology is None or origin not in topology.sites or target not in topology.sites:
            return ServerDistance(float(ASSUMED_LATENCY), ((origin, target),), 1.0)
        path = topology.find_path(Place("site", origin), Place("site", target))
        if path is None:
            return _APART
        return ServerDistance(float(path.latency), tuple((hop.origin, hop.target) for hop in path.hops), path.cost)
