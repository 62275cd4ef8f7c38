"""The situation policies decide in: the network, and of the directory what they look at.

composite-event-framework-2004, "Distribution Policies": detectors that are aware of the load of nodes and of the
latency to publishers and subscribers decide better. A node keeps one `Situation` along with the directory: each change
of an entry is handed to `changed`, which only notes it, and what follows from entries is reckoned when somebody asks.
So a detector is placed without looking at all the others once more: `reading`, `carried`, `work` and `measures` each
keep what the change has not touched. `suggest` and the others read it and change nothing.

*Who pays for what.* A stream travels from its home server to each node that reads it (`reading`), along the shortest
way by latency, and not as a tree, for connections know nothing of one another. A detector's output goes from its node
to its home server, and from there to each connection that listens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import (
    NODE_CLIENT,
    ClientEntry,
    DetectorEntry,
    HintEntry,
    LoadEntry,
    Measured,
    NodeEntry,
    SourceEntry,
)
from distced.policies.distribution.policy import replicas_of
from distced.policies.distribution.situation.link_traffic import Carried
from distced.policies.distribution.situation.node_load import Work
from distced.policies.distribution.situation.rates import Measures, hosting
from distced.policies.distribution.situation.readers import Reading, Stream
from distced.policies.distribution.situation.server_distance import Network
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology


class Situation:
    """The network and the directory, as far as policies look at them.

    Whoever made it keeps it up to date; everybody else only reads it.

    Attributes:
        network: ways between sites.
        nodes, sources, detectors, loads, clients, hints: entries of the directory, by name.
        reading: who reads what.
        measures: how much there is of everything.
        remembered_delays: what `delays` has reckoned, for as long as nothing changes.
    """

    def __init__(self, topology: Topology | None = None) -> None:
        self.network = Network(topology)
        self.nodes: dict[str, NodeEntry] = {}
        self.sources: dict[str, SourceEntry] = {}
        self.detectors: dict[str, DetectorEntry] = {}
        self.loads: dict[str, LoadEntry] = {}
        self.clients: dict[str, ClientEntry] = {}
        self.hints: dict[str, HintEntry] = {}
        self.reading = Reading(self.sources, self.detectors)
        self.measures = Measures(self.reading, self.loads, topology)
        self._carried = Carried(self)
        self._work = Work(self.nodes, self.detectors, self.loads, self.measures, topology)
        self._forget_places()

    @classmethod
    def of(cls, entries: Entries, topology: Topology | None = None) -> Situation:
        """The situation that a directory shows, in a network; None for a network nobody knows."""
        situation = cls(topology)
        situation.nodes.update(entries.nodes)
        situation.sources.update(entries.sources)
        situation.detectors.update(entries.detectors)
        situation.loads.update(entries.loads)
        situation.clients.update(entries.clients)
        for name, hint in entries.hints.items():
            situation.changed("hint", name, hint)
        return situation

    def copy(self) -> Situation:
        """The same, to be changed by somebody else."""
        other = Situation(self.topology)
        other.network = self.network
        other.nodes.update(self.nodes)
        other.sources.update(self.sources)
        other.detectors.update(self.detectors)
        other.loads.update(self.loads)
        other.clients.update(self.clients)
        other.hints.update(self.hints)
        other.measures.expected.update(self.measures.expected)
        other.measures.foreseen.update(self.measures.foreseen)
        other.measures.streams.update(self.measures.streams)
        return other

    @property
    def topology(self) -> Topology | None:
        """The topology; None where none is known."""
        return self.network.topology

    # Keeping it up to date.

    def changed(self, kind: str, name: str, entry: Any) -> None:
        """An entry of the directory is new, is another, or was cleared (None).

        Kinds that are not looked at change nothing. Where the topology becomes another, make a new `Situation`.
        """
        match kind:
            case "detector":
                before = self.detectors.get(name)
                if self.reading.change(name, entry):
                    self.measures.forget_all()
                    self._carried.forget()
                self._carried.change(name, before, entry)
                self._work.change(name, before, entry)
                self.measures.change_detector(name, before, entry)
                if entry is None:
                    self.measures.expected.pop(name, None)
                self._forget(*(node for each in (before, entry) if each is not None for node in hosting(each)))
            case "source":
                _put(self.sources, name, entry)
                self.reading.forget()
                self.measures.forget_all()
                self._carried.forget()
                self._forget()
            case "node":
                known = self.nodes.get(name)
                _put(self.nodes, name, entry)
                # It tells its counters every few seconds, which make no difference here.
                if known is None or entry is None or (known.home, known.capacity) != (entry.home, entry.capacity):
                    self._forget_places()
            case "load":
                _put(self.loads, name, entry)
                self.measures.change_load(name)
                self._forget(name)
            case "client":
                _put(self.clients, name, entry)
            case "hint":
                _put(self.hints, name, entry)
                _put(self.measures.foreseen, name, None if entry is None else entry.foreseen)
                self.measures.forget_all()
                self._forget()

    def expect(self, detector: str, does: Measured | None) -> None:
        """What a detector is expected to do until that is measured; None for nothing any more."""
        _put(self.measures.expected, detector, does)
        self.measures.forget()
        self._forget()

    def _forget(self, *nodes: str) -> None:
        """Something has changed; also what these nodes tell, or the detectors they host."""
        self._work.forget(*nodes)
        self._bytes: float | None = None
        # By detector and node; see `delays`.
        self.remembered_delays: dict[tuple[str, str], float] = {}

    def _forget_places(self) -> None:
        self._sites: dict[str, str] = {}
        self._carried.forget()
        self._work.forget_nodes()
        self._forget()

    # Where things are.

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

    # Who hosts, and who hears whom.

    def hosts(self, detector: str) -> dict[str, str]:
        """The living nodes that host a detector, the primary first, and the home servers they publish at."""
        entry = self.detectors.get(detector)
        if entry is None:
            return {}
        if not entry.copies:
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
        """The servers where somebody at a site listens to a detector, each as often as there are nodes that publish
        there: of a detector with copies the nearest, or all where the copies are there for the sake of reliability."""
        homes = tuple(self.hosts(detector).values())
        if len(homes) < 2 or replicas_of(self.detectors[detector].distribution) > 1:
            return homes
        nearest = min(homes, key=lambda home: (self._distance(self.site_of_home(home), site), home))
        return tuple(home for home in homes if home == nearest)

    def _distance(self, origin: str, target: str) -> float:
        way = self.network.way(origin, target)
        return float("inf") if way is None else way.latency

    # How much nodes have to do.

    def load(self, node: str) -> float:
        """Instances touched a second at a node, by all its detectors."""
        return self._work.load(node)

    def capacity(self, node: str) -> float:
        """Instances a node can touch a second. Where that is known of some nodes only, others are taken to be like
        their mean; where it is known of none it is 1, so that loads compare as they are."""
        return self._work.capacity(node)

    @property
    def knows_capacity(self) -> bool:
        """Whether the capacity of any node is known, so that uses are shares of it."""
        return self._work.knows_capacity

    def use(self, node: str) -> float:
        """The load of a node as a share of its capacity; the load itself where no capacity is known."""
        return self.load(node) / self.capacity(node)

    @property
    def uses(self) -> Mapping[str, float]:
        """The use of each node there is, sorted by name."""
        return self._work.uses

    @property
    def busiest(self) -> tuple[str, float]:
        """The node that is used the most, and its use; ("", 0) without nodes."""
        return max(self.uses.items(), key=lambda each: each[1], default=("", 0.0))

    # Bytes over links.

    @property
    def bytes_over_links(self) -> float:
        """Bytes a second that all links together carry now."""
        if self._bytes is None:
            self._bytes = self._carried.bytes_over_links
        return self._bytes

    @property
    def bytes_by_link(self) -> dict[tuple[str, str], float]:
        """Bytes a second that each link carries now, by (from site, to site)."""
        return self._carried.bytes_by_link

    @property
    def bytes_by_ends(self) -> dict[tuple[str, str], float]:
        """Bytes a second that are sent from a site for another one, whatever ways they take, by (from, to)."""
        return self._carried.bytes_by_ends


def _put(table: dict[str, Any], name: str, entry: Any) -> None:
    if entry is None:
        table.pop(name, None)
    else:
        table[name] = entry
