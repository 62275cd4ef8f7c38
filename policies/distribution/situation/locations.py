"""Locations of nodes, home servers and clients in the network, and of the servers streams are read at."""

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
    """Entries of the directory, as far as they say where something is, and the network they are in.

    Attributes:
        network: distances between sites.
        nodes, sources, detectors, loads, clients: entries of the directory, by name.
    """

    def __init__(self, topology: Topology | None = None) -> None:
        self.network = Network(topology)
        self.nodes: dict[str, NodeEntry] = {}
        self.sources: dict[str, SourceEntry] = {}
        self.detectors: dict[str, DetectorEntry] = {}
        self.loads: dict[str, LoadEntry] = {}
        self.clients: dict[str, ClientEntry] = {}
        self.forget_sites()

    def forget_sites(self) -> None:
        """Look the sites of nodes up again: nodes have come, gone or moved."""
        self._sites: dict[str, str] = {}

    @property
    def topology(self) -> Topology | None:
        """The topology; None where none is known."""
        return self.network.topology

    def site_of_node(self, node: str) -> str:
        """The site where a node is: by the topology, else by its entry."""
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
        """The site of a home server."""
        return self.network.site_of_home(home)

    def home_of_node(self, node: str) -> str:
        """The server of a node's own site, as entries name it."""
        entry = self.nodes.get(node)
        return "" if entry is None else entry.home

    def place_of(self, client: str) -> Place:
        """Where somebody is who subscribes.

        Args:
            client: of a `SubscriptionEntry`: an application, or a node that reads a part of a pattern. Who is not in
                the directory is taken to be at the directory's server.
        """
        if client.startswith(NODE_CLIENT):
            return Place("node", client.removeprefix(NODE_CLIENT))
        entry = self.clients.get(client)
        return Place("site", self.site_of_home("" if entry is None else entry.home))

    def site_of(self, place: Place) -> str:
        """The site of a place."""
        return self.site_of_node(place.name) if place.kind == "node" else self.network.site_of(place)

    def to_node(self, home: str, node: str) -> float:
        """ns from a home server to a node, and as long the other way: as it measured, else by the network; inf where
        there is no way."""
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
        """ns from a home server to somebody who listens; inf where there is no way."""
        return self.to_node(home, place.name) if place.kind == "node" else self._to_site(home, self.site_of(place))

    def _to_site(self, home: str, site: str) -> float:
        way = self.network.way(self.site_of_home(home), site)
        return float("inf") if way is None else way.latency + self.network.local(site)

    # Streams.

    def hosts(self, detector: str) -> dict[str, str]:
        """The living nodes that host a detector, the primary first, and the home servers they publish at."""
        entry = self.detectors.get(detector)
        if entry is None:
            return {}
        if not entry.replicas:
            return {entry.node: entry.home} if entry.node in self.nodes else {}
        return {node: home for node, home in hosting(entry).items() if node in self.nodes}

    def homes_of(self, stream: Stream, site: str) -> tuple[str, ...]:
        """The servers where somebody at a site reads a stream; of a detector as `homes_heard`."""
        if stream.kind == "event":
            return (self.sources[stream.name].home,) if stream.name in self.sources else ()
        if stream.kind == "heartbeat":
            return (stream.type,)
        return self.homes_heard(stream.name, site)

    def homes_heard(self, detector: str, site: str) -> tuple[str, ...]:
        """Servers where a site listens to a detector, each once for every node that publishes there: the nearest
        replica, or all of them under a policy with replicas for reliability."""
        homes = tuple(self.hosts(detector).values())
        if len(homes) < 2 or replicas_of(self.detectors[detector].distribution) > 1:
            return homes
        nearest = min(homes, key=lambda home: (self._distance(self.site_of_home(home), site), home))
        return tuple(home for home in homes if home == nearest)

    def _distance(self, origin: str, target: str) -> float:
        way = self.network.way(origin, target)
        return float("inf") if way is None else way.latency
