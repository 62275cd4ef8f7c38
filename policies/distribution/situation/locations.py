"""Locations of nodes, home servers, clients and streams in the network."""

from __future__ import annotations

from collections.abc import Iterable

from distced.middleware.wire.directory_entries import (
    NODE_CLIENT,
    ClientEntry,
    DetectorEntry,
    LoadEntry,
    NodeEntry,
    SourceEntry,
)
from distced.policies.distribution.policy import replicas_of
from distced.policies.distribution.situation.rates import hosting
from distced.policies.distribution.situation.readers import Stream
from distced.policies.distribution.situation.server_distance import Network
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology


class Locations:
    """Distances between sites, and directory entries with locations, by name."""

    def __init__(self, topology: Topology | None = None) -> None:
        self.network = Network(topology)
        self.nodes: dict[str, NodeEntry] = {}
        self.sources: dict[str, SourceEntry] = {}
        self.detectors: dict[str, DetectorEntry] = {}
        self.loads: dict[str, LoadEntry] = {}
        self.clients: dict[str, ClientEntry] = {}
        self.forget_sites()

    def forget_sites(self) -> None:
        """Drop the known sites of nodes: nodes have come, gone or moved."""
        self._sites: dict[str, str] = {}

    @property
    def topology(self) -> Topology | None:
        return self.network.topology

    def site_of_node(self, node: str) -> str:
        """Site of a node: by the topology, else by its entry."""
        known = self._sites.get(node)
        if known is None:
            topology = self.topology
            if topology is not None and node in topology.nodes:
                known = topology.nodes[node].site
            else:
                known = self.network.site_of_home(self.home_of_node(node))
            self._sites[node] = known
        return known

    def site_of_home(self, home: str) -> str:
        return self.network.site_of_home(home)

    def home_of_node(self, node: str) -> str:
        """Server of a node's site, as entries name it."""
        entry = self.nodes.get(node)
        return "" if entry is None else entry.home

    def place_of(self, client: str) -> Place:
        """Place of a subscription's client, an application or node; of an unknown one the directory's server."""
        if client.startswith(NODE_CLIENT):
            return Place("node", client.removeprefix(NODE_CLIENT))
        entry = self.clients.get(client)
        return Place("site", self.site_of_home("" if entry is None else entry.home))

    def site_of(self, place: Place) -> str:
        return self.site_of_node(place.name) if place.kind == "node" else self.network.site_of(place)

    def to_node(self, home: str, node: str) -> float:
        """ns between a home server and a node, measured or else by the network; inf without a path."""
        load = self.loads.get(node)
        if load is not None and home in load.latencies:
            return float(load.latencies[home])
        return self._to_site(home, self.site_of_node(node))

    def to_node_from(self, homes: Iterable[str], node: str) -> list[float]:
        """The same from several home servers, in their order."""
        load = self.loads.get(node)
        if load is None or not load.latencies:
            site = self.site_of_node(node)
            return [self._to_site(home, site) for home in homes]
        measured = load.latencies
        return [measured[home] if home in measured else self.to_node(home, node) for home in homes]

    def to_place(self, home: str, place: Place) -> float:
        """ns from a home server to a listener; inf without a path."""
        return self.to_node(home, place.name) if place.kind == "node" else self._to_site(home, self.site_of(place))

    def nearest_home(self, homes: Iterable[str], place: Place) -> str:
        """The home server nearest to a listener; of equals the first by name."""
        return min(homes, key=lambda home: (self.to_place(home, place), home))

    def _to_site(self, home: str, site: str) -> float:
        return self.network.path(self.site_of_home(home), site).latency + self.network.local(site)

    # Streams.

    def hosts(self, detector: str) -> dict[str, str]:
        """Live nodes that host a detector, the primary first, and the home servers they publish at."""
        entry = self.detectors.get(detector)
        if entry is None:
            return {}
        if not entry.replicas:
            return {entry.node: entry.home} if entry.node in self.nodes else {}
        return {node: home for node, home in hosting(entry).items() if node in self.nodes}

    def homes_of(self, stream: Stream, site: str) -> tuple[str, ...]:
        """Servers where a site reads a stream; of a detector as `homes_heard`."""
        if stream.kind == "event":
            return (self.sources[stream.name].home,) if stream.name in self.sources else ()
        if stream.kind == "heartbeat":
            return (stream.type,)
        return self.homes_heard(stream.name, site)

    def homes_heard(self, detector: str, site: str) -> tuple[str, ...]:
        """Servers where a site listens, one per publishing node: the nearest replica's, or all for reliability."""
        homes = tuple(self.hosts(detector).values())
        if len(homes) < 2 or replicas_of(self.detectors[detector].distribution) > 1:
            return homes
        nearest = min(homes, key=lambda home: (self.network.path(self.site_of_home(home), site).latency, home))
        return tuple(home for home in homes if home == nearest)
